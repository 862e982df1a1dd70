#include "device/ascend/fractal_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/half.h"

namespace weft {

namespace {

constexpr int64_t kBlockBytes = 2 + FractalLayout::kGroup;

bool finite(uint16_t half) { return (half & 0x7c00U) != 0x7c00U; }

Error beyond_half(float value, int64_t output, int64_t input) {
  return {ErrorKind::kUnsupported,
          fmt::format("weight {} of output {}, input {} is beyond half precision (65504): the "
                      "Ascend kernels multiply halves",
                      value, output, input)};
}

}  // namespace

Result<FractalLayout> FractalLayout::of(int64_t outputs, int64_t inputs) {
  if (outputs <= 0 || inputs <= 0 || outputs % kFractal != 0 || inputs % kFractal != 0) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("a matrix of {} outputs and {} inputs: the Ascend kernels want "
                             "multiples of {}",
                             outputs, inputs, kFractal)};
  }
  if (inputs > kMaxInputs) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("a matrix of {} inputs: the Ascend kernels take {} at the most",
                             inputs, kMaxInputs)};
  }
  return FractalLayout(outputs, inputs);
}

Status FractalLayout::store_floats(int64_t output, std::span<const float> row,
                                   std::span<uint16_t> values) const {
  WEFT_CHECK(output >= 0 && output < outputs_ && std::ssize(row) == inputs_ &&
             std::ssize(values) == this->values());
  for (int64_t begin = 0; begin < inputs_; begin += kFractal) {
    uint16_t* to = values.data() + value_at(output, begin);
    for (int64_t i = 0; i < kFractal; ++i) {
      const float value = row[static_cast<size_t>(begin + i)];
      to[i] = float_to_half(value);
      if (!finite(to[i])) return beyond_half(value, output, begin + i);
    }
  }
  return {};
}

Status FractalLayout::store_q8_0(int64_t output, std::span<const std::byte> blocks,
                                 std::span<int8_t> values, std::span<uint16_t> scales) const {
  if (inputs_ % kGroup != 0) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("a Q8_0 matrix of {} inputs: its rows are blocks of {}", inputs_, kGroup)};
  }
  WEFT_CHECK(output >= 0 && output < outputs_ && std::ssize(blocks) == groups() * kBlockBytes &&
             std::ssize(values) == this->values() && std::ssize(scales) == this->scales());
  for (int64_t group = 0; group < groups(); ++group) {
    const std::byte* block = blocks.data() + group * kBlockBytes;
    uint16_t scale = 0;
    std::memcpy(&scale, block, sizeof scale);
    const auto* quants = reinterpret_cast<const int8_t*>(block + 2);
    for (int64_t i = 0; i < kGroup; ++i) {
      const float value = half_to_float(scale) * static_cast<float>(quants[i]);
      if (!finite(float_to_half(value))) return beyond_half(value, output, group * kGroup + i);
    }
    scales[static_cast<size_t>(scale_at(output, group))] = scale;
    for (int64_t i = 0; i < kGroup; i += kFractal) {
      std::copy_n(quants + i, kFractal, values.data() + value_at(output, group * kGroup + i));
    }
  }
  return {};
}

}  // namespace weft
