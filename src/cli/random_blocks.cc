#include "cli/random_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace weft {
namespace {

// SplitMix64 as a function of a counter.
uint64_t random_word(uint64_t seed, uint64_t counter) {
  uint64_t z = seed + (counter + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

void fill_random_bytes(uint64_t seed, std::span<std::byte> out) {
  const size_t words = out.size() / 8;
  for (size_t i = 0; i < words; ++i) {
    const uint64_t word = random_word(seed, i);
    std::memcpy(out.data() + i * 8, &word, 8);
  }
  const uint64_t last = random_word(seed, words);
  std::memcpy(out.data() + words * 8, &last, out.size() % 8);
}

// Values that a byte picks: 256 quantiles of the normal distribution, by bisection of its
// distribution function.
std::array<float, 256> normal_quantiles(float stddev) {
  std::array<float, 256> values{};
  for (size_t i = 0; i < values.size(); ++i) {
    const double p = (static_cast<double>(i) + 0.5) / 256;
    double low = -6;
    double high = 6;
    for (int step = 0; step < 60; ++step) {
      const double x = (low + high) / 2;
      (0.5 * std::erfc(-x / std::sqrt(2.0)) < p ? low : high) = x;
    }
    values[i] = static_cast<float>(low) * stddev;
  }
  return values;
}

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

// For 0 < |value| < 1, to nearest; small block scales are subnormal F16 numbers in real files too.
uint16_t to_f16(float value) {
  const uint32_t sign = value < 0 ? 0x8000U : 0;
  const float size = std::fabs(value);
  WEFT_CHECK(size < 1, "a block scale of {}", value);
  int exponent = 0;
  std::frexp(size, &exponent);                // size in [2^(exponent-1), 2^exponent)
  const int shift = std::max(exponent, -13);  // F16's smallest normal number is 2^-14
  const auto units =
      static_cast<uint32_t>(std::lrint(std::ldexp(size, 11 - shift)));  // of the last bit
  // A normal number's 11 bits of `units` begin with the one that F16 leaves out, which adds 1 to
  // the exponent field.
  return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(shift + 13) << 10U) + units));
}

// F16 block scales of about `scale` that a random byte picks: its top bit is the sign, so that the
// asymmetry of a type's integers cancels over many blocks; the other bits spread the size by a
// quarter.
std::array<uint16_t, 256> block_scales(float scale) {
  std::array<uint16_t, 256> scales{};
  for (uint32_t i = 0; i < scales.size(); ++i) {
    const float size = scale * (0.75F + 0.5F * static_cast<float>(i & 127U) / 127.0F);
    scales[i] = to_f16((i & 128U) != 0 ? -size : size);
  }
  return scales;
}

// Replaces the F16 at `place`, random so far, by the scale that its first byte picks.
uint16_t set_scale(std::byte* place, const std::array<uint16_t, 256>& scales) {
  const uint16_t scale = scales[static_cast<uint8_t>(*place)];
  std::memcpy(place, &scale, 2);
  return scale;
}

// The 12 bytes of a Q4_K block's eight 6-bit scales and minimums. Each minimum equals its scale,
// and the block's own minimum is 7.5 times its scale, which centres the values.
void set_k_scales(std::byte* place) {
  std::array<uint8_t, 12> bytes{};
  std::memcpy(bytes.data(), place, bytes.size());
  std::array<uint8_t, 8> sizes{};
  for (size_t j = 0; j < 8; ++j) sizes[j] = static_cast<uint8_t>(32U + (bytes[j] & 31U));
  for (size_t j = 0; j < 4; ++j) {
    const uint32_t high = sizes[j + 4] >> 4U;
    const uint32_t low = sizes[j + 4] & 15U;
    bytes[j] = bytes[j + 4] = static_cast<uint8_t>(sizes[j] | (high << 6U));
    bytes[j + 8] = static_cast<uint8_t>(low | (low << 4U));
  }
  std::memcpy(place, bytes.data(), bytes.size());
}

