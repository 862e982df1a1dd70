#include "kernels/ref/kv_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace weft::ref {
namespace {

template <class T, class F>
void each_element(int head_dim, std::byte* stored, const float* values, F convert) {
  for (int i = 0; i < head_dim; ++i) {
    const T element = convert(values[i]);
    memcpy(stored + i * sizeof(T), &element, sizeof(T));
  }
}

template <class T>
T element(const std::byte* stored, int i) {
  T value;
  memcpy(&value, stored + i * sizeof(T), sizeof(T));
  return value;
}

// One float scale after head_dim int8. A value that is not finite makes the scale so, and with it
// the whole head.
void encode_q8(int head_dim, const float* values, std::byte* stored) {
  float magnitude = 0;
  for (int i = 0; i < head_dim; ++i) {
    const float a = std::abs(values[i]);
    if (!(a <= magnitude)) magnitude = a;
    if (std::isnan(magnitude)) break;
  }
  float scale = magnitude / 127;
  float inverse = 127 / magnitude;
  if (magnitude < kSmallestQ8Magnitude) scale = inverse = 0;
  for (int i = 0; i < head_dim; ++i) {
    const float scaled = values[i] * inverse;
    const auto q = static_cast<int8_t>(std::isfinite(scaled) ? std::lrint(scaled) : 0);
    memcpy(stored + i, &q, 1);
  }
  memcpy(stored + head_dim, &scale, sizeof scale);
}

}  // namespace

uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7E00;  // NaN, quiet
  constexpr uint32_t kInfinity = 0x47800000;         // 65536, the first magnitude beyond all of F16
  if (magnitude >= kInfinity) return sign | 0x7C00;
  if (magnitude < 0x38800000) {  // below 2^-14: subnormal, units of 2^-24
    const float units = std::bit_cast<float>(magnitude) * 0x1p24F;
    return sign | static_cast<uint16_t>(std::lrint(units));
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  const uint32_t rounded =
      magnitude - (112U << 23) + 0xFFF + odd;  // may carry into infinity, rightly
  return sign | static_cast<uint16_t>(rounded >> 13);
}

float f16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 31;
  const uint32_t mantissa = bits & 0x3FF;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

int64_t kv_values_bytes(KvType type, int head_dim) {
  switch (type) {
    case KvType::kF32:
      return head_dim * 4;
    case KvType::kF16:
    case KvType::kBF16:
      return head_dim * 2;
    case KvType::kQ8_0:
      return head_dim + 4;
  }
  WEFT_CHECK(false, "KV type {}", static_cast<int>(type));
}

void encode_kv_values(KvType type, int head_dim, const float* values, std::byte* stored) {
  switch (type) {
    case KvType::kF32:
      memcpy(stored, values, head_dim * sizeof(float));
      break;
    case KvType::kF16:
      each_element<uint16_t>(head_dim, stored, values, float_to_f16);
      break;
    case KvType::kBF16:
      each_element<uint16_t>(head_dim, stored, values, float_to_bf16);
      break;
    case KvType::kQ8_0:
      encode_q8(head_dim, values, stored);
      break;
  }
}

void decode_kv_values(KvType type, int head_dim, const std::byte* stored, float* values) {
  for (int i = 0; i < head_dim; ++i) {
    switch (type) {
      case KvType::kF32:
        values[i] = element<float>(stored, i);
        break;
      case KvType::kF16:
        values[i] = f16_to_float(element<uint16_t>(stored, i));
        break;
      case KvType::kBF16:
        values[i] = bf16_to_float(element<uint16_t>(stored, i));
        break;
      case KvType::kQ8_0:
        values[i] = element<int8_t>(stored, i) * element<float>(stored + head_dim, 0);
        break;
    }
  }
}

}  // namespace weft::ref
