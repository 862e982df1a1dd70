#include "kernels/ref/quant_blocks.h"

#include <cstring>

#include "base/check.h"
#include "kernels/half.h"

namespace weft {
namespace {

uint16_t load_u16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | (p[1] << 8)); }
uint8_t u8(int value) { return static_cast<uint8_t>(value); }

// 16 bytes: the low nibbles are values 0 ... 15, the high ones 16 ... 31.
void split_nibbles(const uint8_t* packed, uint8_t* codes, int half) {
  for (int i = 0; i < half; ++i) {
    codes[i] = packed[i] & 15;
    codes[half + i] = packed[i] >> 4;
  }
}

void add_fifth_bits(const uint8_t* bits, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] = u8(codes[i] | (((bits[i / 8] >> (i % 8)) & 1) << 4));
}

void split_q2_k(const uint8_t* p, QuantBlock& block) {
  for (size_t g = 0; g < 16; ++g) {
    block.scales[g] = static_cast<int8_t>(p[g] & 15);
    block.minimums[g] = p[g] >> 4;
  }
  for (size_t i = 0; i < 256; ++i) {
    block.codes[i] = (p[16 + i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4))) & 3;
  }
  block.d = load_u16(p + 80);
  block.dmin = load_u16(p + 82);
}

void split_q3_k(const uint8_t* p, QuantBlock& block) {
  const uint8_t* high = p;
  const uint8_t* low = p + 32;
  const uint8_t* scales = p + 96;
  for (size_t g = 0; g < 16; ++g) {
    const int low4 = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
    const int high2 = (scales[8 + g % 4] >> (2 * (g / 4))) & 3;
    block.scales[g] = static_cast<int8_t>((low4 | (high2 << 4)) - 32);
  }
  for (size_t i = 0; i < 256; ++i) {
    const int two = (low[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4))) & 3;
    const int third = (high[i % 32] >> (i / 32)) & 1;
    block.codes[i] = u8(two | (third << 2));
  }
  block.d = load_u16(p + 108);
}

// Eight 6-bit scales and eight 6-bit minimums in 12 bytes.
void split_k_scales(const uint8_t* p, QuantBlock& block) {
  for (size_t g = 0; g < 4; ++g) {
    block.scales[g] = static_cast<int8_t>(p[g] & 63);
    block.minimums[g] = p[g + 4] & 63;
    block.scales[g + 4] = static_cast<int8_t>((p[g + 8] & 15) | ((p[g] >> 6) << 4));
    block.minimums[g + 4] = u8((p[g + 8] >> 4) | ((p[g + 4] >> 6) << 4));
  }
}

void split_q4_k(const uint8_t* p, QuantBlock& block) {
  block.d = load_u16(p);
  block.dmin = load_u16(p + 2);
  split_k_scales(p + 4, block);
  for (int i = 0; i < 4; ++i) split_nibbles(p + 16 + 32 * i, block.codes.data() + 64 * i, 32);
}

void split_q5_k(const uint8_t* p, QuantBlock& block) {
  block.d = load_u16(p);
  block.dmin = load_u16(p + 2);
  split_k_scales(p + 4, block);
  for (int i = 0; i < 4; ++i) split_nibbles(p + 48 + 32 * i, block.codes.data() + 64 * i, 32);
  for (size_t i = 0; i < 256; ++i) {
    block.codes[i] = u8(block.codes[i] | (((p[16 + i % 32] >> (i / 32)) & 1) << 4));
  }
}

void split_q6_k(const uint8_t* p, QuantBlock& block) {
  for (size_t half = 0; half < 2; ++half) {
    const uint8_t* low = p + 64 * half;
    const uint8_t* high = p + 128 + 32 * half;
    uint8_t* codes = block.codes.data() + 128 * half;
    for (size_t i = 0; i < 128; ++i) {
      const int four = i < 64 ? low[i] & 15 : low[i - 64] >> 4;
      const int two = (high[i % 32] >> (2 * (i / 32))) & 3;
      codes[i] = u8(four | (two << 4));
    }
  }
  std::memcpy(block.scales.data(), p + 192, 16);
  block.d = load_u16(p + 208);
}

