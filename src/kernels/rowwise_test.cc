#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/kernel_table.h"

namespace weft {
namespace {

class RowwiseTest : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  // Random values followed by a guard that nothing may touch.
  std::vector<float> values(int n) {
    std::vector<float> result(n + kGuard, kUntouched);
    for (int i = 0; i < n; ++i) result[i] = normal_(random_);
    return result;
  }
  static void expect_guarded(const std::vector<float>& x) {
    for (int i = 0; i < kGuard; ++i) ASSERT_EQ(x[x.size() - 1 - i], kUntouched);
  }

  static constexpr int kGuard = 32;
  static constexpr float kUntouched = 12345;

 private:
  std::mt19937 random_{1};
  std::normal_distribution<float> normal_;
};
INSTANTIATE_TEST_SUITE_P(Tables, RowwiseTest, ::testing::ValuesIn(available_kernels()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST_P(RowwiseTest, HeadNormIsNearItsDefinition) {
  for (int head_dim = 1; head_dim <= 70; ++head_dim) {
    for (const int heads : {1, 3}) {
      std::vector<float> x = values(heads * head_dim);
      const std::vector<float> before = x;
      const std::vector<float> weight = values(head_dim);
      constexpr float kEps = 1e-6F;
      GetParam()->head_norm(x.data(), heads, head_dim, weight.data(), kEps);
      for (int h = 0; h < heads; ++h) {
        double squares = 0;
        for (int i = 0; i < head_dim; ++i) squares += std::pow(double{before[h * head_dim + i]}, 2);
        const double scale = 1 / std::sqrt(squares / head_dim + kEps);
        for (int i = 0; i < head_dim; ++i) {
          const double expected = before[h * head_dim + i] * scale * weight[i];
          ASSERT_NEAR(x[h * head_dim + i], expected, std::abs(expected) * 1e-6) << head_dim;
        }
      }
      expect_guarded(x);
    }
  }
}

TEST_P(RowwiseTest, RopeRotatesPairsAndLeavesTheRest) {
  constexpr int kPositions = 3;
  for (int pairs = 1; pairs <= 40; ++pairs) {
    for (const bool interleaved : {false, true}) {
      const int head_dim = 2 * pairs + (pairs % 3) * 8;
      const std::vector<float> angles = values(kPositions * pairs);
      std::vector<float> cos(kPositions * pairs);
      std::vector<float> sin(kPositions * pairs);
      for (int i = 0; i < kPositions * pairs; ++i) {
        cos[i] = std::cos(angles[i]);
        sin[i] = std::sin(angles[i]);
      }
      const RopeTable table = {cos.data(), sin.data(), pairs, interleaved};
      std::vector<float> x = values(2 * head_dim);
      std::vector<float> expected = x;
      for (int h = 0; h < 2; ++h) {
        for (int i = 0; i < pairs; ++i) {
          const int a = h * head_dim + (interleaved ? 2 * i : i);
          const int b = h * head_dim + (interleaved ? 2 * i + 1 : i + pairs);
          const double c = cos[2 * pairs + i];
          const double s = sin[2 * pairs + i];
          expected[a] = static_cast<float>(x[a] * c - x[b] * s);
          expected[b] = static_cast<float>(x[a] * s + x[b] * c);
        }
      }
      GetParam()->rope(x.data(), 2, head_dim, 2, table);
      for (int i = 0; i < 2 * head_dim; ++i) {
        ASSERT_NEAR(x[i], expected[i], 1e-6) << i << " of " << head_dim << " pairs " << pairs;
      }
      expect_guarded(x);
    }
  }
}

}  // namespace
}  // namespace weft
