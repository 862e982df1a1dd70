#pragma once
// The quantized types of GGUF taken apart. Every block is a list of small unsigned codes and, for
// each group of 16 or 32 of them, a scale and perhaps a minimum:
//
//   value = scale * level(code) + minimum
//
// level(code) is code - offset, or a table's entry. What is known here of bit positions in files is
// known nowhere else.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace weft {

struct QuantFormat {
  int code_bits = 0;  // 2 ... 6, 8
  int group = 32;     // values that share a scale: 16 or 32
  int offset =
      0;  // level + offset is never negative; level = code - offset where there is no table
  const int8_t* table = nullptr;  // [16] levels, or null
  bool has_minimum = false;
  bool has_subscales = false;  // scale = d * scales[group], minimum = -(dmin * minimums[group])
};

// IQ4_NL and IQ4_XS: finer steps near zero.
inline constexpr std::array<int8_t, 16> kNonlinearLevels = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// MXFP4: the values of a 4-bit float (one sign, two exponent bits, one mantissa bit), doubled.
inline constexpr std::array<int8_t, 16> kFloat4Levels = {0, 1,  2,  3,  4,  6,  8,  12,
                                                         0, -1, -2, -3, -4, -6, -8, -12};

constexpr bool is_quantized(DType type) {
  return type != DType::kF32 && type != DType::kF16 && type != DType::kBF16;
}

// The format of a quantized type.
constexpr QuantFormat quant_format(DType type) {
  switch (type) {
    case DType::kQ4_0:
      return {4, 32, 8, nullptr, false, false};
    case DType::kQ4_1:
      return {4, 32, 0, nullptr, true, false};
    case DType::kQ5_0:
      return {5, 32, 16, nullptr, false, false};
    case DType::kQ5_1:
      return {5, 32, 0, nullptr, true, false};
    case DType::kQ8_0:
      return {8, 32, 128, nullptr, false, false};
    case DType::kQ2_K:
      return {2, 16, 0, nullptr, true, true};
    case DType::kQ3_K:
      return {3, 16, 4, nullptr, false, true};
    case DType::kQ4_K:
      return {4, 32, 0, nullptr, true, true};
    case DType::kQ5_K:
      return {5, 32, 0, nullptr, true, true};
    case DType::kQ6_K:
      return {6, 16, 32, nullptr, false, true};
    case DType::kIQ4_NL:
      return {4, 32, 128, kNonlinearLevels.data(), false, false};
    case DType::kIQ4_XS:
      return {4, 32, 128, kNonlinearLevels.data(), false, true};
    case DType::kMXFP4:
      return {4, 32, 16, kFloat4Levels.data(), false, false};
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  return {};
}

struct QuantBlock {
  uint16_t d = 0;                  // scale of the block: a half; MXFP4's power of two as a bfloat16
  uint16_t dmin = 0;               // minimum (Q4_1, Q5_1) or its scale, a half
  std::array<uint8_t, 256> codes;  // [block_elems], in the order of the values
  std::array<int8_t, 16> scales;   // [block_elems / group], where there are sub-scales
  std::array<uint8_t, 16> minimums;  // the same
};

// Takes the block at `bytes` apart.
void split_block(DType type, const std::byte* bytes, QuantBlock& block);

// The values a block stands for, as float arithmetic gives them: out [block_elems].
void block_values(DType type, const QuantBlock& block, float* out);

// Scale and minimum of group g as floats; the minimum is 0 where the type has none.
struct GroupScale {
  float scale = 0;
  float minimum = 0;
};
GroupScale group_scale(DType type, const QuantBlock& block, int group);

}  // namespace weft
