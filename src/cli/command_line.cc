#include "cli/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <sstream>

#include "cli/byte_size.h"
#include "cli/config_file.h"
#include "cli/workload_flags.h"

namespace weft {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done; 1 it failed while running; 2 the command line is wrong; 3 the model "
    "cannot be used;\n"
    "4 not enough memory; 130 interrupted.";

// A flag whose value `parse` turns into `target`; its error is the user's.
template <class T, class Parse>
CLI::Option* add_parsed(CLI::App& app, const std::string& name, T& target, Parse parse,
                        const std::string& help) {
  return app.add_option_function<std::string>(
      name,
      [&target, parse, name](const std::string& text) {
        auto value = parse(text);
        if (!value.ok()) throw CLI::ValidationError(name, value.error().message);
        target = std::move(value).value();
      },
      help);
}

void add_device_flags(CLI::App& app, LoadOptions& load) {
  add_parsed(app, "--device", load.device, find_device,
             "What computes: cpu (default), ascend-twin (an NPU's cores emulated here), or ascend "
             "(a card, where the program was built for it)")
      ->type_name("NAME");
  app.add_option("--ascend-cores", load.ascend.cores,
                 "Cube cores of an Ascend device, each with two vector cores (default: all of a "
                 "card, 4 of the twin)")
      ->check(CLI::Range(1, 64));
  app.add_option("--ascend-chip", load.ascend.chip, "Chip that the twin stands for")
      ->transform(CLI::IsMember({"910B1", "910B2", "910B3", "910B4", "article"}, CLI::ignore_case))
      ->capture_default_str();
  app.add_option("--ascend-weights", load.ascend.weights,
                 "Weights on an Ascend device: auto (those of type Q8_0 as int8) or half")
      ->check(CLI::IsMember({"auto", "half"}))
      ->capture_default_str();
  app.add_option("--ascend-kernels", load.ascend.kernels, "File of the kernels for a card")
      ->capture_default_str();
  app.add_option("--ascend-ordinal", load.ascend.ordinal, "Which card")->check(CLI::Range(0, 1023));
  app.add_option("--twin-seed", load.ascend.seed,
                 "Seed of the order in which the twin's pipes run; tokens do not depend on it");
}

void add_model_flags(CLI::App& app, LoadOptions& load) {
  app.add_option("MODEL", load.model, "A GGUF file; of a split model its first part");
  add_parsed(app, "--dummy-weights", load.dummy, parse_dummy_spec,
             "Instead of MODEL: random weights, as in qwen2.5-0.5b:q4_0")
      ->type_name("SHAPE:TYPE");
  app.add_option("--threads", load.threads,
                 "Threads that compute (default: the physical cores it may use)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--context", load.context,
                 "Longest sequence in tokens (default: as trained, as far as the KV memory allows)")
      ->check(CLI::Range(1, 1 << 24));
  add_parsed(app, "--kv-memory", load.kv_memory, parse_bytes,
             "Memory for keys and values, as 4G or 512M (default: half of what is free)")
      ->type_name("SIZE");
  app.add_option("--kv-type", load.kv_type, "Type of stored keys and values")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16", "q8_0"}))
      ->capture_default_str();
  app.add_option("--isa", load.isa, "Instruction set: auto, ref, or one this CPU has")
      ->capture_default_str();
  app.add_flag("--pin", load.pin, "Pin each thread to a core");
  add_device_flags(app, load);
}

void add_scheduling_flags(CLI::App& app, SchedulingOptions& options) {
  const auto limit = [&](const std::string& name, double& target, const std::string& help) {
    app.add_option(name, target, help)->check(CLI::Range(0.0, 1e9))->type_name("MS");
  };
  add_parsed(
      app, "--mode", options.mode,
      [](const std::string& name) -> Result<Mode> {
        if (const std::optional<Mode> mode = find_mode(name)) return *mode;
        return Error{ErrorKind::kInvalidArgument,
                     fmt::format("no mode '{}'; there are {}", name, fmt::join(kModeNames, ", "))};
      },
      "How prompts and streams share the cores: serial, chunked, layered, fused (default), split "
      "or auto");
  limit("--itl-target-ms", options.itl_target,
        "What gaps between a stream's tokens are held to (default: 50, or four steps of a single "
        "stream where that is more)");
  app.add_option("--prefill-floor", options.prefill_floor,
                 "Share of the time that prompts get even where streams are late")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--prefill-cores", options.prefill_cores,
                 "Cores for prompts in split and auto (default: those that decoding leaves)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--decode-cores", options.decode_cores,
                 "Cores for streams in split and auto (default: as few as keep their steps short)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--chunk-rows", options.chunk_rows, "Prompt tokens in a step of mode chunked")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  limit("--ttft-timeout-ms", options.ttft_timeout,
        "End a request that has no token by then (default: never)");
  limit("--token-timeout-ms", options.token_timeout,
        "End a request whose next token takes longer (default: never)");
  limit("--request-timeout-ms", options.request_timeout,
        "End a request that is not done by then (default: never)");
  app.add_option("--trace", options.trace,
                 "Write what the cores run to a file that Chrome and Perfetto show")
      ->type_name("FILE");
}

