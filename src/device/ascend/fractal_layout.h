#pragma once
// FractalLayout: a matrix as the cube core of an Ascend chip reads weights.
//
//   values [outputs / 16][inputs / 16][16 outputs][16 inputs]   half or int8
//   scales [outputs / 16][groups of 32 inputs][16 outputs]      half, of int8 values
//
// A square of 16 x 16 is a fractal. Outputs [first, last), multiples of 16, are a matrix by
// themselves, from values_before(first) and scales_before(first) on.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace weft {

class FractalLayout {
 public:
  static constexpr int64_t kFractal = 16;
  static constexpr int64_t kGroup = 32;
  // The gaps that one copy of the chip skips are 16 bits of 32 bytes, of a half matrix one input.
  static constexpr int64_t kMaxInputs = 65520;

  // Dimensions of a matrix that multiplies rows of `inputs` to rows of `outputs`; multiples of 16.
  static Result<FractalLayout> of(int64_t outputs, int64_t inputs);

  int64_t outputs() const { return outputs_; }
  int64_t inputs() const { return inputs_; }
  int64_t groups() const { return (inputs_ + kGroup - 1) / kGroup; }

  // Elements that come before those of `output`, a multiple of 16, and so of a whole matrix.
  int64_t values_before(int64_t output) const { return output * inputs_; }
  int64_t scales_before(int64_t output) const { return output * groups(); }
  int64_t values() const { return values_before(outputs_); }
  int64_t scales() const { return scales_before(outputs_); }

  int64_t value_at(int64_t output, int64_t input) const {
    return output / kFractal * (kFractal * inputs_) +
           (input / kFractal * kFractal + output % kFractal) * kFractal + input % kFractal;
  }
  int64_t scale_at(int64_t output, int64_t group) const {
    return (output / kFractal * groups() + group) * kFractal + output % kFractal;
  }

  // Each stores the weights of one output. An error names the first weight that half precision
  // can't hold; the matrix multiplication must see neither infinities nor NaN.
  //   row     [inputs], to be rounded to the nearest halves
  //   blocks  [inputs / 32] of Q8_0: a half scale and 32 int8
  //   values  [values()], scales [scales()]: the whole matrix
  Status store_floats(int64_t output, std::span<const float> row, std::span<uint16_t> values) const;
  Status store_q8_0(int64_t output, std::span<const std::byte> blocks, std::span<int8_t> values,
                    std::span<uint16_t> scales) const;

 private:
  FractalLayout(int64_t outputs, int64_t inputs) : outputs_(outputs), inputs_(inputs) {}

  int64_t outputs_;
  int64_t inputs_;
};

}  // namespace weft
