#pragma once
// What the times of tokens say. Definitions as in vLLM's benchmark, and those of docs/cli.md.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/mixed_run.h"

namespace weft {

// Seconds.
struct MixedTargets {
  double itl = 0;
  double ttft = 0;
};

// What ran beside a gap, for more than a fifth of it.
enum class GapKind : uint8_t {
  kAlone,   // no prompt was being read
  kPrompt,  // one was: of a request, but for chat streams
  kChat,    // only that of a chat stream that begins
};

struct Gap {
  size_t request = 0;  // index in the record
  TimePoint begin{};
  TimePoint end{};
  GapKind kind = GapKind::kAlone;
  double length() const { return seconds(end - begin); }
};
std::vector<Gap> gaps_of(const PhaseRecord& record);

// Seconds. `max` is the median over repeats of the largest of each, `largest` that of all.
struct GapFigures {
  size_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p99 = 0;
  double max = 0;
  double largest = 0;
};

// Shares of cores x wall while work waited.
struct EngineFigures {
  double busy = 0;
  double barrier = 0;
  double idle = 0;
  std::optional<double> roofline;  // where the machine's limits are known
  double host = 0;                 // of the wall
  double stall_seconds = 0;
  uint64_t quanta = 0;
  uint64_t steps = 0;
  uint64_t missed_steps = 0;
  uint64_t preemptions = 0;
};

// Of all repeats together; seconds, and per second.
struct MixedFigures {
  int requests = 0;  // but chat streams
  int failed = 0;
  double wall = 0;  // from the first arrival to the end
  std::optional<double> ttft_mean;
  std::optional<double> ttft_p50;
  std::optional<double> ttft_p99;
  std::optional<double> short_ttft_mean;  // prompts under 1,000 tokens, where there are longer ones
  std::optional<double> tpot_p50;
  std::optional<double> tpot_p99;
  double output_rate = 0;             // tokens of all requests, chat streams too
  std::optional<double> rate_alone;   // of chat streams, while no prompt is read
  std::optional<double> rate_during;  // and while one is
  GapFigures alone;                   // of chat streams, where there are none of all requests
  GapFigures during;
  GapFigures all;               // every gap of every request
  std::optional<double> stall;  // unknown where no gap was alone
  double goodput = 0;           // requests that meet both targets
  double goodput_tpot = 0;      // the same by the mean gap of each request
  std::optional<EngineFigures> engine;
};

// The records of one or several phases that were played together.
using MixedRepeat = std::vector<const PhaseRecord*>;
// Of requests with prompts of that length alone where it is given; engine figures are of the whole
// phases.
MixedFigures figures_of(std::span<const MixedRepeat> repeats, const MixedTargets& targets,
                        std::optional<int> prompt = {});

// Linear between the two nearest; q of 0 ... 1, at least one value.
double percentile(std::vector<double> values, double q);

}  // namespace weft
