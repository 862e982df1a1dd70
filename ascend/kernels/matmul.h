#pragma once
// Matrix multiplication with half weights, and the fetch of an operator's first weights ahead of
// it.

#include <cstdint>

#include "kernel_operator.h"
#include "matmul_cube.h"

namespace weft_ascend {

// What the cube core's L1 holds of a multiplication to come. The caller keeps one per block, hands
// it to PrefetchWeights and to the multiplication that follows, and lets no other operator that
// uses L1 run between the two.
struct WeightsAhead {
  GM_ADDR weights = nullptr;
  int32_t first_output = 0;
  int32_t outputs = 0;
  int32_t inputs = 0;
};

// Weights as the host lays them out: a strip of 16 outputs after another, each [inputs / 16]
// fractals. A step takes a piece of each of its strips.
class HalfWeights {
 public:
  __aicore__ inline explicit HalfWeights(const MatmulArgs& args) : inputs_(args.inputs) {
    weights_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(args.weights));
  }

  __aicore__ inline void Fetch(const AscendC::LocalTensor<half>& l1, const MatmulStep& step,
                               int32_t /*index*/) {
    AscendC::DataCopyParams params;  // lengths in 32 bytes, 16 halves: of a strip, one input
    params.blockCount = step.outputs / kFractal;
    params.blockLen = step.inputs;
    params.srcGap = inputs_ - step.inputs;
    params.dstGap = 0;
    const int64_t from = static_cast<int64_t>(step.first_output) * inputs_ +
                         static_cast<int64_t>(step.first_input) * kFractal;
    AscendC::DataCopy(l1, weights_[from], params);
  }

 private:
  AscendC::GlobalTensor<half> weights_;
  int32_t inputs_;
};

// Starts to fetch the weights with which Matmul(pipe, team, args, &ahead) will begin and returns
// while they are on their way. For the cube core, once the operator before it has returned: best
// after this block has reported to the team's barrier and before it waits there, since a
// PipeBarrier<PIPE_ALL> waits for the fetch.
__aicore__ inline void PrefetchWeights(AscendC::TPipe& pipe, Team team, const MatmulArgs& args,
                                       WeightsAhead& ahead) {
  if ASCEND_IS_AIC {
    const MatmulTiling tiling = TileMatmul(args.rows, args.inputs, args.outputs, team.size);
    if (StepCount(tiling, team) == 0) return;
    const MatmulStep step = StepAt(args, tiling, team, 0);
    pipe.Reset();
    MatmulL1 l1;
    l1.Init(pipe);
    HalfWeights weights(args);
    weights.Fetch(l1.Weights(0), step, 0);
    ahead.weights = args.weights;
    ahead.first_output = step.first_output;
    ahead.outputs = step.outputs;
    ahead.inputs = step.inputs;
  }
}

// out = in x weights^T, half times half added up in float, written as Out (float or half). `ahead`
// may name what PrefetchWeights fetched; it is used if it is this operator's first step, and is
// empty afterwards.
template <class Out>
__aicore__ inline void Matmul(AscendC::TPipe& pipe, Team team, const MatmulArgs& args,
                              WeightsAhead* ahead = nullptr) {
  if ASCEND_IS_AIC {
    pipe.Reset();
    const MatmulTiling tiling = TileMatmul(args.rows, args.inputs, args.outputs, team.size);
    bool first_is_there = false;
    if (ahead != nullptr) {
      const MatmulStep step = StepAt(args, tiling, team, 0);
      first_is_there = ahead->weights == args.weights && ahead->first_output == step.first_output &&
                       ahead->outputs == step.outputs && ahead->inputs == step.inputs;
      // Others may still be on their way to where this operator's go.
      if (ahead->weights != nullptr && !first_is_there) AscendC::PipeBarrier<PIPE_MTE2>();
      ahead->weights = nullptr;
    }
    HalfWeights weights(args);
    MatmulCube<Out, HalfWeights> cube(pipe, team, args, tiling);
    cube.Run(weights, first_is_there);
    AscendC::PipeBarrier<PIPE_ALL>();
  }
}

}  // namespace weft_ascend
