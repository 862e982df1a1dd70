#include <CLI/CLI.hpp>

#include <algorithm>

#include "cli/simulate.h"

namespace weft {
namespace {

// What each of the prints that take the table's place depends on, beside --device and --set.
struct Print {
  const char* name;
  std::vector<std::string> takes;
};
const Print kPrints[] = {
    {"--kernels", {}},
    {"--constants", {}},
    {"--search",
     {"--model", "--context", "--output", "--in-flight", "--rounds", "--launch-layers"}},
    {"--sensitivity",
     {"--model", "--context", "--output", "--rounds", "--decode-cores", "--itl-target-ms",
      "--pass-rows", "--launch-layers"}},
};
// Of the table, and so of no print but those that name it.
constexpr const char* kOfRuns[] = {
    "--model",         "--mode",         "--context",       "--output",    "--in-flight",
    "--rounds",        "--decode-cores", "--itl-target-ms", "--pass-rows", "--chunk-rows",
    "--launch-layers", "--json",         "--svg",           "--trace",     "--operator-trace"};

// Nothing that was asked for may be dropped in silence.
void refuse_what_no_print_takes(const CLI::App& command) {
  std::string prints;
  std::vector<std::string> taken;
  for (const Print& print : kPrints) {
    if (command.count(print.name) == 0) continue;
    prints += (prints.empty() ? "" : ", ") + std::string(print.name);
    taken.insert(taken.end(), print.takes.begin(), print.takes.end());
  }
  if (prints.empty()) return;
  for (const char* name : kOfRuns) {
    if (command.count(name) == 0) continue;
    if (std::find(taken.begin(), taken.end(), name) != taken.end()) continue;
    throw CLI::ValidationError(name, "has no meaning with " + prints + "; leave one of them out");
  }
}

}  // namespace

void add_simulate(CLI::App& app, SimulateOptions& options) {
  CLI::App* command = app.add_subcommand(
      "simulate", "What the Ascend kernels and each mode would give on a chip, by its clock");
  command->add_option("--device", options.devices, "article, 910b1, 910b2, 910b3, 910b4; or all")
      ->delimiter(',')
      ->type_name("CHIP,...")
      ->capture_default_str();
  command
      ->add_option("--model", options.models,
                   "A shape's name, a GGUF file or a config.json; several may be given")
      ->delimiter(',')
      ->type_name("MODEL,...")
      ->capture_default_str();
  command->add_option("--set", options.changes, "Another value of a constant of the chip")
      ->type_name("NAME=VALUE");
  command
      ->add_option_function<std::vector<std::string>>(
          "--mode",
          [&options](const std::vector<std::string>& names) {
            options.modes.clear();
            for (const std::string& name : names) {
              const auto mode = find_mode(name);
              if (!mode) throw CLI::ValidationError("--mode", "no mode '" + name + "'");
              options.modes.push_back(*mode);
            }
          },
          "serial, chunked, layered, fused, split, auto (default: all)")
      ->delimiter(',')
      ->type_name("MODE,...");
  command->add_option("--context", options.context, "Tokens of each prompt")
      ->check(CLI::Range(1, 131072))
      ->capture_default_str();
  command->add_option("--output", options.output, "Tokens that each request generates")
      ->check(CLI::Range(1, 131072))
      ->capture_default_str();
  command->add_option("--in-flight", options.in_flight, "Requests at once: a new one as one ends")
      ->delimiter(',')
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
  command->add_option("--rounds", options.rounds, "Requests of a run, for each in flight")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--decode-cores", options.decode_cores, "Of split and auto (default: half)")
      ->check(CLI::Range(1, 63));
  command
      ->add_option("--itl-target-ms", options.itl_target,
                   "Gap between a stream's tokens (default: four steps, at least 50)")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("MS");
  command->add_option("--pass-rows", options.pass_rows, "Rows of prompts in a pass at the most")
      ->check(CLI::Range(16, 16384))
      ->capture_default_str();
  command->add_option("--chunk-rows", options.chunk_rows, "Of mode chunked")
      ->check(CLI::Range(16, 16384))
      ->capture_default_str();
  command->add_flag("--launch-layers", options.launch_layers,
                    "A kernel for each layer, in place of one that is resident");
  command->add_flag("--search", options.search,
                    "Try splits, targets and passes, and print the best of each number in flight");
  command->add_flag("--sensitivity", options.sensitivity,
                    "Bandwidth, flag latency and cube efficiency 20 % up and down");
  command->add_flag("--kernels", options.kernels, "Single kernels against the chip's limits");
  command->add_flag("--constants", options.constants, "The chip's constants and their sources");
  command
      ->add_option("--json", options.json,
                   "Write the figures as JSON; -: to standard output in place of the table")
      ->type_name("FILE");
  command->add_option("--svg", options.svg, "Write a picture")->type_name("FILE");
  command->add_option("--trace", options.trace, "Write the last run's quanta, for Perfetto")
      ->type_name("FILE");
  command
      ->add_option("--operator-trace", options.operator_trace,
                   "Write the operators of the last run's first second, for Perfetto")
      ->type_name("FILE");
  command->parse_complete_callback([command] { refuse_what_no_print_takes(*command); });
}

}  // namespace weft
