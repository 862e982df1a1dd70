#pragma once
// What the vector operators' tests share: a small device, buffers on it, inputs, comparisons.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernel_operator.h"
#include "kernel_testing.h"
#include "reference/vector_ops.h"
#include "shapes.h"
#include "team.h"
#include "twin.h"

namespace weft_ascend::testing {

// An operator as a kernel of its own.
template <auto kOperator, class Args>
void run_operator(Args args) {
  AscendC::TPipe pipe;
  kOperator(pipe, WholeLaunch(), args);
}

class Bench {
 public:
  explicit Bench(uint64_t seed = 1) : device_(options(seed)) {}

  template <class T>
  GM_ADDR put(const std::vector<T>& values) {
    if (values.empty()) return nullptr;
    GM_ADDR address = room<T>(values.size());
    device_.Copy(address, values.data(), values.size() * sizeof(T));
    return address;
  }
  // Holds NaNs.
  template <class T>
  GM_ADDR room(size_t count) {
    return static_cast<GM_ADDR>(device_.Allocate(count * sizeof(T)));
  }
  template <class T>
  std::vector<T> get(GM_ADDR address, size_t count) {
    std::vector<T> values(count);
    device_.Copy(values.data(), address, count * sizeof(T));
    return values;
  }

  template <auto kOperator, class Args>
  void run(int blocks, const Args& args) {
    launch<&run_operator<kOperator, Args>>(blocks, args);
  }
  template <auto kKernel, class Args>
  void launch(int blocks, const Args& args) {
    device_.template Launch<kKernel>(blocks, args);
    const weft::twin::Outcome outcome = device_.Run();
    ASSERT_FALSE(device_.fault().has_value()) << device_.fault()->text();
    ASSERT_EQ(outcome, weft::twin::Outcome::kEnded);
  }

 private:
  static weft::twin::Options options(uint64_t seed) {
    weft::twin::Options options;
    options.chip.cores = 3;
    options.seed = seed;
    return options;
  }

  weft::twin::Device device_;
};

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  std::vector<float> floats(size_t count, float scale = 1) {
    std::normal_distribution<float> normal(0, scale);
    std::vector<float> values(count);
    for (float& v : values) v = normal(engine_);
    return values;
  }
  std::vector<half> halves(size_t count, float scale = 1) {
    const std::vector<float> values = floats(count, scale);
    return {values.begin(), values.end()};
  }
  int32_t below(int32_t end) { return std::uniform_int_distribution<int32_t>(0, end - 1)(engine_); }
  float uniform() { return std::uniform_real_distribution<float>(0, 1)(engine_); }
  // Different numbers below `end`.
  std::vector<int32_t> places(size_t count, int32_t end) {
    std::vector<int32_t> all(static_cast<size_t>(end));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    std::shuffle(all.begin(), all.end(), engine_);
    all.resize(count);
    return all;
  }

 private:
  std::mt19937_64 engine_;
};

inline std::vector<float> widened(std::span<const half> halves) {
  return {halves.begin(), halves.end()};
}

template <class T>
std::span<const T> row_of(const std::vector<T>& values, size_t row, size_t stride, size_t width) {
  return std::span(values).subspan(row * stride, width);
}

template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return same_bits(std::span(a), std::span(b));
}

// Each value within the error that belongs to it; what is too large for a half is an infinity.
inline void expect_within(std::span<const half> got, std::span<const reference::Bounded> expected,
                          const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(double{static_cast<float>(got[i])} - expected[i].value);
    ASSERT_LE(difference, expected[i].error)
        << what << ", column " << i << ": " << static_cast<float>(got[i]) << " for "
        << expected[i].value;
  }
}

}  // namespace weft_ascend::testing
