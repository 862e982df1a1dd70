#include "swiglu.h"

#include <gtest/gtest.h>

#include "vector_testing.h"

namespace weft_ascend {
namespace {

using testing::Bench;
using testing::Random;

constexpr int32_t kGap = 16;

template <class In>
class SwiGluInput {
 public:
  SwiGluInput(int32_t rows, int32_t width, bool bias, float scale = 3) : width_(width) {
    Random random(static_cast<uint64_t>(width + 1));
    const std::vector<float> in = random.floats(static_cast<size_t>(rows * stride()), scale);
    in_.assign(in.begin(), in.end());
    if (bias) bias_ = random.floats(static_cast<size_t>(2 * width));
  }

  std::vector<half> run(int32_t first, int32_t rows, uint64_t seed, int blocks) const {
    Bench bench(seed);
    const auto begin = in_.begin() + first * stride();
    const auto out_values = static_cast<size_t>(rows * (width_ + kGap));
    const SwiGluArgs args{.gate_up = bench.put(std::vector<In>(begin, begin + rows * stride())),
                          .bias = bench.put(bias_),
                          .out = bench.put(std::vector<half>(out_values, half(0.5F))),
                          .rows = rows,
                          .width = width_,
                          .in_stride = stride(),
                          .out_stride = width_ + kGap};
    bench.run<&SwiGlu<In>>(blocks, args);
    return bench.get<half>(args.out, out_values);
  }

  void check(const std::vector<half>& out) const {
    const auto width = static_cast<size_t>(width_);
    for (size_t r = 0; r * (width + kGap) < out.size(); ++r) {
      const auto in = testing::row_of(in_, r, static_cast<size_t>(stride()), 2 * width);
      const std::vector<float> floats(in.begin(), in.end());
      testing::expect_within(testing::row_of(out, r, width + kGap, width),
                             reference::swiglu(floats, bias_),
                             std::to_string(width) + " wide, row " + std::to_string(r));
      for (size_t i = width; i < width + kGap; ++i) {
        ASSERT_EQ(float{out[r * (width + kGap) + i]}, 0.5F) << "touched " << i;
      }
    }
  }

 private:
  int32_t stride() const { return 2 * width_ + kGap; }

  int32_t width_;
  std::vector<In> in_;
  std::vector<float> bias_;
};

TEST(SwiGluTest, IsWithinTheBoundAtEveryTileEdge) {
  for (const int32_t width : {16, 48, 64, 1536, 2032, 2048, 2064, 4096, 4112}) {
    const SwiGluInput<half> halves(5, width, width % 3 == 0);
    halves.check(halves.run(0, 5, 1, 2));
    const SwiGluInput<float> floats(3, width, width % 3 != 0);
    floats.check(floats.run(0, 3, 1, 1));
  }
}

TEST(SwiGluTest, LargeGatesNeitherOverflowNorVanish) {
  const SwiGluInput<half> input(3, 96, false, 60);
  input.check(input.run(0, 3, 1, 1));
}

TEST(SwiGluTest, ARowsBitsDependOnTheRowAlone) {
  const SwiGluInput<half> input(9, 2064, true);
  const std::vector<half> all = input.run(0, 9, 1, 1);
  for (const int blocks : {2, 3}) {
    EXPECT_TRUE(testing::same_bits(all, input.run(0, 9, 2, blocks))) << blocks;
  }
  for (int32_t r = 0; r < 9; ++r) {
    EXPECT_TRUE(testing::same_bits(std::span<const half>(input.run(r, 1, 3, 1)),
                                   testing::row_of(all, static_cast<size_t>(r), 2080, 2080)))
        << r;
  }
}

TEST(SwiGluTest, TheOrderOfExecutionDoesNotMatter) {
  const SwiGluInput<half> input(6, 4112, true);
  const std::vector<half> first = input.run(0, 6, 1, 1);
  input.check(first);
  for (int seed = 2; seed <= testing::Seeds(); ++seed) {
    ASSERT_TRUE(
        testing::same_bits(first, input.run(0, 6, static_cast<uint64_t>(seed), 1 + seed % 3)))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft_ascend
