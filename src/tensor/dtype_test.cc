#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cctype>

#include <string>

namespace weft {
namespace {

TEST(DType, NamesLeadBackToTheType) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    std::string name(dtype_info(type).name);
    EXPECT_EQ(dtype_from_name(name), type);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    EXPECT_EQ(dtype_from_name(name), type);
  }
  EXPECT_EQ(dtype_from_name("Q4"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(DType, BlocksHaveTheSizesOfTheFormat) {
  // Bits of scales, minimums and values of one block.
  EXPECT_EQ(row_bytes(DType::kF32, 3), 12);
  EXPECT_EQ(row_bytes(DType::kF16, 3), 6);
  EXPECT_EQ(row_bytes(DType::kBF16, 3), 6);
  EXPECT_EQ(row_bytes(DType::kQ4_0, 64), 2 * (2 + 16));
  EXPECT_EQ(row_bytes(DType::kQ4_1, 64), 2 * (4 + 16));
  EXPECT_EQ(row_bytes(DType::kQ5_0, 64), 2 * (2 + 4 + 16));
  EXPECT_EQ(row_bytes(DType::kQ5_1, 64), 2 * (4 + 4 + 16));
  EXPECT_EQ(row_bytes(DType::kQ8_0, 64), 2 * (2 + 32));
  EXPECT_EQ(row_bytes(DType::kQ2_K, 512), 2 * (16 + 64 + 4));
  EXPECT_EQ(row_bytes(DType::kQ3_K, 512), 2 * (32 + 64 + 12 + 2));
  EXPECT_EQ(row_bytes(DType::kQ4_K, 512), 2 * (4 + 12 + 128));
  EXPECT_EQ(row_bytes(DType::kQ5_K, 512), 2 * (4 + 12 + 32 + 128));
  EXPECT_EQ(row_bytes(DType::kQ6_K, 512), 2 * (128 + 64 + 16 + 2));
  EXPECT_EQ(row_bytes(DType::kIQ4_NL, 64), 2 * (2 + 16));
  EXPECT_EQ(row_bytes(DType::kIQ4_XS, 512), 2 * (2 + 2 + 4 + 128));
  EXPECT_EQ(row_bytes(DType::kMXFP4, 64), 2 * (1 + 16));
}

TEST(DTypeDeathTest, PartOfABlockIsNoRow) {
  EXPECT_DEATH(row_bytes(DType::kQ8_0, 33), "not whole blocks of Q8_0");
}

}  // namespace
}  // namespace weft
