#include "cli/bench_model.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "base/cpu.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/paired_ratio.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDecodePrompt = 24;

std::string prefill_name(int tokens) { return fmt::format("prefill {}", tokens); }
std::string decode_name(int streams) { return fmt::format("decode x{}", streams); }

// Sequences that start together and advance together, each in blocks of its own.
class Streams {
 public:
  Streams(Executor& executor, int count, int prompt, int positions)
      : executor_(executor), prompt_(static_cast<size_t>(prompt)) {
    std::mt19937 random(1);
    std::uniform_int_distribution<TokenId> token(0, executor.vocab() - 1);
    std::generate(prompt_.begin(), prompt_.end(), [&] { return token(random); });
    const int blocks = (positions + kBlockPositions - 1) / kBlockPositions;
    WEFT_CHECK(blocks * count <= executor.limits().blocks, "{} blocks", blocks * count);
    for (int s = 0; s < count; ++s) {
      blocks_.emplace_back(static_cast<size_t>(blocks));
      std::iota(blocks_.back().begin(), blocks_.back().end(), s * blocks);
      SlotInit slot;
      slot.sampling.temperature = 0;
      slot.prompt = prompt_;
      executor.open_slot(s, slot);
    }
  }
  ~Streams() {
    for (size_t s = 0; s < blocks_.size(); ++s) executor_.close_slot(static_cast<SlotId>(s));
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // Seconds until the prompt of stream `s` is read and its first token drawn.
  double read_prompt(size_t s) {
    const auto chunk = static_cast<size_t>(executor_.limits().rows);
    double taken = 0;
    for (size_t begin = 0; begin < prompt_.size(); begin += chunk) {
      const size_t rows = std::min(chunk, prompt_.size() - begin);
      const bool last = begin + rows == prompt_.size();
      Segment segment = segment_of(s, begin, rows);
      segment.row_class = last && rows == 1 ? RowClass::kDecode : RowClass::kPrefill;
      segment.tokens = std::span(prompt_).subspan(begin, rows);
      segment.outputs = last ? Outputs::kLast : Outputs::kNone;
      taken += run({.id = 0, .segments = {segment}});
    }
    return taken;
  }

  // Seconds of a step in which every stream generates its token at `position`.
  double step(size_t position) {
    Pass pass;
    for (size_t s = 0; s < blocks_.size(); ++s) {
      pass.segments.push_back(segment_of(s, position, 1));
      pass.segments.back().outputs = Outputs::kLast;
    }
    return run(pass);
  }

 private:
  Segment segment_of(size_t s, size_t begin, size_t rows) const {
    Segment segment;
    segment.slot = static_cast<SlotId>(s);
    segment.first_position = static_cast<int32_t>(begin);
    segment.rows = static_cast<int32_t>(rows);
    segment.blocks =
        std::span(blocks_[s]).first((begin + rows + kBlockPositions - 1) / kBlockPositions);
    return segment;
  }

  double run(const Pass& pass) {
    const SteadyClock clock;
    const TimePoint begin = clock.now();
    executor_.start(
        Group::kAll,
        {.id = ++quantum_, .passes = {&pass}, .layer_begin = 0, .layer_end = executor_.layers()});
    while (!executor_.wait(TimePoint::max(), completion_)) {
    }
    return seconds(clock.now() - begin);
  }

  Executor& executor_;
  std::vector<TokenId> prompt_;
  std::vector<std::vector<BlockId>> blocks_;
  uint64_t quantum_ = 0;
  Completion completion_;
};

Error no_figures(const std::string& text) {
  return {ErrorKind::kInvalidArgument,
          fmt::format(
              "--peer: its output has no figures that can be read (llama-bench needs -o json): {}",
              text.substr(0, 200))};
}

// Runs a shell command and gives back what it wrote to standard output.
Result<std::string> output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"),
                                                   [](FILE* f) { return pclose(f); });
  if (!pipe) return Error{ErrorKind::kIo, fmt::format("--peer: cannot run {}", command)};
  std::string text;
  char buffer[4096];
  while (const size_t n = fread(buffer, 1, sizeof(buffer), pipe.get())) text.append(buffer, n);
  return text;
}

using Samples = std::map<std::string, std::vector<double>>;

struct Measured {
  std::vector<std::string> order;  // of the names
  Samples ours;
  Samples theirs;
};

void add_round(const BenchRates& rates, Samples& samples) {
  for (const auto& [name, rate] : rates) samples[name].push_back(rate);
}

int rounds_of(const BenchModelOptions& options) {
  if (options.rounds > 0) return options.rounds;
  return options.peer.empty() ? 3 : 7;
}

Status measure_rounds(Executor& executor, const BenchModelOptions& options, Measured& out) {
  const int rounds = rounds_of(options);
  for (int n : options.prompts) out.order.push_back(prefill_name(n));
  for (int n : options.streams) out.order.push_back(decode_name(n));
  ProgressBar bar("measuring", static_cast<uint64_t>(rounds) * out.order.size(),
                  ProgressUnit::kItems);
  measure_prefill(
      executor, options.prompts.empty() ? 64 : std::min(options.prompts.front(), 512));  // warm-up
  uint64_t done = 0;
  for (int round = 0; round < rounds; ++round) {
    if (!options.peer.empty()) {
      WEFT_ASSIGN(const std::string text, output_of(options.peer));
      WEFT_ASSIGN(const BenchRates rates, parse_peer_output(text));
      add_round(rates, out.theirs);
    }
    BenchRates rates;
    for (int n : options.prompts) {
      rates[prefill_name(n)] = measure_prefill(executor, n);
      bar.update(++done);
    }
    for (int n : options.streams) {
      rates[decode_name(n)] = measure_decode(executor, n, options.tokens);
      bar.update(++done);
    }
    add_round(rates, out.ours);
  }
  return {};
}

