#pragma once
// How a matrix multiplication is cut into tiles and steps. Whatever the cut, an output element is
// the sum over its inputs in one order, in chunks at fixed positions: its bits depend on its row
// and its weights alone, never on the other rows, the tile or the team.

#include <cstdint>

#include "kernel_operator.h"
#include "team.h"

namespace weft_ascend {

// out [rows, outputs] = in [rows, inputs] x weights^T. All dimensions but `rows` are multiples of
// 16, strides are in elements.
struct MatmulArgs {
  GM_ADDR in;         // half [rows, in_stride]
  GM_ADDR weights;    // half or int8 [outputs / 16][inputs / 16][16 outputs][16 inputs]
  GM_ADDR scales;     // int8 only: half [outputs / 16][groups of 32 inputs][16 outputs]
  GM_ADDR out;        // float or half [rows, out_stride]
  GM_ADDR workspace;  // int8 only: MatmulInt8WorkspaceBytes(team.size), the team's own
  int32_t rows;
  int32_t inputs;
  int32_t outputs;
  int32_t in_stride;
  int32_t out_stride;
};

// Inputs of one Mmad. Every output element adds up chunk after chunk, so this is a part of the
// arithmetic, not of the tiling.
constexpr int32_t kChunkInputs = 64;

constexpr int32_t kMaxTileRows = 128;
constexpr int32_t kMaxTileOutputs = 256;
constexpr int32_t kMaxStepInputs = 1024;
// What one of the two buffers in L1 holds of the rows and of the weights. Each row costs a step's
// fetch some cycles however short it is, so many rows have long steps; with few, whose weights are
// all that counts, shorter ones leave smaller gaps.
constexpr int32_t kStepRowBytes = 80 * 1024;
constexpr int32_t kStepWeightBytes = 160 * 1024;
constexpr int32_t kShortStepWeightBytes = 128 * 1024;

struct MatmulTiling {
  int32_t tile_rows;  // multiple of 16
  int32_t row_tiles;
  int32_t tile_outputs;  // multiple of 16
  int32_t output_tiles;
  int32_t step_inputs;  // multiple of kChunkInputs: what is fetched to L1 at once
  int32_t steps;        // of one tile
};

// A tile of outputs times one run of its inputs.
struct MatmulStep {
  int32_t first_row;
  int32_t rows;
  int32_t first_output;
  int32_t outputs;
  int32_t first_input;
  int32_t inputs;
  bool opens;   // its tile: nothing is accumulated yet
  bool closes;  // its tile: the sums are complete
};

// Fractals of outputs in a tile. A tile takes the cube rows x width cycles for 16 inputs; to fetch
// them it takes some 6.5 cycles for each fractal of either operand. The width that ends first wins,
// of equals the widest.
__aicore__ inline int32_t TileWidth(int32_t row_fractals, int32_t row_tiles, int32_t columns,
                                    int32_t team_size) {
  constexpr int32_t kWidest = kMaxTileOutputs / kFractal;
  int32_t best = columns < kWidest ? columns : kWidest;
  int32_t best_cost = 0;
  for (int32_t width = best; width >= 1; --width) {
    const int32_t multiply = 2 * row_fractals * width;
    const int32_t fetch = 13 * (row_fractals + width);
    const int32_t rounds = CeilDiv(row_tiles * CeilDiv(columns, width), team_size);
    const int32_t cost = rounds * (multiply > fetch ? multiply : fetch);
    if (best_cost == 0 || cost < best_cost) {
      best = width;
      best_cost = cost;
    }
  }
  return best;
}

__aicore__ inline MatmulTiling TileMatmul(int32_t rows, int32_t inputs, int32_t outputs,
                                          int32_t team_size) {
  MatmulTiling tiling;
  tiling.row_tiles = CeilDiv(rows, kMaxTileRows);
  tiling.tile_rows = RoundUp(CeilDiv(rows, tiling.row_tiles), kFractal);
  tiling.row_tiles = CeilDiv(rows, tiling.tile_rows);
  tiling.tile_outputs = kFractal * TileWidth(tiling.tile_rows / kFractal, tiling.row_tiles,
                                             outputs / kFractal, team_size);
  tiling.output_tiles = CeilDiv(outputs, tiling.tile_outputs);

  int32_t most = kMaxStepInputs;
  const int32_t by_rows = kStepRowBytes / (2 * tiling.tile_rows);
  const int32_t weight_bytes =
      tiling.tile_rows > kMaxTileRows / 2 ? kStepWeightBytes : kShortStepWeightBytes;
  const int32_t by_outputs = weight_bytes / (2 * tiling.tile_outputs);
  most = by_rows < most ? by_rows : most;
  most = by_outputs < most ? by_outputs : most;
  most = most / kChunkInputs * kChunkInputs;
  tiling.step_inputs = RoundUp(CeilDiv(inputs, CeilDiv(inputs, most)), kChunkInputs);
  tiling.steps = CeilDiv(inputs, tiling.step_inputs);
  return tiling;
}

// Steps of one block: it takes every team.size-th tile, all steps of a tile one after another.
__aicore__ inline int32_t StepCount(const MatmulTiling& tiling, Team team) {
  const int32_t tiles = tiling.row_tiles * tiling.output_tiles;
  return team.rank < tiles ? CeilDiv(tiles - team.rank, team.size) * tiling.steps : 0;
}

// The block's index-th step. Row tiles vary fastest, so that the blocks which run at one time read
// the same weights and L2 serves all but the first of them.
__aicore__ inline MatmulStep StepAt(const MatmulArgs& args, const MatmulTiling& tiling, Team team,
                                    int32_t index) {
  const int32_t turn = index / tiling.steps;
  const int32_t tile = team.rank + turn * team.size;
  const int32_t step = index - turn * tiling.steps;
  const int32_t output_tile = tile / tiling.row_tiles;
  MatmulStep s;
  s.first_row = (tile - output_tile * tiling.row_tiles) * tiling.tile_rows;
  s.rows = args.rows - s.first_row;
  s.rows = s.rows < tiling.tile_rows ? s.rows : tiling.tile_rows;
  s.first_output = output_tile * tiling.tile_outputs;
  s.outputs = args.outputs - s.first_output;
  s.outputs = s.outputs < tiling.tile_outputs ? s.outputs : tiling.tile_outputs;
  s.first_input = step * tiling.step_inputs;
  s.inputs = args.inputs - s.first_input;
  s.inputs = s.inputs < tiling.step_inputs ? s.inputs : tiling.step_inputs;
  s.opens = step == 0;
  s.closes = step == tiling.steps - 1;
  return s;
}

}  // namespace weft_ascend
