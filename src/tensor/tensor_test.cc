#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <array>

namespace weft {
namespace {

TEST(Shape, CountsElementsAndRows) {
  const Shape scalar;
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.elements(), 1);
  EXPECT_EQ(scalar.rows(), 1);
  EXPECT_EQ(scalar.row_elements(), 1);
  EXPECT_EQ(scalar.str(), "[]");
  const Shape experts = {4, 160, 64};
  EXPECT_EQ(experts.rank(), 3);
  EXPECT_EQ(experts[0], 4);
  EXPECT_EQ(experts.elements(), 40960);
  EXPECT_EQ(experts.rows(), 640);
  EXPECT_EQ(experts.row_elements(), 64);
  EXPECT_EQ(experts.str(), "[4, 160, 64]");
  EXPECT_EQ(Shape({0, 8}).elements(), 0);
}

TEST(Shape, EqualsByRankAndExtents) {
  const std::array<int64_t, 2> extents = {2, 3};
  EXPECT_EQ(Shape({2, 3}), Shape(std::span<const int64_t>(extents)));
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
  EXPECT_NE(Shape({2}), Shape({2, 0}));
}

TEST(ShapeDeathTest, RefusesMoreAxesAndNegativeExtents) {
  EXPECT_DEATH(Shape({1, 1, 1, 1, 1}), "rank 5");
  EXPECT_DEATH(Shape({2, -1}), "extent -1");
}

TEST(TensorView, RowsFollowEachOther) {
  const std::array<std::byte, 136> bytes{};
  const TensorView view{DType::kQ8_0, {2, 64}, bytes};
  EXPECT_EQ(view.row(0), bytes.data());
  EXPECT_EQ(view.row(1), bytes.data() + 68);
}

}  // namespace
}  // namespace weft
