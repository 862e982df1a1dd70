#include "matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "matmul_testing.h"

namespace weft_ascend {
namespace {

using testing::Cores;
using testing::ExpectEnded;
using testing::ExpectNear;
using testing::OnDevice;
using testing::Problem;
using testing::Shape;
using weft::twin::Device;

void FloatKernel(MatmulArgs args) {
  AscendC::TPipe pipe;
  Matmul<float>(pipe, WholeLaunch(), args);
}

void HalfKernel(MatmulArgs args) {
  AscendC::TPipe pipe;
  Matmul<half>(pipe, WholeLaunch(), args);
}

std::vector<float> Multiply(const Problem& problem, int blocks, uint64_t seed) {
  Device device(Cores(blocks, seed));
  OnDevice on_device(device, problem, sizeof(float));
  device.Launch<&FloatKernel>(blocks, on_device.args());
  ExpectEnded(device);
  return on_device.Out<float>();
}

// Within the bound of the reference, and the same bits whatever the team.
void ExpectRight(const Shape& shape) {
  SCOPED_TRACE(::testing::Message() << shape);
  const Problem problem(shape);
  const std::vector<float> out = Multiply(problem, 1, 1);
  ExpectNear(
      out,
      reference::Multiply(problem.in(), problem.weights(), shape.rows, shape.inputs, shape.outputs),
      shape);
  EXPECT_EQ(Multiply(problem, 2, 2), out);
  EXPECT_EQ(Multiply(problem, 3, 3), out);
}

TEST(Matmul, RowsAroundEveryTileEdge) {
  for (const int32_t rows : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200, 257}) {
    ExpectRight({rows, 144, 304});
  }
}

TEST(Matmul, InputsAroundEveryChunkAndStep) {
  for (const int32_t inputs : {16, 48, 64, 80, 240, 256, 272, 576, 1008, 1024, 1040, 1536, 2064}) {
    ExpectRight({5, inputs, 48});
    ExpectRight({130, inputs, 272});
  }
}

TEST(Matmul, OutputsAroundEveryTile) {
  for (const int32_t outputs : {16, 48, 64, 240, 256, 272, 496, 512, 528, 576, 1536, 1552}) {
    ExpectRight({1, 80, outputs});
    ExpectRight({33, 80, outputs});
  }
}

TEST(Matmul, LayersOfSmolLM2OnAWholeChip) {
  for (const Shape& shape : {Shape{1, 576, 960}, Shape{17, 576, 3072}, Shape{65, 1536, 576}}) {
    ExpectRight(shape);
    const Problem problem(shape);
    EXPECT_EQ(Multiply(problem, 24, 4), Multiply(problem, 1, 1)) << shape;
  }
}

TEST(Matmul, LeastAndGreatestHalves) {
  const Shape shape = {17, 144, 48};
  constexpr float kValues[] = {65504, -65504, 0x1p-24F, -0x1p-24F, 0x1p-14F, 1, -0.0F, 0x1.ffcp-1F};
  Problem problem(shape);
  std::mt19937 random(3);
  const auto draw = [&](float) { return kValues[random() % std::size(kValues)]; };
  std::vector<float> in = problem.in();
  std::vector<float> weights = problem.weights();
  std::ranges::transform(in, in.begin(), draw);
  std::ranges::transform(weights, weights.begin(), draw);
  problem.set_in(in);
  problem.set_weights(weights);
  ExpectNear(Multiply(problem, 1, 1), reference::Multiply(in, weights, 17, 144, 48), shape);
}

TEST(Matmul, ARowsBitsDependOnItAlone) {
  const Shape shape = {200, 336, 304};
  const std::vector<float> all = Multiply(Problem(shape), 2, 1);
  for (const auto& [first, rows] : {std::pair{0, 1}, {0, 17}, {63, 66}, {136, 64}, {199, 1}}) {
    const Shape part = {rows, shape.inputs, shape.outputs};
    const auto begin = all.begin() + static_cast<int64_t>(first) * shape.outputs;
    EXPECT_EQ(Multiply(Problem(part, first), 1, 1),
              std::vector<float>(begin, begin + static_cast<int64_t>(rows) * shape.outputs))
        << rows << " rows from " << first;
  }
}

TEST(Matmul, HalfOutputIsTheFloatRoundedOnce) {
  for (const int32_t rows : {1, 16, 129}) {
    const Problem problem({rows, 336, 304});
    Device device(Cores(2, 1));
    OnDevice on_device(device, problem, sizeof(half));
    device.Launch<&HalfKernel>(2, on_device.args());
    ExpectEnded(device);
    const std::vector<float> floats = Multiply(problem, 2, 1);
    const std::vector<half> halves = on_device.Out<half>();
    const auto [sums, magnitudes] =
        reference::Multiply(problem.in(), problem.weights(), rows, 336, 304);
    ASSERT_EQ(halves.size(), floats.size());
    for (size_t i = 0; i < halves.size(); ++i) {
      ASSERT_EQ(halves[i].bits, half(floats[i]).bits) << "element " << i;
      ASSERT_LE(std::fabs(halves[i] - sums[i]), reference::HalfBound(336, sums[i], magnitudes[i]));
    }
  }
}

TEST(Matmul, TheSameBitsInEveryOrder) {
  for (const Shape& shape : {Shape{1, 336, 592}, Shape{130, 272, 1040}}) {
    const Problem problem(shape);
    const std::vector<float> out = Multiply(problem, 2, 1);
    for (int seed = 2; seed <= testing::Seeds(); ++seed) {
      ASSERT_EQ(Multiply(problem, 2, static_cast<uint64_t>(seed)), out) << "seed " << seed;
    }
  }
}

// Two multiplications; the second one's first weights are fetched before it starts, or those of a
// third one, which never comes.
struct AheadArgs {
  MatmulArgs first;
  MatmulArgs second;
  MatmulArgs fetched;
  bool fetch;
};

void AheadKernel(AheadArgs args) {
  AscendC::TPipe pipe;
  WeightsAhead ahead;
  const Team team = WholeLaunch();
  Matmul<float>(pipe, team, args.first);
  if (args.fetch) PrefetchWeights(pipe, team, args.fetched, ahead);
  Matmul<float>(pipe, team, args.second, &ahead);
}

class MatmulAhead : public ::testing::Test {
 protected:
  struct Run {
    std::vector<float> first;
    std::vector<float> second;
    uint64_t fetched_bytes = 0;  // by MTE2 of both cube cores
  };
  enum class Fetch { kNothing, kTheSecond, kAnother };

