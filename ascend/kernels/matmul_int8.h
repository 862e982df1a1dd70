#pragma once
// Matrix multiplication with int8 weights in groups of 32 inputs with a half scale each. The vector
// cores of a block turn the weights of a step to half, w = half(q * scale), into the block's part
// of the workspace, while its cube core multiplies the step before. So the result is, bit for bit,
// Matmul's with the weights turned to half beforehand.

#include <cstdint>

#include "kernel_operator.h"
#include "matmul_cube.h"

namespace weft_ascend {

constexpr int32_t kGroupInputs = 32;

// Bytes that MatmulArgs::workspace points to: two steps' weights for each block.
WEFT_SHARED constexpr int64_t MatmulInt8WorkspaceBytes(int32_t team_size) {
  return static_cast<int64_t>(team_size) * 2 * kStepWeightBytes;
}

// Flags between the block's cores: the vector cores have filled a step's weights; the cube core has
// taken them, so that others may overwrite them. The vector cores are two steps ahead at the most.
constexpr int32_t kWeightsFilled = 0;
constexpr int32_t kWeightsTaken = 1;

__aicore__ inline AscendC::GlobalTensor<half> StepWorkspace(const MatmulArgs& args, Team team,
                                                            int32_t index) {
  AscendC::GlobalTensor<half> workspace;
  workspace.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(args.workspace));
  return workspace[static_cast<int64_t>(team.rank * 2 + index % 2) * (kStepWeightBytes / 2)];
}

// On the cube core: the weights that the vector cores leave in the workspace.
class DequantizedWeights {
 public:
  __aicore__ inline DequantizedWeights(const MatmulArgs& args, Team team)
      : args_(args), team_(team) {}

  __aicore__ inline void Fetch(const AscendC::LocalTensor<half>& l1, const MatmulStep& step,
                               int32_t index) {
    AscendC::CrossCoreWaitFlag(kWeightsFilled);
    AscendC::DataCopy(l1, StepWorkspace(args_, team_, index), step.outputs * step.inputs);
    AscendC::CrossCoreSetFlag<0x2, PIPE_MTE2>(kWeightsTaken);
  }

 private:
  const MatmulArgs& args_;
  Team team_;
};

