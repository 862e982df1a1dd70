#include "kernels/ref/kv_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/half.h"

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
      each_element<uint16_t>(head_dim, stored, values, float_to_half);
      break;
    case KvType::kBF16:
      each_element<uint16_t>(head_dim, stored, values, float_to_bfloat16);
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
        values[i] = half_to_float(element<uint16_t>(stored, i));
        break;
      case KvType::kBF16:
        values[i] = bfloat16_to_float(element<uint16_t>(stored, i));
        break;
      case KvType::kQ8_0:
        values[i] = element<int8_t>(stored, i) * element<float>(stored + head_dim, 0);
        break;
    }
  }
}

}  // namespace weft::ref

namespace weft {

std::string_view kv_type_name(KvType type) {
  switch (type) {
    case KvType::kF32:
      return "f32";
    case KvType::kF16:
      return "f16";
    case KvType::kBF16:
      return "bf16";
    case KvType::kQ8_0:
      return "q8_0";
  }
  WEFT_CHECK(false, "KV type {}", static_cast<int>(type));
}

}  // namespace weft