  static Run Launch(const Problem& first, const Problem& second, Fetch fetch, uint64_t seed) {
    Device device(Cores(2, seed));
    OnDevice one(device, first, sizeof(float));
    OnDevice two(device, second, sizeof(float));
    const AheadArgs args = {one.args(), two.args(),
                            fetch == Fetch::kAnother ? one.args() : two.args(),
                            fetch != Fetch::kNothing};
    device.Launch<&AheadKernel>(2, args);
    ExpectEnded(device);
    Run run;
    run.first = one.Out<float>();
    run.second = two.Out<float>();
    for (int core = 0; core < 2; ++core) {
      run.fetched_bytes += device.counters(core, 0).bytes[PIPE_MTE2];
    }
    return run;
  }
};

TEST_F(MatmulAhead, WeightsThatAreThereAreNotFetchedAgain) {
  const Problem first({17, 144, 304});
  const Problem second({17, 304, 592});
  const Run plain = Launch(first, second, Fetch::kNothing, 1);
  for (int seed = 1; seed <= testing::Seeds(); ++seed) {
    const Run ahead = Launch(first, second, Fetch::kTheSecond, static_cast<uint64_t>(seed));
    ASSERT_EQ(ahead.first, plain.first) << "seed " << seed;
    ASSERT_EQ(ahead.second, plain.second) << "seed " << seed;
    ASSERT_EQ(ahead.fetched_bytes, plain.fetched_bytes) << "seed " << seed;
  }
}

TEST_F(MatmulAhead, WeightsOfAnotherOperatorAreNotUsed) {
  const Problem first({17, 144, 304});
  const Problem second({17, 304, 592});
  const Run plain = Launch(first, second, Fetch::kNothing, 1);
  const Run other = Launch(first, second, Fetch::kAnother, 1);
  EXPECT_EQ(other.second, plain.second);
  EXPECT_GT(other.fetched_bytes, plain.fetched_bytes);
}

TEST_F(MatmulAhead, ABlockWithoutTilesFetchesNothing) {
  const Problem first({1, 64, 16});
  const Problem second({1, 80, 16});
  const Run plain = Launch(first, second, Fetch::kNothing, 1);
  const Run ahead = Launch(first, second, Fetch::kTheSecond, 1);
  EXPECT_EQ(ahead.second, plain.second);
  EXPECT_EQ(ahead.fetched_bytes, plain.fetched_bytes);
}

}  // namespace
}  // namespace weft_ascend
