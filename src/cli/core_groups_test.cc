#include "cli/core_groups.h"

#include <gtest/gtest.h>

#include <array>

#include "base/cpu.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kGiga = 1'000'000'000;

TEST(CoreGroups, AsFewCoresDecodeAsReadTheWeightsInTime) {
  const std::array<ReadRate, 4> rates{{{1, 20e9}, {2, 40e9}, {4, 78e9}, {8, 80e9}}};
  EXPECT_EQ(choose_decode_cores(rates, kGiga / 10, milliseconds(12)), 1);  // 8.3 GB/s
  EXPECT_EQ(choose_decode_cores(rates, kGiga / 4, milliseconds(12)), 2);   // 20.8 GB/s
  EXPECT_EQ(choose_decode_cores(rates, 7 * kGiga / 10, milliseconds(12)), 4);
}

TEST(CoreGroups, CoresThatReadNoFasterAreLeftToPrompts) {
  const std::array<ReadRate, 4> rates{{{1, 20e9}, {2, 40e9}, {4, 78e9}, {8, 80e9}}};
  EXPECT_EQ(choose_decode_cores(rates, 8 * kGiga, milliseconds(12)), 4);
}

TEST(CoreGroups, BothGroupsGetACoreOfThisMachine) {
  for (const int threads : {2, 3}) {
    const Result<int> cores =
        measure_decode_cores(*find_kernels("auto").value(), threads, kGiga, milliseconds(1));
    ASSERT_TRUE(cores.ok());
    EXPECT_GE(*cores, 1);
    EXPECT_LT(*cores, threads);
  }
}

}  // namespace
}  // namespace weft
