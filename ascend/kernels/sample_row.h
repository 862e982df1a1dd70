#pragma once
// What Sample is told of a row and what it reports. Plain C++: host and kernels include this file.

#include <cstdint>

namespace weft_ascend {

// The table of the slots' last tokens holds an int32 of each slot in a cache line of its own, so
// that two writers never share one.
constexpr int32_t kSlotStride = 16;

constexpr int32_t kMaxVocab = 524288;

struct SampleRow {
  int32_t slot;               // whose last token the sample becomes; -1: not drawn here
  float inverse_temperature;  // 0: greedy
  int32_t top_k;              // 0: all
  float top_p;                // above 0; 1 and more: all
  float floor;                // logits below max + floor are never drawn; at most 0, may be -inf
  float uniform;              // [0, 1)
  int32_t unused[2];
};

// Of a row that is drawn.
struct SampleResult {
  int32_t token;   // 0 where not all logits are finite
  int32_t finite;  // whether they are
  int32_t unused[6];
};

}  // namespace weft_ascend
