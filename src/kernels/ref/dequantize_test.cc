#include "kernels/ref/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "kernels/half.h"

namespace weft {
namespace {

class DequantizeTest : public testing::TestWithParam<int> {};

TEST_P(DequantizeTest, GivesTheValuesOfAnIndependentImplementation) {
  const auto type = static_cast<DType>(GetParam());
  if (type == DType::kF32) return;  // stored as it is
  const std::string name(dtype_info(type).name);
  auto file = Safetensors::open(WEFT_TEST_DATA "/quant_blocks.safetensors");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto raw = file->bytes(name + ".raw").value();
  const auto expected = file->floats(name + ".values").value();
  ASSERT_EQ(row_bytes(type, static_cast<int64_t>(expected.size())),
            static_cast<int64_t>(raw.size()));
  std::vector<float> values(expected.size());
  dequantize(type, reinterpret_cast<const std::byte*>(raw.data()),
             static_cast<int64_t>(values.size()), values.data());
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], expected[i]) << name << " at " << i;
}

INSTANTIATE_TEST_SUITE_P(AllTypes, DequantizeTest, testing::Range(0, kDTypeCount),
                         [](const auto& info) {
                           return std::string(dtype_info(static_cast<DType>(info.param)).name);
                         });

TEST(HalfTest, EveryHalfSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    } else {
      ASSERT_EQ(float_to_half(value), half) << value;
    }
  }
}

TEST(HalfTest, NarrowingTakesTheNearestAndTheEvenOfTwo) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const auto next = static_cast<uint16_t>(bits + 1);
    const float low = half_to_float(half);
    const float high = next == 0x7c00 ? 65536.0F : half_to_float(next);
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0F)), half) << low;
    ASSERT_EQ(float_to_half(middle), half % 2 == 0 ? half : next) << low;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9F)), next) << low;
  }
}

TEST(HalfTest, Bfloat16KeepsTheUpperHalfAndRounds) {
  EXPECT_EQ(bfloat16_to_float(float_to_bfloat16(-1.5F)), -1.5F);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f808000U)), 0x3f80);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f808001U)), 0x3f81);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7f800001U)))));
}

}  // namespace
}  // namespace weft
