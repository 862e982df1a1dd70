#include <CLI/CLI.hpp>

#include <algorithm>

#include "cli/flag_groups.h"
#include "cli/simulate.h"
#include "cli/workload_flags.h"

namespace weft {
namespace {

// What each of the prints depends on, beside --device and --set.
struct Print {
  const char* name;
  SimulatePrint print;
  std::vector<std::string> takes;
};
const Print kPrints[] = {
    {"--kernels", SimulatePrint::kKernels, {"--markdown"}},
    {"--check", SimulatePrint::kCheck, {"--model", "--weights", "--markdown"}},
    {"--constants", SimulatePrint::kConstants, {"--markdown"}},
    {"--search",
     SimulatePrint::kSearch,
     {"--model", "--weights", "--context", "--output", "--in-flight", "--rounds", "--chunk-rows",
      "--launch-layers", "--markdown", "--json"}},
    {"--sensitivity",
     SimulatePrint::kSensitivity,
     {"--model", "--weights", "--context", "--output", "--rounds", "--decode-cores",
      "--itl-target-ms", "--pass-rows", "--launch-layers", "--markdown"}},
    {"--workload",
     SimulatePrint::kWorkload,
     {"--model",         "--weights",   "--mode",       "--in-flight",     "--decode-cores",
      "--itl-target-ms", "--pass-rows", "--chunk-rows", "--launch-layers", "--json",
      "--svg",           "--prompts",   "--then",       "--streams",       "--outputs",
      "--requests",      "--rate",      "--trace-in",   "--seed",          "--quick"}},
    {"--timeline",
     SimulatePrint::kTimeline,
     {"--model", "--weights", "--mode", "--context", "--output", "--in-flight", "--decode-cores",
      "--itl-target-ms", "--pass-rows", "--chunk-rows", "--launch-layers"}},
};
// Without one of those names.
const Print kTable = {
    "the table",
    SimulatePrint::kTable,
    {"--model", "--weights", "--mode", "--context", "--output", "--in-flight", "--rounds",
     "--decode-cores", "--itl-target-ms", "--pass-rows", "--chunk-rows", "--launch-layers",
     "--markdown", "--json", "--svg", "--trace", "--operator-trace"}};

// Nothing that was asked for may be dropped in silence.
SimulatePrint find_print(const CLI::App& command) {
  const Print* asked = nullptr;
  for (const Print& print : kPrints) {
    if (command.count(print.name) == 0) continue;
    if (asked != nullptr) {
      throw CLI::ValidationError(print.name, std::string("is another answer than ") + asked->name +
                                                 " gives; ask for one at a time");
    }
    asked = &print;
  }
  const Print& print = asked != nullptr ? *asked : kTable;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || name == print.name || name == "--device" || name == "--set")
      continue;
    if (std::find(print.takes.begin(), print.takes.end(), name) == print.takes.end()) {
      throw CLI::ValidationError(
          name, std::string("has no meaning with ") + print.name + "; leave it out");
    }
  }
  return print.print;
}

std::vector<Mode> modes_of(const std::string& flag, const std::vector<std::string>& names) {
  auto modes = parse_modes(names);
  if (!modes.ok()) throw CLI::ValidationError(flag, modes.error().message);
  return std::move(modes).value();
}

std::string lower_case(std::string text) { return CLI::detail::to_lower(std::move(text)); }

void add_subjects(CLI::App& command, SimulateOptions& options) {
  command.add_option("--device", options.devices, "article, 910b1, 910b2, 910b3, 910b4; or all")
      ->delimiter(',')
      ->transform(CLI::Validator(
          [](std::string& name) {
            name = lower_case(std::move(name));
            return std::string();
          },
          "", ""))
      ->type_name("CHIP,...")
      ->capture_default_str();
  command
      .add_option("--model", options.models,
                  "A shape's name, a GGUF file or a config.json; several may be given")
      ->delimiter(',')
      ->type_name("MODEL,...")
      ->capture_default_str();
  command
      .add_option_function<std::string>(
          "--weights", [&options](const std::string& type) { options.int8 = type == "int8"; },
          "half (default) or int8, as the kernels have them")
      ->check(CLI::IsMember({"half", "int8"}))
      ->type_name("TYPE");
  command
      .add_option("--set", options.changes,
                  "Another value of a constant of the chip, or a factor on it; --constants lists "
                  "them")
      ->type_name("NAME=VALUE or NAME*FACTOR");
}