// On a vector core: its half of each step's strips of 16 outputs.
class WeightDequantizer {
 public:
  __aicore__ inline WeightDequantizer(AscendC::TPipe& pipe, Team team, const MatmulArgs& args,
                                      const MatmulTiling& tiling)
      : args_(args), tiling_(tiling), team_(team) {
    values_.SetGlobalBuffer(reinterpret_cast<__gm__ int8_t*>(args.weights));
    scales_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(args.scales));
    pipe.InitBuffer(in_queue_, 2, kUnitElements + kUnitScaleBytes);
    pipe.InitBuffer(out_queue_, 2, kUnitElements * 2);
    pipe.InitBuffer(spread_buffer_, kUnitScaleBytes * kFractal);
  }

  __aicore__ inline void Run() {
    const int32_t steps = StepCount(tiling_, team_);
    for (int32_t index = 0; index < steps; ++index) {
      if (index >= 2) AscendC::CrossCoreWaitFlag(kWeightsTaken);
      FillStep(index);
      AscendC::CrossCoreSetFlag<0x2, PIPE_MTE3>(kWeightsFilled);
    }
    for (int32_t left = steps < 2 ? steps : 2; left > 0; --left) {
      AscendC::CrossCoreWaitFlag(kWeightsTaken);
    }
  }

 private:
  // A unit: as many fractals as go through UB at once, whole pieces of strips. A piece of one
  // fractal has a group of its own, so there are as many groups at the most.
  static constexpr int32_t kUnitFractals = kMaxStepInputs / kFractal;
  static constexpr int32_t kUnitElements = kUnitFractals * kFractalElements;
  static constexpr int32_t kUnitScaleBytes = kUnitFractals * kFractal * 2;
  // Halves that one repetition of a vector instruction works on: 8 outputs of a fractal.
  static constexpr int32_t kRepeat = 128;

  __aicore__ inline void FillStep(int32_t index) {
    const MatmulStep step = StepAt(args_, tiling_, team_, index);
    const int32_t piece = step.inputs / kFractal;
    const int32_t unit = kUnitFractals / piece;
    const Share share = ShareOf(step.outputs / kFractal,
                                static_cast<int32_t>(AscendC::GetSubBlockIdx()), kVectorCores);
    const AscendC::GlobalTensor<half> to = StepWorkspace(args_, team_, index);
    for (int32_t strip = share.begin; strip < share.end; strip += unit) {
      const int32_t rest = share.end - strip;
      const int32_t strips = rest < unit ? rest : unit;
      Read(step, strip, strips, piece);
      Dequantize(strips, piece);
      AscendC::LocalTensor<half> weights = out_queue_.DeQue<half>();
      AscendC::DataCopy(to[strip * piece * kFractalElements], weights,
                        strips * piece * kFractalElements);
      out_queue_.FreeTensor(weights);
    }
  }

  // [strips][piece][16][16] values, and behind the room for them [strips][groups][16] scales.
  __aicore__ inline void Read(const MatmulStep& step, int32_t strip, int32_t strips,
                              int32_t piece) {
    AscendC::LocalTensor<int8_t> in = in_queue_.AllocTensor<int8_t>();
    const int64_t first_strip = step.first_output / kFractal + strip;
    AscendC::DataCopyParams params;  // in 32 bytes: an eighth of a fractal, or a group's scales
    params.blockCount = strips;
    params.blockLen = piece * 8;
    params.srcGap = (args_.inputs / kFractal - piece) * 8;
    AscendC::DataCopy(in, values_[(first_strip * args_.inputs + step.first_input) * kFractal],
                      params);
    const int32_t groups = CeilDiv(step.inputs, kGroupInputs);
    const int32_t all_groups = CeilDiv(args_.inputs, kGroupInputs);
    params.blockLen = groups;
    params.srcGap = all_groups - groups;
    const int64_t first_group = first_strip * all_groups + step.first_input / kGroupInputs;
    AscendC::DataCopy(in[kUnitElements].ReinterpretCast<half>(), scales_[first_group * kFractal],
                      params);
    in_queue_.EnQue(in);
  }

  __aicore__ inline void Dequantize(int32_t strips, int32_t piece) {
    const int32_t groups = CeilDiv(piece, 2);
    AscendC::LocalTensor<int8_t> in = in_queue_.DeQue<int8_t>();
    AscendC::LocalTensor<half> out = out_queue_.AllocTensor<half>();
    const AscendC::LocalTensor<half> spread = spread_buffer_.Get<half>();
    AscendC::Cast(out, in, AscendC::RoundMode::CAST_NONE, strips * piece * kFractalElements);
    // A scale into all 16 inputs of its output's line in a fractal; 8 scales a repetition.
    AscendC::Brcb(spread, in[kUnitElements].ReinterpretCast<half>(), strips * groups * 2, {1, 8});
    AscendC::PipeBarrier<PIPE_V>();
    if (piece % 2 == 0) {
      Scale(out, spread, strips * groups, strips * groups);
    } else {  // the last group of a strip has one fractal: strips can't run into one another
      for (int32_t strip = 0; strip < strips; ++strip) {
        Scale(out[strip * piece * kFractalElements], spread[strip * groups * kFractalElements],
              groups, groups - 1);
      }
    }
    AscendC::PipeBarrier<PIPE_V>();  // the next unit overwrites `spread`
    in_queue_.FreeTensor(in);
    out_queue_.EnQue(out);
  }

  // Groups of two fractals one behind the other times their scales: the first fractals of `first`
  // groups and the second ones of `second`.
  __aicore__ inline void Scale(const AscendC::LocalTensor<half>& out,
                               const AscendC::LocalTensor<half>& spread, int32_t first,
                               int32_t second) {
    for (int32_t part = 0; part < 4; ++part) {
      const int32_t groups = part < 2 ? first : second;
      if (groups == 0) continue;
      const AscendC::LocalTensor<half> weights = out[part * kRepeat];
      AscendC::Mul(weights, weights, spread[part % 2 * kRepeat], kRepeat, groups,
                   {1, 1, 1, 32, 32, 16});
    }
  }

  const MatmulArgs& args_;
  const MatmulTiling& tiling_;
  Team team_;
  AscendC::GlobalTensor<int8_t> values_;
  AscendC::GlobalTensor<half> scales_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> in_queue_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> out_queue_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> spread_buffer_;
};

// out = in x weights^T. Uses the flags kWeightsFilled and kWeightsTaken of the block.
template <class Out>
__aicore__ inline void MatmulInt8(AscendC::TPipe& pipe, Team team, const MatmulArgs& args) {
  pipe.Reset();
  const MatmulTiling tiling = TileMatmul(args.rows, args.inputs, args.outputs, team.size);
  if ASCEND_IS_AIC {
    DequantizedWeights weights(args, team);
    MatmulCube<Out, DequantizedWeights> cube(pipe, team, args, tiling);
    cube.Run(weights, false);
  }
  if ASCEND_IS_AIV {
    WeightDequantizer dequantizer(pipe, team, args, tiling);
    dequantizer.Run();
  }
  AscendC::PipeBarrier<PIPE_ALL>();
  pipe.Reset();  // takes back the flags that the queues hold
}

}  // namespace weft_ascend