void add_generation_flags(CLI::App& app, GenerationOptions& options) {
  SamplingParams& sampling = options.sampling;
  sampling.temperature = 0.7F;
  sampling.top_p = 0.95F;
  app.add_option("-n,--max-tokens", options.max_tokens,
                 "Tokens to generate at most (default: until the model ends)")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("-t,--temperature", sampling.temperature, "0 takes the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "Draw from the k likeliest; 0: from all")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  app.add_option("--top-p", sampling.top_p, "Draw from the likeliest that make up this probability")
      ->check(CLI::Range(1e-6, 1.0))
      ->capture_default_str();
  app.add_option("--min-p", sampling.min_p,
                 "Leave out what has less than this share of the likeliest's probability")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--repetition-penalty", sampling.repetition_penalty,
                 "Above 1: make tokens that occurred less likely")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  app.add_option("--presence-penalty", sampling.presence_penalty,
                 "Subtracted once from generated tokens")
      ->check(CLI::Range(-100.0, 100.0));
  app.add_option("--frequency-penalty", sampling.frequency_penalty,
                 "Subtracted for each time a token was generated")
      ->check(CLI::Range(-100.0, 100.0));
  app.add_option("--seed", options.seed, "Repeat a draw (default: a new one each time)");
  app.add_option("--stop", options.stop, "End before this text; may be given several times")
      ->check([](const std::string& text) { return text.empty() ? "an empty stop string" : ""; });
  app.add_option("--system", options.system, "The system message");
}

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

Result<std::vector<Mode>> parse_modes(const std::vector<std::string>& names) {
  std::vector<Mode> modes;
  if (names == std::vector<std::string>{"none"}) return modes;
  for (const std::string& name : names) {
    const std::optional<Mode> mode = find_mode(name);
    if (!mode) {
      return Error{ErrorKind::kInvalidArgument, fmt::format("no mode '{}'; there are {}, or none",
                                                            name, fmt::join(kModeNames, ", "))};
    }
    modes.push_back(*mode);
  }
  return modes;
}

void add_bench_mixed(CLI::App& bench, BenchMixedOptions& options) {
  CLI::App* command = bench.add_subcommand(
      "mixed",
      "Chat streams and prompts together: token gaps, first tokens and throughput in each "
      "mode, and of other servers");
  add_model_flags(*command, options.load);
  add_scheduling_flags(*command, options.scheduling);
  command->remove_option(command->get_option("--mode"));
  command
      ->add_option_function<std::vector<std::string>>(
          "--modes",
          [&options](const std::vector<std::string>& names) {
            auto modes = parse_modes(names);
            if (!modes.ok()) throw CLI::ValidationError("--modes", modes.error().message);
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
