#include "cli/paired_ratio.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(PairedRatio, MedianOfOddAndEven) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

TEST(PairedRatio, PairsBeforeItTakesTheMedian) {
  const std::vector<double> ours = {2, 40, 6};
  const std::vector<double> theirs = {1, 10, 2};  // ratios 2, 4, 3
  EXPECT_EQ(paired_ratio(ours, theirs).median, 3);
}

// Ranks of the table of distribution-free intervals for a median: n = 7 the range (98.4 %), n = 9
// the second smallest and largest (96.1 %), n = 20 the sixth (95.9 %).
TEST(PairedRatio, IntervalByOrderStatistics) {
  const auto interval = [](int n) {
    std::vector<double> ours;
    for (int i = 1; i <= n; ++i) ours.push_back(i);
    return paired_ratio(ours, std::vector<double>(static_cast<size_t>(n), 1.0));
  };
  EXPECT_EQ(interval(1).low, 1);
  EXPECT_EQ(interval(5).low, 1);
  EXPECT_EQ(interval(7).low, 1);
  EXPECT_EQ(interval(7).high, 7);
  EXPECT_EQ(interval(9).low, 2);
  EXPECT_EQ(interval(9).high, 8);
  EXPECT_EQ(interval(20).low, 6);
  EXPECT_EQ(interval(20).high, 15);
}

}  // namespace
}  // namespace weft
