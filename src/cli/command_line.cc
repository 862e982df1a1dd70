#include "cli/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <sstream>

#include "cli/bench_flags.h"
#include "cli/config_file.h"
#include "cli/flag_groups.h"

namespace weft {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done; 1 it failed while running; 2 the command line is wrong; 3 the model "
    "cannot be used;\n"
    "4 not enough memory; 130 interrupted.";

struct Options {
  RunOptions run;
  ChatOptions chat;
  ServeOptions serve;
  ScoreOptions score;
  DummyOptions dummy;
  InspectOptions inspect;
  BenchModelOptions bench_model;
  BenchKernelsOptions bench_kernels;
  BenchMixedOptions bench_mixed;
  SimulateOptions simulate;
};

void add_run(CLI::App& app, RunOptions& options) {
  CLI::App* command = app.add_subcommand(
      "run", "Answer one prompt: the text on standard output, figures on standard error");
  add_model_flags(*command, options.load);
  command->add_option("-p,--prompt", options.prompt, "The prompt")->required();
  command->add_flag("--raw", options.raw,
                    "Continue the prompt as it is, without the model's chat template");
  command->add_flag("--ignore-eos", options.generation.ignore_eos,
                    "Go on past the end of the answer");
  add_generation_flags(*command, options.generation);
}

void add_chat(CLI::App& app, ChatOptions& options) {
  CLI::App* command = app.add_subcommand(
      "chat", "Talk to the model; /reset forgets, /quit leaves, Ctrl-C stops an answer");
  add_model_flags(*command, options.load);
  add_generation_flags(*command, options.generation);
}

void add_serve(CLI::App& app, ServeOptions& options) {
  CLI::App* command = app.add_subcommand("serve", "Serve the model over HTTP as OpenAI's API");
  command->option_defaults()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);  // after --config's
  add_model_flags(*command, options.load);
  command
      ->add_option_function<std::string>(
          "--model",
          [&options](const std::string& path) {
            if (options.load.model.empty()) options.load.model = path;
          },
          "MODEL where none is given, for --config")
      ->type_name("FILE");
  command
      ->add_option("--config",
                   "A TOML file with these flags: port = 8000; the command line goes first")
      ->type_name("FILE");
  command->add_option("--host", options.server.host, "Address to listen at")->capture_default_str();
  command->add_option("--port", options.server.port, "Port; 0: a free one")->capture_default_str();
  command->add_option("--name", options.server.model_name,
                      "What clients call the model (default: the file's name)");
  command
      ->add_option("--max-sequences", options.load.max_sequences,
                   "Sequences that run at once; more wait")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  add_scheduling_flags(*command, options.scheduling);
  command->add_option("--metrics-prefix", options.metrics_prefix, "Before the name of every metric")
      ->capture_default_str();
  command
      ->add_option("--drain-seconds", options.drain_seconds,
                   "How long running requests may go on after SIGTERM")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_option("--log-level", options.log_level, "What is logged to standard error")
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}))
      ->capture_default_str();
}

void add_score(CLI::App& app, ScoreOptions& options) {
  CLI::App* command = app.add_subcommand(
      "score", "Mean NLL and the eight top logits at each position of a token list, as JSON");
  add_model_flags(*command, options.load);
  command->add_option("--ids", options.ids, "A JSON array of token ids")
      ->required()
      ->type_name("FILE");
  command->add_option("-o,--output", options.output, "Where to (default: standard output)")
      ->type_name("FILE");
}

void add_dummy(CLI::App& app, DummyOptions& options) {
  CLI::App* command = app.add_subcommand(
      "dummy", "Write a GGUF file with random weights in the shape of a known model");
  add_parsed(*command, "SHAPE", options.spec.shape, find_dummy_shape, dummy_shape_names())
      ->required();
  add_parsed(*command, "--type", options.spec.type, find_dummy_type,
             "q8_0 (default), q4_0, q4_k_m or bf16");
  command
      ->add_option_function<int>(
          "--layers", [&options](int layers) { options.spec.shape.layers = layers; },
          "Another number of layers than the shape has")
      ->check(CLI::Range(1, 1000));
  command->add_option("--seed", options.spec.seed, "The same seed writes the same file")
      ->capture_default_str();
  command->add_option("-o,--output", options.output, "The file to write")
      ->required()
      ->type_name("FILE");
}

void add_inspect(CLI::App& app, InspectOptions& options) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show a model's metadata, its tensors and the memory it needs");
  command->add_option("MODEL", options.model, "A GGUF file; of a split model its first part")
      ->required();
  command->add_flag("--json", options.json, "As JSON");
}

