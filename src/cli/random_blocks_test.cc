#include "cli/random_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "device/cpu/cpu_executor.h"

namespace weft {
namespace {

constexpr int64_t kRows = 16;
constexpr int64_t kColumns = 2048;

std::vector<std::byte> blocks(DType type, float stddev, uint64_t seed) {
  std::vector<std::byte> bytes(static_cast<size_t>(kRows * row_bytes(type, kColumns)));
  fill_random_blocks(type, stddev, seed, bytes);
  return bytes;
}

// The values as the scalar kernels read them.
std::vector<float> values(DType type, const std::vector<std::byte>& bytes) {
  const KernelTable& ref = **find_kernels("ref");
  std::vector<std::byte> storage(static_cast<size_t>(ref.packed_bytes(type, kRows, kColumns)) + 64);
  std::byte* packed = storage.data() + (64 - reinterpret_cast<uintptr_t>(storage.data()) % 64);
  const int64_t panels = (kRows + ref.panel_outputs - 1) / ref.panel_outputs;
  ref.pack(type, bytes.data(), kRows, kColumns, 0, panels, packed);
  const PackedMatrix matrix{type, kRows, kColumns, packed};
  std::vector<float> out(static_cast<size_t>(kRows * kColumns));
  for (int64_t row = 0; row < kRows; ++row)
    ref.unpack_row(matrix, row, out.data() + row * kColumns);
  return out;
}

class RandomBlocks : public testing::TestWithParam<DType> {};

TEST_P(RandomBlocks, HaveMeanZeroAndTheDeviationAskedFor) {
  for (const float stddev : {0.01F, 0.05F}) {
    const std::vector<float> x = values(GetParam(), blocks(GetParam(), stddev, 1));
    double sum = 0;
    double squares = 0;
    for (const float v : x) {
      ASSERT_TRUE(std::isfinite(v));
      ASSERT_LT(std::fabs(v), 10 * stddev);
      sum += v;
      squares += static_cast<double>(v) * v;
    }
    const auto n = static_cast<double>(x.size());
    EXPECT_NEAR(sum / n, 0, 0.1 * stddev);
    EXPECT_NEAR(std::sqrt(squares / n), stddev, 0.05 * stddev);
  }
}

TEST_P(RandomBlocks, DependOnTheSeedAlone) {
  EXPECT_EQ(blocks(GetParam(), 0.02F, 7), blocks(GetParam(), 0.02F, 7));
  EXPECT_NE(blocks(GetParam(), 0.02F, 7), blocks(GetParam(), 0.02F, 8));
}

INSTANTIATE_TEST_SUITE_P(Types, RandomBlocks,
                         testing::Values(DType::kF32, DType::kBF16, DType::kQ4_0, DType::kQ5_0,
                                         DType::kQ8_0, DType::kQ4_K, DType::kQ6_K),
                         [](const auto& info) { return std::string(dtype_info(info.param).name); });

}  // namespace
}  // namespace weft
