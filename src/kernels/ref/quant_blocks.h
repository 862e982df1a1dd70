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
  int code_bits;        // 2 ... 6, 8
  int group;            // values that share a scale: 16 or 32
  int offset;           // level = code - offset where there is no table
  const int8_t* table;  // [16] levels, or null
  bool has_minimum;
  bool has_subscales;  // scale = d * scales[group], minimum = -(dmin * minimums[group])
};

bool is_quantized(DType type);
const QuantFormat& quant_format(DType type);  // of a quantized type

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
  float scale;
  float minimum;
};
GroupScale group_scale(DType type, const QuantBlock& block, int group);

}  // namespace weft