// Puts the flags of `serve --config FILE` before those of the command line, which so have the last
// word.
Status expand_config(const CLI::App& serve, std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != "serve") return {};
  std::filesystem::path path;
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i].starts_with("--config=")) path = arguments[i].substr(9);
    if (arguments[i] == "--config" && i + 1 < arguments.size()) path = arguments[i + 1];
  }
  if (path.empty()) return {};
  WEFT_ASSIGN(const std::vector<std::string> flags, read_config_file(path));
  for (const std::string& flag : flags) {
    const std::string name = flag.substr(0, flag.find('='));
    if (name == "--config" || name == "--help" || serve.get_option_no_throw(name) == nullptr) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("--config {}: serve has no flag {}", path.string(), name)};
    }
  }
  arguments.insert(arguments.begin() + 1, flags.begin(), flags.end());
  return {};
}

// A command that loads a model needs exactly one source for it.
Status check_source(const Command& command) {
  return std::visit(
      [](const auto& options) -> Status {
        if constexpr (requires { options.load; }) {
          if (options.load.model.empty() && !options.load.dummy)
            return Error{ErrorKind::kInvalidArgument, "MODEL is missing: the path of a GGUF file"};
          if (!options.load.model.empty() && options.load.dummy) {
            return Error{
                ErrorKind::kInvalidArgument,
                fmt::format("both MODEL ({}) and --dummy-weights are given: only one can be used",
                            options.load.model.string())};
          }
        }
        return {};
      },
      command);
}

bool has_command(CLI::App& app, const std::string& name) {
  const auto same = [&](CLI::App* command) { return command->check_name(name); };
  return !app.get_subcommands(same).empty();
}

CommandLine usage_error(const std::string& message) { return {std::nullopt, kExitUsage, message}; }

}  // namespace

ExitCode exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return kExitUsage;
    case ErrorKind::kNotFound:
    case ErrorKind::kCorrupt:
    case ErrorKind::kUnsupported:
      return kExitModel;
    case ErrorKind::kExhausted:
      return kExitMemory;
    case ErrorKind::kIo:
      return kExitFailure;
  }
  WEFT_CHECK(false, "error kind {}", static_cast<int>(kind));
}

CommandLine parse_command_line(std::vector<std::string> arguments) {
  Options options;
  CLI::App app("Weft: an inference engine and server for large language models", "weft");
  app.require_subcommand(1);
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  app.footer(kFooter);
  add_run(app, options.run);
  add_chat(app, options.chat);
  add_serve(app, options.serve);
  add_score(app, options.score);
  add_dummy(app, options.dummy);
  add_inspect(app, options.inspect);
  CLI::App* bench = app.add_subcommand("bench", "Measure this machine");
  bench->require_subcommand(1);
  add_bench_model(*bench, options.bench_model);
  add_bench_kernels(*bench, options.bench_kernels);
  add_bench_mixed(*bench, options.bench_mixed);
#ifndef WEFT_CANN
  add_simulate(app, options.simulate);
#endif

  if (const Status status = expand_config(*app.get_subcommand("serve"), arguments); !status.ok())
    return usage_error(status.error().message);
  if (arguments.empty()) return usage_error("a command is missing; `weft --help` lists them");
  if (!arguments[0].starts_with('-') && !has_command(app, arguments[0]))
    return usage_error(fmt::format("no command '{}'; `weft --help` lists them", arguments[0]));
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app.parse(std::move(arguments));
  } catch (const CLI::Success& success) {  // help, version
    std::ostringstream text;
    app.exit(success, text, text);
    return {std::nullopt, kExitOk, text.str()};
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what());
  }

  CommandLine line;
  const std::string name = app.get_subcommands().front()->get_name();
  if (name == "run") line.command = std::move(options.run);
  if (name == "chat") line.command = std::move(options.chat);
  if (name == "serve") line.command = std::move(options.serve);
  if (name == "score") line.command = std::move(options.score);
  if (name == "dummy") line.command = std::move(options.dummy);
  if (name == "inspect") line.command = std::move(options.inspect);
  if (name == "bench" && bench->got_subcommand("model"))
    line.command = std::move(options.bench_model);
  if (name == "bench" && bench->got_subcommand("kernels"))
    line.command = std::move(options.bench_kernels);
  if (name == "bench" && bench->got_subcommand("mixed"))
    line.command = std::move(options.bench_mixed);
  if (name == "simulate") line.command = std::move(options.simulate);
  if (const Status status = check_source(*line.command); !status.ok())
    return usage_error(status.error().message);
  return line;
}

}  // namespace weft
