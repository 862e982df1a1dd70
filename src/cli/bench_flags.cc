#include "cli/bench_flags.h"

#include "cli/byte_size.h"
#include "cli/flag_groups.h"
#include "cli/workload_flags.h"

namespace weft {
namespace {

// A flag that takes a list of values, each parsed by itself.
template <class T, class Parse>
CLI::Option* add_parsed_list(CLI::App& app, const std::string& name, std::vector<T>& target,
                             Parse parse, const std::string& help) {
  return app
      .add_option_function<std::vector<std::string>>(
          name,
          [&target, parse, name](const std::vector<std::string>& texts) {
            target.clear();
            for (const std::string& text : texts) {
              auto value = parse(text);
              if (!value.ok()) throw CLI::ValidationError(name, value.error().message);
              target.push_back(std::move(value).value());
            }
          },
          help)
      ->delimiter(',');
}

Result<DType> parse_dtype(const std::string& text) {
  if (const std::optional<DType> type = dtype_from_name(text)) return *type;
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("no weight type '{}'; as in Q8_0, Q4_K, BF16", text)};
}

}  // namespace

void add_bench_model(CLI::App& bench, BenchModelOptions& options) {
  CLI::App* command = bench.add_subcommand(
      "model", "How fast prompts are read and tokens generated, in tokens per second");
  add_model_flags(*command, options.load);
  command->add_option("--prompts", options.prompts, "Lengths of prompts")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--streams", options.streams, "Sequences that generate at once")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--tokens", options.tokens, "Tokens that each sequence generates")
      ->check(CLI::Range(2, 1 << 16))
      ->capture_default_str();
  command
      ->add_option("--rounds", options.rounds,
                   "Rounds (default: 3, with a peer 7: a comparison means little below)")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--peer", options.peer,
                   "A shell command run in turn with each round: llama-bench with -o json, or a "
                   "program that prints {\"prefill 512\": 300.0, \"decode x4\": 90.0}")
      ->type_name("COMMAND");
  command->add_option("--chunk-rows", options.load.pass_rows, "Prompt tokens in one step at most")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command->add_flag("--json", options.json, "As JSON");
}

void add_bench_kernels(CLI::App& bench, BenchKernelsOptions& options) {
  CLI::App* command = bench.add_subcommand(
      "kernels", "How close the kernels come to what this machine can do, which is measured first");
  add_parsed_list(*command, "--shapes", options.shapes, find_dummy_shape,
                  "Models whose layers are measured: " + dummy_shape_names())
      ->type_name("SHAPE,...");
  add_parsed_list(*command, "--types", options.types, parse_dtype,
                  "Weight types (default: Q8_0,Q4_0,Q4_K)")
      ->type_name("TYPE,...");
  command->add_option("--rows", options.rows, "Rows of activations")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 14))
      ->capture_default_str();
  command->add_option("--contexts", options.contexts, "Keys of attention")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--only", options.kernels, "Kernels: matmul, attention, sampling")
      ->delimiter(',')
      ->check(CLI::IsMember({"matmul", "attention", "sampling"}))
      ->capture_default_str();
  command->add_option("--kv-type", options.kv_type, "Type of stored keys and values")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16", "q8_0"}))
      ->capture_default_str();
  command->add_option("--isa", options.isa, "Instruction set: auto, ref, or one this CPU has")
      ->capture_default_str();
  command
      ->add_option("--threads", options.threads,
                   "Threads that compute (default: the physical cores it may use)")
      ->check(CLI::Range(1, 1024));
  command->add_option("--rounds", options.rounds, "Rounds, each with a look at the limits")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_parsed(*command, "--memory", options.memory, parse_bytes,
             "Weights that are read in turn, so that none is cached (default: 1G)")
      ->type_name("SIZE");
  command->add_flag("--json", options.json, "As JSON");
}

void add_bench_mixed(CLI::App& bench, BenchMixedOptions& options) {
  CLI::App* command = bench.add_subcommand(
      "mixed",
      "Chat streams and prompts together: token gaps, first tokens and throughput in each "
      "mode, and of other servers");
  add_model_flags(*command, options.load);
  add_scheduling_flags(*command, options.scheduling);
  command->remove_option(command->get_option("--mode"));
  command->get_option("--itl-target-ms")
      ->description(
          "What gaps between a stream's tokens are held to, and what goodput asks of them "
          "(default: 60; of large models 250)");
  command
      ->add_option_function<std::vector<std::string>>(
          "--modes",
          [&options](const std::vector<std::string>& names) {
            if (names == std::vector<std::string>{"none"}) {
              options.modes.emplace();
              return;
            }
            auto modes = parse_modes(names);
            if (!modes.ok())
              throw CLI::ValidationError("--modes", modes.error().message + ", or none");
            options.modes = std::move(modes).value();
          },
          "Modes to measure, or none (default: all; with --quick serial,fused,split)")
      ->delimiter(',')
      ->type_name("MODE,...");
  add_workload_flags(*command, options.workload);
  command->add_flag("--in-process", options.in_process,
                    "Drive the engine itself, without HTTP between");
  command
      ->add_option("--against", options.against,
                   "Another server of OpenAI's API with the same model; several may be given")
      ->type_name("URL");
  command->add_flag("--as-text", options.as_text,
                    "Send other servers text: for those that take no token ids");
  command
      ->add_option("--ttft-target-ms", options.ttft_target,
                   "What goodput asks of first tokens (default: 2000; of large models 10000)")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("MS");
  command->add_option("--repeats", options.repeats, "Rounds of all that is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--json", options.json,
                   "Write the figures as JSON; -: to standard output in place of the table")
      ->type_name("FILE");
  command->add_option("--html", options.html, "Write a page with pictures")->type_name("FILE");
  command->add_option("--svg", options.svg, "Write the pictures alone")->type_name("FILE");
  for (const char* name : {"--json", "--html", "--svg", "--trace"})
    command->get_option(name)->check(named_file());
  command->parse_complete_callback(
      [command, &options] { check_workload_flags(*command, options.workload.kind); });
}

}  // namespace weft
