#include "device/ascend/fractal_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/half.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// A value that tells where it stands; exact in half precision.
float mark(int64_t output, int64_t input) {
  return static_cast<float>(output) + static_cast<float>(input) / 64;
}

std::vector<float> marked_row(int64_t output, int64_t inputs) {
  std::vector<float> row(static_cast<size_t>(inputs));
  for (int64_t input = 0; input < inputs; ++input) {
    row[static_cast<size_t>(input)] = mark(output, input);
  }
  return row;
}

TEST(FractalLayout, ElementsFollowOneAnotherByStripFractalOutputAndInput) {
  const FractalLayout layout = FractalLayout::of(32, 48).value();
  std::vector<uint16_t> values(static_cast<size_t>(layout.values()));
  for (int64_t output = 0; output < 32; ++output) {
    ASSERT_TRUE(layout.store_floats(output, marked_row(output, 48), values).ok());
  }
  size_t at = 0;
  for (int64_t strip = 0; strip < 2; ++strip) {
    for (int64_t fractal = 0; fractal < 3; ++fractal) {
      for (int64_t output = 0; output < 16; ++output) {
        for (int64_t input = 0; input < 16; ++input) {
          ASSERT_EQ(half_to_float(values[at++]), mark(strip * 16 + output, fractal * 16 + input));
        }
      }
    }
  }
  EXPECT_EQ(at, values.size());
}

TEST(FractalLayout, PartsByMultiplesOf16OutputsAreMatrices) {
  const FractalLayout whole = FractalLayout::of(64, 64).value();
  const FractalLayout part = FractalLayout::of(32, 64).value();
  std::vector<uint16_t> values(static_cast<size_t>(whole.values()));
  std::vector<uint16_t> part_values(static_cast<size_t>(part.values()));
  for (int64_t output = 0; output < 64; ++output) {
    ASSERT_TRUE(whole.store_floats(output, marked_row(output, 64), values).ok());
    if (output >= 16 && output < 48) {
      ASSERT_TRUE(part.store_floats(output - 16, marked_row(output, 64), part_values).ok());
    }
  }
  const auto begin = values.begin() + whole.values_before(16);
  EXPECT_EQ(std::vector<uint16_t>(begin, begin + part.values()), part_values);
}

std::vector<std::byte> q8_0_row(int64_t output, int64_t groups, uint16_t scale) {
  std::vector<std::byte> blocks(static_cast<size_t>(groups * 34));
  for (int64_t group = 0; group < groups; ++group) {
    std::byte* block = blocks.data() + group * 34;
    const auto own = static_cast<uint16_t>(scale + group);
    std::memcpy(block, &own, 2);
    for (int64_t i = 0; i < 32; ++i) {
      block[2 + i] = static_cast<std::byte>((output * 31 + group * 32 + i) & 0xff);
    }
  }
  return blocks;
}

TEST(FractalLayout, Q8BlocksBecomeFractalsAndScalesByGroup) {
  const FractalLayout layout = FractalLayout::of(32, 96).value();
  std::vector<int8_t> values(static_cast<size_t>(layout.values()));
  std::vector<uint16_t> scales(static_cast<size_t>(layout.scales()));
  for (int64_t output = 0; output < 32; ++output) {
    const auto scale = static_cast<uint16_t>(0x1000 + 16 * output);
    ASSERT_TRUE(layout.store_q8_0(output, q8_0_row(output, 3, scale), values, scales).ok());
  }
  for (int64_t output = 0; output < 32; ++output) {
    for (int64_t input = 0; input < 96; ++input) {
      const int64_t at = (output / 16 * 6 + input / 16) * 256 + output % 16 * 16 + input % 16;
      ASSERT_EQ(values[static_cast<size_t>(at)], static_cast<int8_t>(output * 31 + input));
    }
    for (int64_t group = 0; group < 3; ++group) {
      const int64_t at = (output / 16 * 3 + group) * 16 + output % 16;
      ASSERT_EQ(scales[static_cast<size_t>(at)], 0x1000 + 16 * output + group);
    }
  }
}

TEST(FractalLayout, RefusesOtherDimensionsAndSaysWhich) {
  for (const auto& [outputs, inputs] : {std::pair<int64_t, int64_t>{40, 64}, {64, 72}, {0, 16}}) {
    const auto layout = FractalLayout::of(outputs, inputs);
    ASSERT_FALSE(layout.ok());
    EXPECT_THAT(layout.error().message, HasSubstr(std::to_string(outputs) + " outputs"));
    EXPECT_THAT(layout.error().message, HasSubstr("multiples of 16"));
  }
  EXPECT_THAT(FractalLayout::of(16, 65536).error().message, HasSubstr("65536 inputs"));
  EXPECT_TRUE(FractalLayout::of(16, 65520).ok());
}

TEST(FractalLayout, RefusesWhatHalfCannotHold) {
  const FractalLayout layout = FractalLayout::of(16, 32).value();
  std::vector<uint16_t> values(static_cast<size_t>(layout.values()));
  std::vector<float> row(32, 1.0F);
  row[17] = 65519.0F;  // rounds to the largest half
  EXPECT_TRUE(layout.store_floats(3, row, values).ok());
  row[17] = 65520.0F;
  const Status large = layout.store_floats(3, row, values);
  ASSERT_FALSE(large.ok());
  EXPECT_THAT(large.error().message, HasSubstr("weight 65520 of output 3, input 17"));
  row[17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(layout.store_floats(3, row, values).error().message, HasSubstr("nan"));

  std::vector<int8_t> bytes(values.size());
  std::vector<uint16_t> scales(static_cast<size_t>(layout.scales()));
  std::vector<std::byte> block = q8_0_row(0, 1, float_to_half(512));
  block[2] = static_cast<std::byte>(127);
  for (size_t i = 3; i < block.size(); ++i) block[i] = std::byte{1};
  EXPECT_TRUE(layout.store_q8_0(0, block, bytes, scales).ok());
  block[2] = static_cast<std::byte>(-128);
  EXPECT_THAT(layout.store_q8_0(0, block, bytes, scales).error().message,
              HasSubstr("weight -65536 of output 0, input 0"));
  const FractalLayout odd = FractalLayout::of(16, 48).value();
  EXPECT_THAT(odd.store_q8_0(0, block, bytes, scales).error().message, HasSubstr("48 inputs"));
}

}  // namespace
}  // namespace weft
