#include "cli/flag_groups.h"

#include <algorithm>

#include "cli/byte_size.h"

namespace weft {
namespace {

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

}  // namespace

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

Result<std::vector<Mode>> parse_modes(const std::vector<std::string>& names) {
  std::vector<Mode> modes;
  for (const std::string& name : names) {
    const std::optional<Mode> mode = find_mode(name);
    if (!mode) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("no mode '{}'; there are {}", name, fmt::join(kModeNames, ", "))};
    }
    if (std::find(modes.begin(), modes.end(), *mode) == modes.end()) modes.push_back(*mode);
  }
  return modes;
}

}  // namespace weft