constexpr float kRms4Bit = 4.61F;      // of the integers -7.5 ... 7.5
constexpr float kRms5Bit = 9.25F;      // of -16 ... 15
constexpr float kRms6Bit = 18.48F;     // of -32 ... 31
constexpr float kRms8Bit = 73.6F;      // of -127 ... 127
constexpr float kRmsSubScale = 48.4F;  // of 32 ... 63, the scales inside a block of 256
constexpr float kRmsSpread = 1.01F;    // of block_scales(1)

void fill_q4_k(float stddev, std::span<std::byte> out) {
  const auto scales = block_scales(stddev / (kRms4Bit * kRmsSubScale * kRmsSpread));
  const auto minimums = block_scales(7.5F * stddev / (kRms4Bit * kRmsSubScale * kRmsSpread));
  for (size_t at = 0; at < out.size(); at += 144) {
    std::byte* block = out.data() + at;
    const auto pick = static_cast<uint8_t>(block[0]);
    set_scale(block, scales);
    std::memcpy(block + 2, &minimums[pick], 2);
    set_k_scales(block + 4);
  }
}

void fill_q6_k(float stddev, std::span<std::byte> out) {
  const auto scales = block_scales(stddev / (kRms6Bit * kRmsSubScale * kRmsSpread));
  for (size_t at = 0; at < out.size(); at += 210) {
    std::byte* block = out.data() + at;
    for (std::byte* sub = block + 192; sub < block + 208; ++sub) {
      const auto random = static_cast<uint8_t>(*sub);
      const int size = 32 + (random & 31);
      *sub = static_cast<std::byte>((random & 128) != 0 ? -size : size);
    }
    set_scale(block + 208, scales);
  }
}

// Q4_0, Q5_0 and Q8_0: an F16 scale, then integers that may be any bits.
void fill_legacy(DType type, float stddev, std::span<std::byte> out) {
  const float rms = type == DType::kQ4_0 ? kRms4Bit : type == DType::kQ5_0 ? kRms5Bit : kRms8Bit;
  const auto scales = block_scales(stddev / (rms * kRmsSpread));
  const auto block_bytes = static_cast<size_t>(dtype_info(type).block_bytes);
  for (size_t at = 0; at < out.size(); at += block_bytes) {
    set_scale(out.data() + at, scales);
    if (type != DType::kQ8_0) continue;
    // -128 occurs in no quantized file; readers may rely on it.
    for (size_t i = at + 2; i < at + block_bytes; ++i) {
      out[i] = out[i] == std::byte{0x80} ? std::byte{0x81} : out[i];
    }
  }
}

template <class T, class Convert>
void fill_picked(uint64_t seed, float stddev, std::span<std::byte> out, Convert convert) {
  const std::array<float, 256> quantiles = normal_quantiles(stddev);
  std::array<T, 256> values{};
  std::transform(quantiles.begin(), quantiles.end(), values.begin(), convert);
  const size_t count = out.size() / sizeof(T);
  for (size_t i = 0; i < count; i += 8) {
    const uint64_t word = random_word(seed, i / 8);
    for (size_t j = 0; j < std::min<size_t>(8, count - i); ++j)
      std::memcpy(out.data() + (i + j) * sizeof(T), &values[(word >> (8 * j)) & 255U], sizeof(T));
  }
}

}  // namespace

void fill_random_blocks(DType type, float stddev, uint64_t seed, std::span<std::byte> out) {
  WEFT_CHECK(out.size() % static_cast<size_t>(dtype_info(type).block_bytes) == 0,
             "{} bytes are no whole blocks of {}", out.size(), dtype_info(type).name);
  if (type == DType::kF32) return fill_picked<float>(seed, stddev, out, [](float x) { return x; });
  if (type == DType::kBF16) return fill_picked<uint16_t>(seed, stddev, out, to_bf16);
  fill_random_bytes(seed, out);
  switch (type) {
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
      return fill_legacy(type, stddev, out);
    case DType::kQ4_K:
      return fill_q4_k(stddev, out);
    case DType::kQ6_K:
      return fill_q6_k(stddev, out);
    default:
      WEFT_CHECK(false, "no random blocks of {}", dtype_info(type).name);
  }
}

}  // namespace weft
