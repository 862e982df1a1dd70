#pragma once
// Draws tokens: functions of one row of logits and the state of its slot. What a row gets depends
// on these alone.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "device/executor.h"
#include "device/sampling.h"
#include "kernels/kernel_table.h"

namespace weft {

// What the device remembers of a sequence between samples. Changed by the engine thread, between
// quanta.
class SamplerState {
 public:
  // Takes memory for `context` tokens where penalties have to count them, so that accept() takes
  // none.
  void open(const SlotInit& init, int vocab, int context);
  void accept(TokenId token);

  const SamplingParams& params() const { return params_; }
  TokenId last() const { return last_; }
  double uniform(int64_t position) const;
  // The logits as penalties, bias and forbidden ids leave them: `logits` itself, or a changed copy
  // in `scratch`.
  std::span<const float> adjust(std::span<const float> logits, std::span<float> scratch) const;

 private:
  struct Seen {
    TokenId token;
    int outputs;  // times among the outputs; 0: only in the prompt
  };
  Seen& seen(TokenId token);
  void penalize(std::span<float> logits) const;

  SamplingParams params_;
  uint64_t seed_ = 0;
  uint32_t choice_ = 0;
  TokenId last_ = 0;
  int outputs_ = 0;
  bool counts_ = false;     // a penalty is set
  std::vector<Seen> seen_;  // by ascending token
};

// A token in the order of sampling: larger logits first, lower ids first among equals.
struct Candidate {
  float logit;
  TokenId token;
};

// Working memory of one worker.
struct SamplerScratch {
  explicit SamplerScratch(int vocab);
  std::vector<float> logits;          // [vocab]
  std::vector<Candidate> candidates;  // at most vocab
  std::vector<double> masses;         // of blocks of logits
};

struct Sample {
  TokenId token = -1;
  bool finite = true;
  float logprob = 0;
  float log_sum_exp = 0;
  int top_count = 0;
  std::array<TokenLogprob, kMaxTopLogprobs> top;
};

// One output row: draws a token where target is kSample, otherwise reports the target. `position`
// is the row's.
Sample sample_row(const KernelTable& kernels, std::span<const float> logits,
                  const SamplerState& state, int64_t position, TokenId target,
                  SamplerScratch& scratch);

}  // namespace weft
