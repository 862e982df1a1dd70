#include "norm.h"

#include <gtest/gtest.h>

#include "vector_testing.h"

namespace weft_ascend {
namespace {

using testing::Bench;
using testing::Random;

struct NormCase {
  int32_t rows;
  int32_t width;
  bool update = true;
  bool bias = false;
  bool weights = true;
  float scale = 1;
};

struct Normed {
  std::vector<float> hidden;
  std::vector<half> normed;
};

class NormInput {
 public:
  explicit NormInput(const NormCase& c) : case_(c) {
    Random random(static_cast<uint64_t>(c.width));
    const auto width = static_cast<size_t>(c.width);
    if (c.bias) bias_ = random.floats(width);
    weights_ = random.floats(width);
    for (int32_t r = 0; r < c.rows; ++r) add_row(random);
  }

  // Only these rows of the input.
  Normed run(int32_t first, int32_t rows, uint64_t seed, int blocks) const {
    const auto width = static_cast<size_t>(case_.width);
    const auto part = [&](const std::vector<float>& v, size_t stride) {
      const auto begin = v.begin() + static_cast<ptrdiff_t>(first * stride);
      return std::vector<float>(begin, begin + static_cast<ptrdiff_t>(rows * stride));
    };
    Bench bench(seed);
    const size_t values = static_cast<size_t>(rows) * width;
    const AddNormArgs args{
        .hidden = bench.put(part(hidden_, width)),
        .update = case_.update ? bench.put(part(update_, width + kGap)) : nullptr,
        .bias = bench.put(bias_),
        .weights = case_.weights ? bench.put(weights_) : nullptr,
        .normed = bench.put(std::vector<half>(static_cast<size_t>(rows) * (width + kGap), kFill)),
        .rows = rows,
        .width = case_.width,
        .update_stride = case_.width + kGap,
        .normed_stride = case_.width + kGap,
        .eps = kEps};
    bench.run<&AddNorm>(blocks, args);
    return {bench.get<float>(args.hidden, values),
            bench.get<half>(args.normed, static_cast<size_t>(rows) * (width + kGap))};
  }

  void check(const Normed& out) const {
    const auto width = static_cast<size_t>(case_.width);
    for (size_t r = 0; r < static_cast<size_t>(case_.rows); ++r) {
      const std::string what = std::to_string(width) + " wide, row " + std::to_string(r);
      const reference::NormRow expected = reference::add_norm(
          testing::row_of(hidden_, r, width, width),
          case_.update ? testing::row_of(update_, r, width + kGap, width)
                       : std::span<const float>{},
          bias_, case_.weights ? std::span<const float>(weights_) : std::span<const float>{}, kEps);
      EXPECT_TRUE(testing::same_bits(testing::row_of(out.hidden, r, width, width),
                                     std::span<const float>(expected.hidden)))
          << what;
      if (case_.weights) {
        testing::expect_within(testing::row_of(out.normed, r, width + kGap, width), expected.normed,
                               what);
      }
      for (size_t i = case_.weights ? width : 0; i < width + kGap; ++i) {
        ASSERT_EQ(float{out.normed[r * (width + kGap) + i]}, kFill) << what << ": touched " << i;
      }
    }
  }

 private:
  static constexpr int32_t kGap = 16;
  static constexpr float kEps = 1e-5F;
  static constexpr float kFill = 0.5F;

  void add_row(Random& random) {
    const auto width = static_cast<size_t>(case_.width);
    const std::vector<float> hidden = random.floats(width, case_.scale);
    const std::vector<float> update = random.floats(width + kGap, case_.scale);
    hidden_.insert(hidden_.end(), hidden.begin(), hidden.end());
    update_.insert(update_.end(), update.begin(), update.end());
  }

  NormCase case_;
  std::vector<float> hidden_;
  std::vector<float> update_;
  std::vector<float> bias_;
  std::vector<float> weights_;
};

TEST(AddNormTest, IsWithinTheBoundAtEveryTileEdge) {
  for (const int32_t width : {16, 48, 64, 80, 576, 2032, 2048, 2064, 4096, 4112, 8192, 8208}) {
    for (const bool update : {false, true}) {
      const NormInput input({.rows = 5, .width = width, .update = update, .bias = update});
      input.check(input.run(0, 5, 1, 2));
    }
  }
}

TEST(AddNormTest, TakesTheWidestRows) {
  const NormInput input({.rows = 2, .width = kMaxHidden, .bias = true});
  input.check(input.run(0, 2, 1, 1));
}

TEST(AddNormTest, AddsWithoutNorm) {
  const NormInput input({.rows = 7, .width = 2064, .weights = false});
  input.check(input.run(0, 7, 1, 3));
}

TEST(AddNormTest, TinyAndLargeRows) {
  for (const float scale : {0.0F, 1e-6F, 1e6F}) {
    const NormInput input({.rows = 3, .width = 208, .scale = scale});
    input.check(input.run(0, 3, 1, 1));
  }
}

TEST(AddNormTest, ARowsBitsDependOnTheRowAlone) {
  const NormInput input({.rows = 9, .width = 2064, .bias = true});
  const Normed all = input.run(0, 9, 1, 1);
  for (const int blocks : {2, 3}) {
    const Normed other = input.run(0, 9, 2, blocks);
    EXPECT_TRUE(testing::same_bits(all.normed, other.normed)) << blocks;
    EXPECT_TRUE(testing::same_bits(all.hidden, other.hidden)) << blocks;
  }
  for (int32_t r = 0; r < 9; ++r) {
    const Normed one = input.run(r, 1, 3, 1);
    EXPECT_TRUE(testing::same_bits(std::span<const half>(one.normed),
                                   testing::row_of(all.normed, static_cast<size_t>(r), 2080, 2080)))
        << r;
  }
}

TEST(AddNormTest, TheOrderOfExecutionDoesNotMatter) {
  const NormInput input({.rows = 7, .width = 4112, .bias = true});
  const Normed first = input.run(0, 7, 1, 1);
  input.check(first);
  for (int seed = 2; seed <= testing::Seeds(); ++seed) {
    const Normed other = input.run(0, 7, static_cast<uint64_t>(seed), 1 + seed % 3);
    ASSERT_TRUE(testing::same_bits(first.normed, other.normed)) << "seed " << seed;
    ASSERT_TRUE(testing::same_bits(first.hidden, other.hidden)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft_ascend
