#include "cli/mixed_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "cli/text_file.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

// Of closed, poisson and burst: prompts as chats have them, mostly short.
constexpr int kShortPrompt = 200;
constexpr int kMiddlePrompt = 500;
constexpr int kLongPrompt = 2000;
// Of short-after-long.
constexpr int kBlockingPrompt = 3000;
constexpr int kBlockedPrompt = 128;
constexpr Duration kBlockedAfter = milliseconds(200);

constexpr double kLatestArrival = 1e6;  // seconds

constexpr size_t kManyWords = 1000;

// Uniform in [0, 1), the same on every platform.
double unit(std::mt19937_64& random) { return static_cast<double>(random() >> 11U) * 0x1p-53; }

// Seconds.
double exponential(std::mt19937_64& random, double mean) {
  return -std::log1p(-unit(random)) * mean;
}

Duration from_seconds(double seconds) { return Duration(static_cast<int64_t>(seconds * 1e9)); }

int chat_prompt(std::mt19937_64& random) {
  const double u = unit(random);
  return u < 0.7 ? kShortPrompt : u < 0.9 ? kMiddlePrompt : kLongPrompt;
}

std::vector<MixedPhase> long_prompts(const WorkloadOptions& options) {
  std::vector<MixedPhase> phases;
  const auto add = [&](std::string name, int count, int tokens) {
    MixedPhase& phase = phases.emplace_back();
    phase.name = std::move(name);
    phase.streams = *options.streams;
    phase.alone = milliseconds(*options.streams == 0 ? 0 : options.quick ? 1500 : 3000);
    phase.requests.assign(static_cast<size_t>(count), {{}, tokens, *options.outputs});
  };
  for (const int tokens : options.prompts) add(format_count(tokens), 1, tokens);
  if (options.then->count > 0) {
    add(fmt::format("{} x {}", options.then->count, format_count(options.then->tokens)),
        options.then->count, options.then->tokens);
  }
  return phases;
}

MixedPhase short_after_long(const WorkloadOptions& options) {
  return {.name = fmt::format("{} after {}", kBlockedPrompt, format_count(kBlockingPrompt)),
          .streams = *options.streams,
          .alone = milliseconds(*options.streams == 0 ? 0 : 1500),
          .requests = {{{}, kBlockingPrompt, *options.outputs},
                       {kBlockedAfter, kBlockedPrompt, *options.outputs}},
          .in_flight = 0};
}

Result<MixedPhase> arrivals(const WorkloadOptions& options) {
  MixedPhase phase;
  phase.name = kWorkloadNames[static_cast<size_t>(options.kind)];
  std::mt19937_64 random(options.seed);
  const bool burst = options.kind == WorkloadKind::kBurst;
  Duration at{};
  for (int i = 0; i < *options.requests; ++i) {
    const int group = burst ? options.in_flight : 1;
    if (options.kind != WorkloadKind::kClosed && i % group == 0) {
      const double gap = exponential(random, group / *options.rate);
      if (!(seconds(at) + gap <= kLatestArrival)) {
        return Error{ErrorKind::kInvalidArgument,
                     fmt::format("--rate {}: the last of {} requests would come after more than "
                                 "{:.0f} s; raise it, or lower --requests",
                                 *options.rate, *options.requests, kLatestArrival)};
      }
      at += from_seconds(gap);
    }
    phase.requests.push_back({at, chat_prompt(random), *options.outputs});
  }
  if (options.kind == WorkloadKind::kClosed) phase.in_flight = options.in_flight;
  return phase;
}

Result<MixedPhase> from_trace(const WorkloadOptions& options) {
  if (options.trace.empty())
    return Error{ErrorKind::kInvalidArgument, "--workload trace needs --trace-in FILE"};
  const auto text = read_text(options.trace);
  if (!text.ok()) return Error{text.error().kind, "--trace-in: " + text.error().message};
  MixedPhase phase;
  phase.name = options.trace.stem().string();
  WEFT_ASSIGN(phase.requests, parse_arrivals(*text, options.trace.string()));
  if (options.requests && static_cast<size_t>(*options.requests) < phase.requests.size())
    phase.requests.resize(static_cast<size_t>(*options.requests));
  return phase;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  text = trimmed(text);
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() && end.ptr == text.data() + text.size();
}

bool parse_line(std::string_view line, PlannedRequest& request) {
  const size_t first = line.find(',');
  const size_t second = first == std::string_view::npos ? first : line.find(',', first + 1);
  if (second == std::string_view::npos) return false;
  double at = 0;
  constexpr int kMost = 1 << 24;
  if (!parse_number(line.substr(0, first), at) ||
      !parse_number(line.substr(first + 1, second - first - 1), request.prompt) ||
      !parse_number(line.substr(second + 1), request.output)) {
    return false;
  }
  if (!(at >= 0 && at <= kLatestArrival)) return false;  // nor is it a number
  request.at = from_seconds(at);
  return request.prompt > 0 && request.prompt <= kMost && request.output > 0 &&
         request.output <= kMost;
}

