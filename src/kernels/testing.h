#pragma once
// Data for the tests of kernels: random numbers and valid random blocks of every type, the same in
// every run.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "kernels/half.h"
#include "kernels/kernel_table.h"
#include "tensor/dtype.h"

namespace weft::testing {

// The tables this CPU can run, then what it can run of the code of others: the bf16 kernels with
// the dot product in software, and those for AVX-VNNI with its instruction as AVX-512 has it.
std::vector<const KernelTable*> tested_tables();
const KernelTable& tested_table(std::string_view name);
// Whether it multiplies pairs of bf16.
inline bool has_bf16_dots(const KernelTable& table) {
  return table.activation_format(DType::kBF16) == ActivationFormat::kBF16;
}

inline std::vector<float> random_floats(int64_t n, uint32_t seed, float spread = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(random);
  return values;
}

inline float through_bf16(float x) { return bfloat16_to_float(float_to_bfloat16(x)); }
// The largest relative error of that.
inline constexpr double kBf16Rounding = 0x1p-8;

// `values` random values of `type` as a file holds them: any code may occur, scales lie around 1 /
// 64 of the codes' range, so that a row times a row of ordinary activations is an ordinary number.
inline std::vector<std::byte> random_blocks(DType type, int64_t values, uint32_t seed) {
  std::mt19937 random(seed);
  const DTypeInfo& info = dtype_info(type);
  std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(type, values)));
  if (info.block_elems == 1) {
    const std::vector<float> floats = random_floats(values, seed, 0.05F);
    for (size_t i = 0; i < floats.size(); ++i) {
      const uint16_t half =
          type == DType::kF16 ? float_to_half(floats[i]) : float_to_bfloat16(floats[i]);
      if (type == DType::kF32) {
        std::memcpy(bytes.data() + 4 * i, &floats[i], 4);
      } else {
        std::memcpy(bytes.data() + 2 * i, &half, 2);
      }
    }
    return bytes;
  }
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0xff);
  const auto put_scale = [&](std::byte* at, float range) {
    std::uniform_real_distribution<float> uniform(-range, range);
    const uint16_t half = float_to_half(uniform(random));
    std::memcpy(at, &half, 2);
  };
  for (size_t block = 0; block < bytes.size(); block += static_cast<size_t>(info.block_bytes)) {
    std::byte* at = bytes.data() + block;
    switch (type) {
      case DType::kQ4_1:
      case DType::kQ5_1:
        put_scale(at + 2, 0.1F);
        [[fallthrough]];
      case DType::kQ4_0:
      case DType::kQ5_0:
        put_scale(at, 0.01F);
        break;
      case DType::kQ8_0:
      case DType::kIQ4_NL:
        put_scale(at, 0.001F);
        break;
      case DType::kQ4_K:
      case DType::kQ5_K:
        put_scale(at, 0.0003F);
        put_scale(at + 2, 0.001F);
        break;
      case DType::kQ2_K:
        put_scale(at + 80, 0.005F);
        put_scale(at + 82, 0.005F);
        break;
      case DType::kQ3_K:
        put_scale(at + 108, 0.001F);
        break;
      case DType::kQ6_K:
        put_scale(at + 208, 0.0001F);
        break;
      case DType::kIQ4_XS:
        put_scale(at, 0.0001F);
        break;
      case DType::kMXFP4:
        *at = static_cast<std::byte>(116 + random() % 8);
        break;
      case DType::kF32:
      case DType::kF16:
      case DType::kBF16:
        break;
    }
  }
  return bytes;
}

// A 64-byte aligned copy or an uninitialized buffer, as packed operands need; filled with a pattern
// so that what a kernel does not write is noticed.
class AlignedBytes {
 public:
  explicit AlignedBytes(int64_t size) : storage_(static_cast<size_t>(size) + 64, std::byte{0xa5}) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    data_ = storage_.data() + (64 - address % 64) % 64;
  }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  std::byte* data() { return data_; }

 private:
  std::vector<std::byte> storage_;
  std::byte* data_ = nullptr;
};

}  // namespace weft::testing
