#pragma once
// The card's 16-bit float. On the card `half` is a built-in type of the compiler; here it is a
// value of two bytes whose arithmetic goes through float, one rounding (to nearest, ties to even)
// each.

#include <bit>
#include <cstdint>
#include <type_traits>

namespace weft::twin {

inline float half_to_float(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | (magnitude << 13) | 0x7f800000u);
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  const float small = static_cast<float>(magnitude) * 0x1p-24f;  // subnormal or zero: exact
  return std::bit_cast<float>(std::bit_cast<uint32_t>(small) | sign);
}

inline uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // subnormal: the addition rounds to a multiple of 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

}  // namespace weft::twin

struct half {
  half() = default;
  half(float value) : bits(weft::twin::float_to_half(value)) {}  // NOLINT: as the card's type
  template <class T>
    requires std::is_arithmetic_v<T>
  half(T value) : half(static_cast<float>(value)) {}                  // NOLINT: as the card's type
  operator float() const { return weft::twin::half_to_float(bits); }  // NOLINT

  uint16_t bits;
};

static_assert(sizeof(half) == 2 && std::is_trivially_copyable_v<half>);
