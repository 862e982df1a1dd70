#pragma once
// What the tests of both matrix multiplications share: a problem with random operands, run on the
// twin and compared with the scalar reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "device/ascend/fractal_layout.h"
#include "kernel_testing.h"
#include "matmul_tiling.h"
#include "reference/matmul_reference.h"
#include "twin.h"

namespace weft_ascend::testing {

inline weft::twin::Options Cores(int cores, uint64_t seed) {
  weft::twin::Options options;
  options.chip = *weft::twin::find_chip("910B2");
  options.chip.cores = cores;
  options.seed = seed;
  return options;
}

struct Shape {
  int32_t rows;
  int32_t inputs;
  int32_t outputs;
};

inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.rows << " rows, " << shape.inputs << " inputs, " << shape.outputs
             << " outputs";
}

// Between two rows of the operands lie as many elements that are nobody's: NaN in, untouched out.
constexpr int32_t kGap = 16;
constexpr uint8_t kUntouched = 0x7b;

class Problem {
 public:
  // `first_row`: the rows are those of a greater problem from there on.
  explicit Problem(const Shape& shape, int32_t first_row = 0) : shape_(shape) {
    std::mt19937 weights_random(7);
    for (int32_t i = 0; i < shape.outputs * shape.inputs; ++i) {
      weights_.push_back(RandomHalf(weights_random));
    }
    for (int32_t row = 0; row < shape.rows; ++row) {
      std::mt19937 random(100 + first_row + row);
      for (int32_t i = 0; i < shape.inputs; ++i) in_.push_back(RandomHalf(random));
    }
  }

  const Shape& shape() const { return shape_; }
  const std::vector<float>& in() const { return in_; }
  const std::vector<float>& weights() const { return weights_; }
  void set_in(std::vector<float> in) { in_ = std::move(in); }
  void set_weights(std::vector<float> weights) { weights_ = std::move(weights); }

  std::vector<uint16_t> StridedIn() const {
    std::vector<uint16_t> strided;
    for (auto row = in_.begin(); row != in_.end(); row += shape_.inputs) {
      std::transform(row, row + shape_.inputs, std::back_inserter(strided),
                     [](float value) { return half(value).bits; });
      strided.insert(strided.end(), kGap, 0x7e00);
    }
    return strided;
  }

  std::vector<uint16_t> FractalWeights() const {
    const weft::FractalLayout layout =
        weft::FractalLayout::of(shape_.outputs, shape_.inputs).value();
    std::vector<uint16_t> values(static_cast<size_t>(layout.values()));
    for (int32_t output = 0; output < shape_.outputs; ++output) {
      const float* row = weights_.data() + static_cast<int64_t>(output) * shape_.inputs;
      EXPECT_TRUE(
          layout.store_floats(output, {row, static_cast<size_t>(shape_.inputs)}, values).ok());
    }
    return values;
  }

 private:
  static float RandomHalf(std::mt19937& random) {
    return half(static_cast<float>(random() % 4097) / 2048 - 1);
  }

  Shape shape_;
  std::vector<float> in_;
  std::vector<float> weights_;
};

// Device memory with what a multiplication reads and writes.
class OnDevice {
 public:
  // `out_bytes`: of an element of the output.
  OnDevice(weft::twin::Device& device, const Problem& problem, int32_t out_bytes)
      : device_(device) {
    const Shape& shape = problem.shape();
    args_.rows = shape.rows;
    args_.inputs = shape.inputs;
    args_.outputs = shape.outputs;
    args_.in_stride = shape.inputs + kGap;
    args_.out_stride = shape.outputs + kGap;
    args_.in = Upload(problem.StridedIn());
    args_.weights = Upload(problem.FractalWeights());
    out_bytes_ = int64_t{args_.out_stride} * shape.rows * out_bytes;
    args_.out = Upload(std::vector<uint8_t>(static_cast<size_t>(out_bytes_), kUntouched));
  }
  ~OnDevice() {
    for (uint8_t* memory : memory_) device_.Free(memory);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  MatmulArgs& args() { return args_; }

  template <class T>
  uint8_t* Upload(const std::vector<T>& values) {
    uint8_t* memory = Allocate(values.size() * sizeof(T));
    device_.Copy(memory, values.data(), values.size() * sizeof(T));
    return memory;
  }
  uint8_t* Allocate(uint64_t bytes) {
    memory_.push_back(static_cast<uint8_t*>(device_.Allocate(bytes)));
    return memory_.back();
  }

  // The output's rows without the gaps, in which nothing may have been written.
  template <class T>
  std::vector<T> Out() {
    std::vector<uint8_t> bytes(static_cast<size_t>(out_bytes_));
    device_.Copy(bytes.data(), args_.out, bytes.size());
    std::vector<T> out(bytes.size() / sizeof(T) / static_cast<size_t>(args_.out_stride) *
                       static_cast<size_t>(args_.outputs));
    const size_t row_bytes = sizeof(T) * static_cast<size_t>(args_.outputs);
    const size_t gap_bytes = sizeof(T) * kGap;
    const uint8_t* from = bytes.data();
    auto* to = reinterpret_cast<uint8_t*>(out.data());
    for (int32_t row = 0; row < args_.rows; ++row) {
      std::memcpy(to, from, row_bytes);
      to += row_bytes;
      from += row_bytes;
      EXPECT_TRUE(std::all_of(from, from + gap_bytes, [](uint8_t b) { return b == kUntouched; }))
          << "written behind row " << row;
      from += gap_bytes;
    }
    return out;
  }

 private:
  weft::twin::Device& device_;
  MatmulArgs args_ = {};
  int64_t out_bytes_ = 0;
  std::vector<uint8_t*> memory_;
};

inline void ExpectEnded(weft::twin::Device& device) {
  const weft::twin::Outcome outcome = device.Run();
  if (device.fault()) FAIL() << device.fault()->text();
  ASSERT_EQ(outcome, weft::twin::Outcome::kEnded);
}

inline void ExpectNear(const std::vector<float>& out, const reference::Products& products,
                       const Shape& shape) {
  ASSERT_EQ(out.size(), products.sums.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const double bound = reference::FloatBound(shape.inputs, products.magnitudes[i]);
    ASSERT_LE(std::fabs(out[i] - products.sums[i]), bound)
        << "row " << i / static_cast<size_t>(shape.outputs) << ", output "
        << i % static_cast<size_t>(shape.outputs) << " of " << shape;
  }
}

}  // namespace weft_ascend::testing
