#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "kernels/kernel_table.h"

namespace weft {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class LogitsTest : public ::testing::TestWithParam<const KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Tables, LogitsTest, ::testing::ValuesIn(available_kernels()),
                         [](const auto& info) { return std::string(info.param->name); });

std::vector<float> normal_values(int64_t n, float deviation) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

TEST_P(LogitsTest, MaxValueIsTheLargestAtEverySizeAndPlace) {
  for (int64_t n = 1; n <= 150; ++n) {
    std::vector<float> x = normal_values(n, 5);
    for (float& v : x) v -= 100;  // nothing but the values themselves may win
    EXPECT_EQ(GetParam()->max_value(x.data(), n), *std::max_element(x.begin(), x.end()));
    for (int64_t i = 0; i < n; ++i) {
      const float before = std::exchange(x[i], 7.0F);
      ASSERT_EQ(GetParam()->max_value(x.data(), n), 7.0F) << i << " of " << n;
      x[i] = before;
    }
  }
}

TEST_P(LogitsTest, MaxValueIsNotANumberIfAnyIs) {
  for (const int64_t n : {1, 2, 15, 16, 17, 64, 65, 100}) {
    std::vector<float> x = normal_values(n, 5);
    for (int64_t i = 0; i < n; ++i) {
      const float before = std::exchange(x[i], kNaN);
      ASSERT_TRUE(std::isnan(GetParam()->max_value(x.data(), n))) << i << " of " << n;
      x[i] = before;
    }
  }
  const std::vector<float> opposite = {-kInfinity, kInfinity, 1};
  EXPECT_EQ(GetParam()->max_value(opposite.data(), 3), kInfinity);
  EXPECT_EQ(GetParam()->max_value(opposite.data(), 1), -kInfinity);
}

TEST_P(LogitsTest, SumExpIsNearTheSumInDouble) {
  std::vector<int64_t> sizes = {1000, 49152, 151936};
  for (int64_t n = 1; n <= 140; ++n) sizes.push_back(n);
  for (const int64_t n : sizes) {
    for (const float inv_temperature : {1.0F, 0.1F, 3.0F}) {
      const std::vector<float> x = normal_values(n, 4);
      const float max = *std::max_element(x.begin(), x.end());
      double expected = 0;
      for (const float v : x) expected += std::exp((double{v} - max) * inv_temperature);
      const float got = GetParam()->sum_exp(x.data(), n, max, inv_temperature);
      EXPECT_NEAR(got, expected, expected * 1e-6) << n << " at " << inv_temperature;
    }
  }
}

// A sum of one term is the exponential itself.
TEST_P(LogitsTest, TheExponentialIsWithinItsBoundOverItsRange) {
  for (float x = 0; x > -86; x -= 0.01371F) {
    const double expected = std::exp(double{x});
    // The argument's own rounding, times log2(e), comes on top of the exponential's two units.
    const double bound = expected * (2.5e-7 - 1.3e-7 * x);
    EXPECT_NEAR(GetParam()->sum_exp(&x, 1, 0, 1), expected, bound) << x;
  }
  const float far[] = {-88.0F, -1000.0F, -kInfinity};
  for (const float x : far) EXPECT_LT(GetParam()->sum_exp(&x, 1, 0, 1), 1e-37F);
  const float zero = 0;
  EXPECT_EQ(GetParam()->sum_exp(&zero, 1, 0, 1), 1.0F);
  EXPECT_TRUE(std::isnan(GetParam()->sum_exp(&kNaN, 1, 0, 1)));
}

}  // namespace
}  // namespace weft
