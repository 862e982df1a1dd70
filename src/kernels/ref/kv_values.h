#pragma once
// What one head's key or value of one position becomes in the cache, and back: the rounding of each
// KvType. The SIMD tables store the same values in another order.

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.h"

namespace weft::ref {

// Below this a head's largest magnitude counts as zero: its inverse would not be a number.
inline constexpr float kSmallestQ8Magnitude = 1e-30F;

int64_t kv_values_bytes(KvType type, int head_dim);
// `stored`: kv_values_bytes, of any alignment.
void encode_kv_values(KvType type, int head_dim, const float* values, std::byte* stored);
void decode_kv_values(KvType type, int head_dim, const std::byte* stored, float* values);

}  // namespace weft::ref