// " word": what follows another word in ordinary text.
bool is_word(std::string_view bytes) {
  return bytes.size() >= 3 && bytes.front() == ' ' &&
         std::all_of(bytes.begin() + 1, bytes.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

}  // namespace

std::string format_count(int number) {
  if (number < 1000) return std::to_string(number);
  return fmt::format("{},{:03}", format_count(number / 1000), number % 1000);
}

Result<WorkloadKind> find_workload(std::string_view name) {
  for (size_t i = 0; i < std::size(kWorkloadNames); ++i) {
    if (kWorkloadNames[i] == name) return static_cast<WorkloadKind>(i);
  }
  return Error{ErrorKind::kInvalidArgument, fmt::format("no workload '{}'; there are {}", name,
                                                        fmt::join(kWorkloadNames, ", "))};
}

Result<PromptGroup> parse_prompt_group(std::string_view text) {
  if (text == "none") return PromptGroup{};
  PromptGroup group;
  const size_t x = text.find('x');
  if (x != std::string_view::npos && parse_number(text.substr(0, x), group.count) &&
      parse_number(text.substr(x + 1), group.tokens) && group.count > 0 && group.count <= 4096 &&
      group.tokens > 0 && group.tokens <= 1 << 24) {
    return group;
  }
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("'{}' is no group of prompts; as in 8x1000, or none", text)};
}

WorkloadOptions complete_workload(WorkloadOptions options, bool large) {
  const bool quick = options.quick;
  if (options.prompts.empty()) {
    options.prompts = large ? std::vector{1000, 2000} : std::vector{1000, 3000, 7000};
    if (quick) options.prompts.resize(large ? 1 : 2);
  }
  if (!options.then)
    options.then = large ? PromptGroup{quick ? 2 : 8, 500} : PromptGroup{quick ? 4 : 8, 1000};
  if (!options.streams) options.streams = 4;
  const bool long_prompts =
      options.kind == WorkloadKind::kLong || options.kind == WorkloadKind::kShortAfterLong;
  if (!options.outputs) options.outputs = long_prompts ? (quick ? 16 : 64) : (quick ? 32 : 128);
  if (!options.requests && options.kind != WorkloadKind::kTrace)
    options.requests = quick ? (large ? 8 : 16) : 64;
  if (!options.rate) options.rate = large ? 0.12 : 1.0;
  return options;
}

Result<std::vector<MixedPhase>> make_workload(const WorkloadOptions& options) {
  switch (options.kind) {
    case WorkloadKind::kLong:
      return long_prompts(options);
    case WorkloadKind::kShortAfterLong:
      return std::vector{short_after_long(options)};
    case WorkloadKind::kTrace: {
      WEFT_ASSIGN(MixedPhase phase, from_trace(options));
      return std::vector{std::move(phase)};
    }
    case WorkloadKind::kClosed:
    case WorkloadKind::kPoisson:
    case WorkloadKind::kBurst: {
      WEFT_ASSIGN(MixedPhase phase, arrivals(options));
      return std::vector{std::move(phase)};
    }
  }
  WEFT_CHECK(false, "workload {}", static_cast<int>(options.kind));
}

Result<std::vector<PlannedRequest>> parse_arrivals(std::string_view text, std::string_view name) {
  std::multimap<Duration, PlannedRequest> requests;  // of one time in the file's order
  bool names_allowed = true;                         // in the first line that says anything
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    PlannedRequest request;
    if (parse_line(line, request)) {
      requests.emplace(request.at, request);
    } else if (!names_allowed || !std::isalpha(static_cast<unsigned char>(line.front()))) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("{}, line {}: '{}' is not arrival seconds, prompt tokens, output "
                               "tokens",
                               name, number, line.substr(0, 80))};
    }
    names_allowed = false;
  }
  if (requests.empty())
    return Error{ErrorKind::kInvalidArgument, fmt::format("{} has no requests", name)};
  std::vector<PlannedRequest> sorted;
  sorted.reserve(requests.size());
  for (const auto& [at, request] : requests) sorted.push_back(request);
  return sorted;
}

int longest_sequence(std::span<const MixedPhase> phases) {
  int longest = 0;
  for (const MixedPhase& phase : phases) {
    if (phase.streams > 0) longest = std::max(longest, kStreamPrompt + kStreamOutput);
    for (const PlannedRequest& request : phase.requests)
      longest = std::max(longest, request.prompt + request.output);
  }
  return longest;
}

Result<int> sequences_of(std::span<const MixedPhase> phases, int most) {
  size_t sequences = 1;
  for (const MixedPhase& phase : phases) {
    if (phase.streams > most) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("--streams {}: at most {} run at once", phase.streams, most)};
    }
    const size_t at_once =
        phase.in_flight > 0 ? static_cast<size_t>(phase.in_flight) : phase.requests.size();
    sequences = std::max(sequences, static_cast<size_t>(phase.streams) + at_once);
  }
  return static_cast<int>(std::min(sequences, static_cast<size_t>(most)));
}

uint64_t work_of(std::span<const MixedPhase> phases) {
  uint64_t work = 0;
  for (const MixedPhase& phase : phases) {
    for (const PlannedRequest& request : phase.requests) work += work_of(request);
  }
  return work;
}

std::vector<TokenId> prompt_vocabulary(const Tokenizer& tokenizer) {
  std::vector<TokenId> words;
  std::vector<TokenId> all;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    if (bytes.empty() || tokenizer.is_special(id)) continue;
    all.push_back(id);
    if (is_word(bytes)) words.push_back(id);
  }
  return words.size() >= kManyWords ? words : all;
}

std::vector<TokenId> random_prompt(uint64_t seed, uint64_t index, int tokens,
                                   std::span<const TokenId> vocabulary) {
  std::seed_seq sequence{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32U),
                         static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32U)};
  std::mt19937_64 random(sequence);
  std::vector<TokenId> prompt(static_cast<size_t>(tokens));
  for (TokenId& token : prompt) token = vocabulary[random() % vocabulary.size()];
  return prompt;
}

}  // namespace weft