Json to_json(const Measured& measured, const BenchModelOptions& options, const LoadedModel& model) {
  Json rows = Json::array();
  for (const std::string& name : measured.order) {
    const std::vector<double>& ours = measured.ours.at(name);
    Json row = {{"name", name}, {"tokens_per_second", median(ours)}, {"rounds", ours}};
    if (const auto theirs = measured.theirs.find(name);
        theirs != measured.theirs.end() && theirs->second.size() == ours.size()) {
      const PairedRatio ratio = paired_ratio(ours, theirs->second);
      row["peer"] = {{"tokens_per_second", median(theirs->second)},
                     {"rounds", theirs->second},
                     {"ratio", ratio.median},
                     {"interval", {ratio.low, ratio.high}}};
    }
    rows.push_back(std::move(row));
  }
  return {{"schema", "weft.bench.model.v1"},
          {"machine",
           {{"cpu", read_cpu_topology().model}, {"executor", model.executor->description()}}},
          {"limits", {{"rows", model.executor->limits().rows}}},
          {"model", model.name},
          {"peer", options.peer},
          {"rows", std::move(rows)}};
}

void print_table(const Json& result) {
  std::cout << fmt::format(
      "{}, {}\n{}, {}, median of {} rounds\n\n", result["model"].get<std::string>(), WEFT_VERSION,
      result["machine"]["cpu"].get<std::string>(), result["machine"]["executor"].get<std::string>(),
      result["rows"][0]["rounds"].size());
  std::cout << fmt::format("{:<16}{:>12}{:>12}{:>10}  {}\n", "", "tokens/s", "peer", "ratio",
                           "95 % interval");
  for (const Json& row : result["rows"]) {
    std::cout << fmt::format("{:<16}{:>12.1f}", row["name"].get<std::string>(),
                             row["tokens_per_second"].get<double>());
    if (row.contains("peer")) {
      const Json& peer = row["peer"];
      std::cout << fmt::format("{:>12.1f}{:>9.2f}x  {:.2f} - {:.2f}",
                               peer["tokens_per_second"].get<double>(), peer["ratio"].get<double>(),
                               peer["interval"][0].get<double>(),
                               peer["interval"][1].get<double>());
    }
    std::cout << '\n';
  }
}

}  // namespace

double measure_prefill(Executor& executor, int tokens) {
  return tokens / Streams(executor, 1, tokens, tokens).read_prompt(0);
}

double measure_decode(Executor& executor, int streams, int tokens) {
  Streams sequences(executor, streams, kDecodePrompt, kDecodePrompt + tokens);
  for (size_t s = 0; s < static_cast<size_t>(streams); ++s) sequences.read_prompt(s);
  std::vector<double> steps;
  steps.reserve(static_cast<size_t>(tokens));
  for (int position = kDecodePrompt; position < kDecodePrompt + tokens; ++position)
    steps.push_back(sequences.step(static_cast<size_t>(position)));
  return streams / median(steps);
}

Result<BenchRates> parse_peer_output(const std::string& text) {
  // Whatever a program says before its JSON is skipped; nesting is bounded before a recursive
  // parser sees it.
  const size_t begin = text.find_first_of("[{");
  if (begin == std::string::npos) return no_figures(text);
  const Json json = Json::parse(
      text.begin() + static_cast<std::ptrdiff_t>(begin), text.end(),
      [](int depth, Json::parse_event_t, Json&) { return depth <= 4; }, false);
  BenchRates rates;
  if (json.is_array()) {
    for (const Json& test : json) {
      if (!test.is_object()) return no_figures(text);
      const int prompt = test.value("n_prompt", 0);
      const int generated = test.value("n_gen", 0);
      if (prompt > 0 && generated == 0) rates[prefill_name(prompt)] = test.value("avg_ts", 0.0);
      if (prompt == 0 && generated > 0) rates[decode_name(1)] = test.value("avg_ts", 0.0);
    }
  } else if (json.is_object()) {
    for (const auto& [name, value] : json.items()) {
      if (value.is_number()) rates[name] = value.get<double>();
    }
  }
  std::erase_if(rates, [](const auto& rate) { return !(rate.second > 0); });
  if (rates.empty()) return no_figures(text);
  return rates;
}

Result<int> bench_model_command(const BenchModelOptions& options) {
  LoadOptions load = options.load;
  const auto largest = [](const std::vector<int>& v) {
    return v.empty() ? 0 : *std::max_element(v.begin(), v.end());
  };
  const int positions = kDecodePrompt + options.tokens;
  if (load.context == 0) load.context = std::max(largest(options.prompts), positions);
  load.max_sequences = std::max(1, largest(options.streams));
  WEFT_ASSIGN(const LoadedModel model, load_model(load));
  Executor& executor = *model.executor;
  const int blocks = (positions + kBlockPositions - 1) / kBlockPositions * load.max_sequences;
  if (largest(options.prompts) > executor.limits().context || blocks > executor.limits().blocks) {
    return Error{ErrorKind::kExhausted, fmt::format("the KV pool holds {} positions: too few for "
                                                    "these prompts and streams; set --kv-memory",
                                                    executor.limits().blocks * kBlockPositions)};
  }
  Measured measured;
  WEFT_RETURN_IF_ERROR(measure_rounds(executor, options, measured));
  const Json result = to_json(measured, options, model);
  if (options.json) {
    std::cout << result.dump(2) << '\n';
  } else {
    print_table(result);
  }
  return kExitOk;
}

}  // namespace weft
