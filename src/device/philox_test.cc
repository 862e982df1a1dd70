#include "device/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace weft {
namespace {

// The vectors that the authors publish with their generators.
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformDependsOnEachPartOfTheKey) {
  std::set<double> seen;
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{1} << 40}) {
    for (const uint32_t choice : {0U, 1U, 7U}) {
      for (const uint64_t position : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 33}) {
        const double u = sampling_uniform(seed, choice, position);
        EXPECT_GE(u, 0.0);
        EXPECT_LT(u, 1.0);
        seen.insert(u);
      }
    }
  }
  EXPECT_EQ(seen.size(), 27U);
}

TEST(PhiloxTest, UniformFillsItsRange) {
  constexpr int kDraws = 40000;
  int bins[20] = {};
  for (int i = 0; i < kDraws; ++i) ++bins[static_cast<int>(sampling_uniform(3, 0, i) * 20)];
  double chi = 0;
  for (const int n : bins) chi += (n - kDraws / 20.0) * (n - kDraws / 20.0) / (kDraws / 20.0);
  EXPECT_LT(chi, 43.8);  // one in a thousand with 19 degrees of freedom
}

}  // namespace
}  // namespace weft