void split_iq4_xs(const uint8_t* p, QuantBlock& block) {
  block.d = load_u16(p);
  const int high = load_u16(p + 2);
  for (size_t g = 0; g < 8; ++g) {
    const int low4 = (p[4 + g / 2] >> (4 * (g % 2))) & 15;
    block.scales[g] = static_cast<int8_t>((low4 | (((high >> (2 * g)) & 3) << 4)) - 32);
  }
  for (int i = 0; i < 8; ++i) split_nibbles(p + 8 + 16 * i, block.codes.data() + 32 * i, 16);
}

// 2^(exponent - 128) as a bfloat16; the half of the usual power belongs to the doubled table.
uint16_t float4_scale(uint8_t exponent) {
  if (exponent >= 2) return static_cast<uint16_t>((exponent - 1) << 7);
  return static_cast<uint16_t>(0x20 << exponent);  // subnormal
}

}  // namespace

void split_block(DType type, const std::byte* bytes, QuantBlock& block) {
  const auto* p = reinterpret_cast<const uint8_t*>(bytes);
  uint8_t* codes = block.codes.data();
  switch (type) {
    case DType::kQ4_0:
    case DType::kIQ4_NL:
      block.d = load_u16(p);
      return split_nibbles(p + 2, codes, 16);
    case DType::kQ4_1:
      block.d = load_u16(p);
      block.dmin = load_u16(p + 2);
      return split_nibbles(p + 4, codes, 16);
    case DType::kQ5_0:
      block.d = load_u16(p);
      split_nibbles(p + 6, codes, 16);
      return add_fifth_bits(p + 2, codes);
    case DType::kQ5_1:
      block.d = load_u16(p);
      block.dmin = load_u16(p + 2);
      split_nibbles(p + 8, codes, 16);
      return add_fifth_bits(p + 4, codes);
    case DType::kQ8_0:
      block.d = load_u16(p);
      for (int i = 0; i < 32; ++i) codes[i] = p[2 + i] ^ 0x80;
      return;
    case DType::kMXFP4:
      block.d = float4_scale(p[0]);
      return split_nibbles(p + 1, codes, 16);
    case DType::kQ2_K:
      return split_q2_k(p, block);
    case DType::kQ3_K:
      return split_q3_k(p, block);
    case DType::kQ4_K:
      return split_q4_k(p, block);
    case DType::kQ5_K:
      return split_q5_k(p, block);
    case DType::kQ6_K:
      return split_q6_k(p, block);
    case DType::kIQ4_XS:
      return split_iq4_xs(p, block);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  WEFT_CHECK(false, "{} has no blocks", dtype_info(type).name);
}

GroupScale group_scale(DType type, const QuantBlock& block, int group) {
  const QuantFormat format = quant_format(type);
  const float d = type == DType::kMXFP4 ? bfloat16_to_float(block.d) : half_to_float(block.d);
  const float dmin = format.has_minimum ? half_to_float(block.dmin) : 0;
  if (!format.has_subscales) return {d, dmin};
  const auto g = static_cast<size_t>(group);
  const float minimum = format.has_minimum ? -(dmin * static_cast<float>(block.minimums[g])) : 0;
  return {d * static_cast<float>(block.scales[g]), minimum};
}

void block_values(DType type, const QuantBlock& block, float* out) {
  const QuantFormat format = quant_format(type);
  const int elems = dtype_info(type).block_elems;
  for (int begin = 0; begin < elems; begin += format.group) {
    const GroupScale scale = group_scale(type, block, begin / format.group);
    for (int i = begin; i < begin + format.group; ++i) {
      const int code = block.codes[static_cast<size_t>(i)];
      const int level = format.table != nullptr ? format.table[code] : code - format.offset;
      const float product = scale.scale * static_cast<float>(level);
      out[i] = format.has_minimum ? product + scale.minimum : product;
    }
  }
}

}  // namespace weft
