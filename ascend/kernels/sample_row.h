#pragma once
// What Sample is told of a row and what it reports. Plain C++: host and kernels include this file.

#include <cstdint>

namespace weft_ascend {

// The table of the slots' last tokens holds an int32 of each slot in a cache line of its own, so
// that two writers never share one.
constexpr int32_t kSlotStride = 16;

constexpr int32_t kMaxVocab = 524288;

struct SampleRow {
  int32_t slot;               // whose last token the sample becomes; -1: nobody's
  int32_t target;             // -1: sample; otherwise only report this token
  int32_t want_logprob;       // 0: `logit` and `log_sum_exp` are not wanted
  float inverse_temperature;  // 0: greedy
  int32_t top_k;              // 0: all
  float top_p;                // above 0; 1 and more: all
  float floor;                // logits below max + floor are never drawn; at most 0, may be -inf
  float uniform;              // [0, 1)
};

struct SampleResult {
  int32_t token;  // the sample or the target; 0 for a sample of logits that are not all finite
  int32_t finite;
  float logit;        // the token's, where wanted
  float log_sum_exp;  // of the row's logits, where wanted
  int32_t unused[4];
};

}  // namespace weft_ascend
