#pragma once
// Random weights, made directly as the blocks of a file: no float is ever quantized, so gigabytes
// take seconds.

#include <cstdint>
#include <span>

#include "checkpoint/checkpoint.h"

namespace weft {

// Fills `out` (whole blocks of `type`) with values of mean 0 and about this standard deviation. The
// same seed gives the same bytes. Types: F32, BF16, Q4_0, Q5_0, Q8_0, Q4_K, Q6_K.
void fill_random_blocks(DType type, float stddev, uint64_t seed, std::span<std::byte> out);

}  // namespace weft
