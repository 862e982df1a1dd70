#pragma once
// What `weft bench mixed` plays: requests with lengths and times, the same for whatever is
// measured. Pure: a seed gives the same plan everywhere.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace weft {

enum class WorkloadKind : uint8_t {
  kLong,            // chat streams run, and one long prompt after another comes, then many at once
  kClosed,          // always the same number of requests in flight
  kPoisson,         // requests arrive independently of each other
  kBurst,           // they arrive in groups
  kShortAfterLong,  // a short prompt just behind a long one
  kTrace,           // arrivals and lengths from a file
};
inline constexpr std::string_view kWorkloadNames[] = {"long",  "closed",           "poisson",
                                                      "burst", "short-after-long", "trace"};
Result<WorkloadKind> find_workload(std::string_view name);

// "8x1000": so many prompts at once, each of so many tokens.
struct PromptGroup {
  int count = 0;
  int tokens = 0;
};
Result<PromptGroup> parse_prompt_group(std::string_view text);  // "none": of count 0

// What is not set is chosen by the size of the model, see complete_workload().
struct WorkloadOptions {
  WorkloadKind kind = WorkloadKind::kLong;
  std::vector<int> prompts;         // long: one after another
  std::optional<PromptGroup> then;  // long: after these, at once
  std::optional<int> streams;       // long, short-after-long
  std::optional<int> outputs;       // tokens that each request generates, but for chat streams
  std::optional<int> requests;      // closed, poisson, burst
  std::optional<double> rate;       // poisson, burst: requests per second
  int in_flight = 8;                // closed; burst: requests of a group
  uint64_t seed = 1;
  std::filesystem::path trace;
  bool quick = false;
};
// Sets what is not: `large` models get shorter prompts and fewer arrivals.
WorkloadOptions complete_workload(WorkloadOptions options, bool large);
// Where models begin to be large: parameters.
inline constexpr uint64_t kLargeModel = 500'000'000;

struct PlannedRequest {
  Duration at{};   // since the phase's first arrival could be
  int prompt = 0;  // tokens
  int output = 0;
  bool operator==(const PlannedRequest&) const = default;
};

// A part of a run that gets a line of its own in the table.
struct MixedPhase {
  std::string name;
  int streams = 0;   // chat streams that run all the while; one that ends is started again
  Duration alone{};  // so long they run alone first
  std::vector<PlannedRequest> requests;  // ascending times
  int in_flight = 0;  // 0: requests are sent at their times; else as soon as fewer are in flight
};

inline constexpr int kStreamPrompt = 24;
// Of the first, the next ones have less, so that they do not end together.
inline constexpr int kStreamOutput = 1024;
inline constexpr int kStreamStagger = 128;
inline constexpr int kStaggered = 4;

// Requires completed options.
Result<std::vector<MixedPhase>> make_workload(const WorkloadOptions& options);
// Lines of "arrival seconds, prompt tokens, output tokens"; a first line of names, empty lines and
// lines that begin with # are skipped. An error names the line.
Result<std::vector<PlannedRequest>> parse_arrivals(std::string_view text, std::string_view name);

int longest_sequence(std::span<const MixedPhase> phases);  // prompt and output
// That run at once. An error where chat streams alone are more.
Result<int> sequences_of(std::span<const MixedPhase> phases, int most);
uint64_t work_of(std::span<const MixedPhase> phases);  // tokens, for a progress bar
inline uint64_t work_of(const PlannedRequest& r) {
  return static_cast<uint64_t>(r.prompt) + static_cast<uint64_t>(r.output);
}

std::string format_count(int number);  // "3,000"

// Ids that prompts are made of: plain words where the vocabulary has many, else all that stand for
// text.
std::vector<TokenId> prompt_vocabulary(const Tokenizer& tokenizer);
// Prompts of different indices begin differently, so that no cache of prefixes helps.
std::vector<TokenId> random_prompt(uint64_t seed, uint64_t index, int tokens,
                                   std::span<const TokenId> vocabulary);

}  // namespace weft
