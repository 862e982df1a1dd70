#include "matmul_tiling.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft_ascend {
namespace {

MatmulArgs ArgsOf(int32_t rows, int32_t inputs, int32_t outputs) {
  MatmulArgs args = {};
  args.rows = rows;
  args.inputs = inputs;
  args.outputs = outputs;
  return args;
}

// How often each element of the output is opened, closed and given each of its inputs.
void ExpectEveryElementOnce(int32_t rows, int32_t inputs, int32_t outputs, int32_t team_size) {
  SCOPED_TRACE(testing::Message() << rows << " rows, " << inputs << " inputs, " << outputs
                                  << " outputs, " << team_size << " blocks");
  const MatmulArgs args = ArgsOf(rows, inputs, outputs);
  const MatmulTiling tiling = TileMatmul(rows, inputs, outputs, team_size);
  ASSERT_EQ(tiling.tile_rows % kFractal, 0);
  ASSERT_EQ(tiling.tile_outputs % kFractal, 0);
  ASSERT_EQ(tiling.step_inputs % kChunkInputs, 0);
  ASSERT_GT(tiling.step_inputs, 0);
  ASSERT_LE(tiling.tile_rows * tiling.step_inputs * 2, kStepRowBytes);
  ASSERT_LE(tiling.tile_outputs * tiling.step_inputs * 2, kStepWeightBytes);
  ASSERT_LE(tiling.step_inputs, kMaxStepInputs);
  ASSERT_LE(tiling.tile_rows, kMaxTileRows);
  ASSERT_LE(tiling.tile_outputs, kMaxTileOutputs);

  const int64_t blocks = outputs / kFractal;
  std::vector<int32_t> done(static_cast<size_t>(rows * blocks));  // inputs, in ascending order
  std::vector<int32_t> closed(done.size());
  for (int32_t rank = 0; rank < team_size; ++rank) {
    const Team team = {rank, team_size};
    for (int32_t index = 0; index < StepCount(tiling, team); ++index) {
      const MatmulStep step = StepAt(args, tiling, team, index);
      ASSERT_GT(step.rows, 0);
      ASSERT_GT(step.outputs, 0);
      ASSERT_GT(step.inputs, 0);
      ASSERT_EQ(step.outputs % kFractal, 0);
      ASSERT_EQ(step.first_input % kChunkInputs, 0);
      ASSERT_EQ(step.opens, step.first_input == 0);
      for (int32_t row = step.first_row; row < step.first_row + step.rows; ++row) {
        for (int32_t block = 0; block < step.outputs / kFractal; ++block) {
          const auto at = static_cast<size_t>(row * blocks + step.first_output / kFractal + block);
          ASSERT_EQ(done[at], step.first_input);
          done[at] += step.inputs;
          closed[at] += step.closes ? 1 : 0;
        }
      }
    }
  }
  for (size_t at = 0; at < done.size(); ++at) {
    ASSERT_EQ(done[at], inputs);
    ASSERT_EQ(closed[at], 1);
  }
}

TEST(MatmulTiling, EveryElementIsMadeOnceFromAllItsInputsInOrder) {
  for (const int32_t rows : {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200, 255, 257, 513}) {
    for (const int32_t inputs : {16, 48, 64, 80, 576, 1024, 1040, 1536, 18944}) {
      for (const int32_t outputs : {16, 48, 240, 256, 272, 576, 4096}) {
        for (const int32_t team_size : {1, 2, 3, 20, 24}) {
          ExpectEveryElementOnce(rows, inputs, outputs, team_size);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// The most outputs that one block makes in proportion to an equal share.
double Imbalance(int32_t rows, int32_t outputs, int32_t team_size) {
  const MatmulArgs args = ArgsOf(rows, 64, outputs);
  const MatmulTiling tiling = TileMatmul(rows, 64, outputs, team_size);
  int64_t most = 0;
  for (int32_t rank = 0; rank < team_size; ++rank) {
    int64_t made = 0;
    for (int32_t index = 0; index < StepCount(tiling, {rank, team_size}); ++index) {
      const MatmulStep step = StepAt(args, tiling, {rank, team_size}, index);
      made += static_cast<int64_t>(step.rows) * step.outputs;
    }
    most = made > most ? made : most;
  }
  return static_cast<double>(most) * team_size / (static_cast<double>(rows) * outputs);
}

TEST(MatmulTiling, BlocksGetAboutEqualShares) {
  // Decode of Qwen2.5-7B: what its layer's matrices and its head have of outputs.
  for (const int32_t outputs : {4608, 3584, 37888, 152064}) {
    for (const int32_t team_size : {20, 24}) {
      EXPECT_LE(Imbalance(16, outputs, team_size), 1.12) << outputs << ", " << team_size;
      EXPECT_LE(Imbalance(2048, outputs, team_size), 1.12) << outputs << ", " << team_size;
    }
  }
}

TEST(MatmulTiling, ABlockWithoutATileHasNoSteps) {
  const MatmulTiling tiling = TileMatmul(1, 64, 16, 3);
  EXPECT_EQ(StepCount(tiling, {0, 3}), 1);
  EXPECT_EQ(StepCount(tiling, {1, 3}), 0);
  EXPECT_EQ(StepCount(tiling, {2, 3}), 0);
}

}  // namespace
}  // namespace weft_ascend