void add_prints(CLI::App& command, SimulateOptions& options) {
  command
      .add_option_function<std::string>(
          "--search",
          [&options](const std::string& text) {
            if (!text.empty())
              options.searched = modes_of("--search", CLI::detail::split(text, ','));
          },
          "Try modes (default: fused,split) with splits, gap targets and passes, and print the "
          "best of each number in flight (default: 8)")
      ->expected(0, 1)
      ->type_name("MODE,...");
  const std::pair<const char*, std::string> flags[] = {
      {"--sensitivity", "Bandwidth, flag latency and cube efficiency 20 % up and down"},
      {"--kernels", "Single kernels against the chip's limits"},
      {"--check", "Operators added up and interpolated, against whole quanta and exact shapes"},
      {"--constants", "The chip's constants and their sources"}};
  for (const auto& [name, help] : flags) command.add_flag(name, help);
  command
      .add_option("--timeline", options.timeline,
                  "Draw what runs when, in serial, fused and split, while a prompt comes to "
                  "running streams (--in-flight, default: 4)")
      ->check(named_file())
      ->type_name("FILE.svg");
}

void add_loads(CLI::App& command, SimulateOptions& options) {
  add_workload_flags(command, options.workload);
  command.get_option("--workload")
      ->description(
          "Play what `weft bench mixed` plays: long, closed, poisson, burst, "
          "short-after-long or trace");
  command.remove_option(command.get_option("--in-flight"));
  command
      .add_option_function<std::vector<std::string>>(
          "--mode",
          [&options](const std::vector<std::string>& names) {
            options.modes = modes_of("--mode", names);
          },
          "serial, chunked, layered, fused, split, auto (default: all)")
      ->delimiter(',')
      ->type_name("MODE,...");
  command.add_option("--context", options.context, "Tokens of each prompt")
      ->check(CLI::Range(1, 131072))
      ->capture_default_str();
  command.add_option("--output", options.output, "Tokens that each request generates")
      ->check(CLI::Range(1, 131072))
      ->capture_default_str();
  command
      .add_option("--in-flight", options.in_flight,
                  "Requests at once: a new one as one ends (default: 1,2,4,8,16)")
      ->delimiter(',')
      ->check(CLI::Range(1, 128));
  command.add_option("--rounds", options.rounds, "Requests of a run, for each in flight")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void add_settings(CLI::App& command, SimulateOptions& options) {
  command
      .add_option("--decode-cores", options.decode_cores,
                  "For streams, in split and auto (default: half)")
      ->check(CLI::Range(1, 63));
  command
      .add_option("--itl-target-ms", options.itl_target,
                  "Gap between a stream's tokens (default: four steps, at least 50)")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("MS");
  command.add_option("--pass-rows", options.pass_rows, "Rows of prompts in a pass at the most")
      ->check(CLI::Range(16, 16384))
      ->capture_default_str();
  command.add_option("--chunk-rows", options.chunk_rows, "Rows of a prompt in a step, in chunked")
      ->check(CLI::Range(16, 16384))
      ->capture_default_str();
  command.add_flag("--launch-layers", options.launch_layers,
                   "A kernel for each layer, in place of one that is resident");
}

void add_outputs(CLI::App& command, SimulateOptions& options) {
  command.add_flag("--markdown", options.markdown, "Tables as Markdown");
  command
      .add_option("--json", options.json,
                  "Write the figures as JSON; -: to standard output in place of the table")
      ->type_name("FILE");
  command.add_option("--svg", options.svg, "Write a picture")->type_name("FILE");
  command.add_option("--trace", options.trace, "Write the last run's quanta, for Perfetto")
      ->type_name("FILE");
  command
      .add_option("--operator-trace", options.operator_trace,
                  "Write the operators of the last run's first second, for Perfetto")
      ->type_name("FILE");
  for (const char* name : {"--json", "--svg", "--trace", "--operator-trace"})
    command.get_option(name)->check(named_file());
}

}  // namespace

void add_simulate(CLI::App& app, SimulateOptions& options) {
  CLI::App* command = app.add_subcommand(
      "simulate", "What the Ascend kernels and each mode would give on a chip, by its clock");
  add_subjects(*command, options);
  add_prints(*command, options);
  add_loads(*command, options);
  add_settings(*command, options);
  add_outputs(*command, options);
  command->parse_complete_callback([command, &options] {
    options.print = find_print(*command);
    if (options.print == SimulatePrint::kWorkload)
      check_workload_flags(*command, options.workload.kind);
  });
}

}  // namespace weft
