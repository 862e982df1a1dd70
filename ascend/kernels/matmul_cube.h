#pragma once
// MatmulCube: what the cube core of a block does of a matrix multiplication.
//
//   GM --MTE2--> L1 [2 steps] --MTE1--> L0A, L0B [2 chunks] --M--> L0C [1 or 2 tiles] --FIX--> GM
//
// Each arrow is a pipe of its own, ordered by pairs of flags: one says that a buffer is full, its
// counterpart that it may be overwritten. A step is fetched while the one before it is multiplied,
// over the ends of tiles too.

#include <cstdint>

#include "kernel_operator.h"
#include "matmul_tiling.h"

namespace weft_ascend {

// Elements of a fractal, 16 x 16.
constexpr int32_t kFractalElements = kFractal * kFractal;

// Flags of the cube core. M_MTE1 0 to 2 are held set by TPipe on this chip; 6 and 7 are not for
// kernels.
constexpr int32_t kFreeL0 = 3;

// The weights' part of L1 comes first and is at the same place in every multiplication, so that a
// step can be fetched ahead of its operator (PrefetchWeights).
struct MatmulL1 {
  AscendC::TBuf<AscendC::TPosition::B1> weights;
  AscendC::TBuf<AscendC::TPosition::A1> rows;

  __aicore__ inline void Init(AscendC::TPipe& pipe) {
    pipe.InitBuffer(weights, 2 * kStepWeightBytes);
    pipe.InitBuffer(rows, 2 * kStepRowBytes);
  }
  __aicore__ inline AscendC::LocalTensor<half> Weights(int32_t slot) {
    return weights.Get<half>()[slot * kStepWeightBytes / 2];
  }
  __aicore__ inline AscendC::LocalTensor<half> Rows(int32_t slot) {
    return rows.Get<half>()[slot * kStepRowBytes / 2];
  }
};

// `Weights` brings a step's weights to L1 by MTE2, as [outputs / 16][inputs / 16] fractals of
// [16 outputs][16 inputs]:
//   void Fetch(const AscendC::LocalTensor<half>& l1, const MatmulStep& step, int32_t index)
template <class Out, class Weights>
class MatmulCube {
 public:
  __aicore__ inline MatmulCube(AscendC::TPipe& pipe, Team team, const MatmulArgs& args,
                               const MatmulTiling& tiling)
      : args_(args), tiling_(tiling), team_(team) {
    in_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(args.in));
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ Out*>(args.out));
    l1_.Init(pipe);
    pipe.InitBuffer(l0a_buffer_, 2 * kL0Bytes);
    pipe.InitBuffer(l0b_buffer_, 2 * kL0Bytes);
    pipe.InitBuffer(l0c_buffer_, 2 * kL0cBytes);
    l0c_slots_ = tiling.tile_rows * tiling.tile_outputs * 4 <= kL0cBytes ? 2 : 1;
  }

  // `first_is_there`: the weights of the first step are in L1 already.
  __aicore__ inline void Run(Weights& weights, bool first_is_there) {
    const int32_t steps = StepCount(tiling_, team_);
    if (steps == 0) return;
    MarkAllFree();
    Fetch(weights, 0, first_is_there);
    for (int32_t index = 0; index < steps; ++index) {
      if (index + 1 < steps) Fetch(weights, index + 1, false);
      Multiply(index);
    }
    AwaitAllFree();
  }

 private:
  static constexpr int32_t kL0Bytes = 32 * 1024;   // of a chunk of either operand
  static constexpr int32_t kL0cBytes = 64 * 1024;  // half of L0C

  __aicore__ inline void MarkAllFree() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kFreeL0 + slot);
      AscendC::SetFlag<AscendC::HardEvent::FIX_M>(slot);
    }
  }

  __aicore__ inline void AwaitAllFree() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kFreeL0 + slot);
      AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(slot);
    }
  }

  __aicore__ inline void Fetch(Weights& weights, int32_t index, bool weights_are_there) {
    const MatmulStep step = StepAt(args_, tiling_, team_, index);
    const int32_t slot = index % 2;
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
    if (!weights_are_there) weights.Fetch(l1_.Weights(slot), step, index);
    FetchRows(l1_.Rows(slot), step);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(slot);
  }

  // To [inputs / 16][rows rounded up][16 inputs]. What lies beyond the rows is not written, and no
  // Mmad reads it. A row alone comes twice: an Mmad of one row would read L0A in another layout.
  __aicore__ inline void FetchRows(const AscendC::LocalTensor<half>& l1, const MatmulStep& step) {
    AscendC::Nd2NzParams params;
    params.ndNum = step.rows == 1 ? 2 : 1;
    params.nValue = step.rows;
    params.dValue = step.inputs;
    params.srcNdMatrixStride = 0;
    params.srcDValue = args_.in_stride;
    params.dstNzC0Stride = RoundUp(step.rows, kFractal);
    params.dstNzNStride = 1;
    params.dstNzMatrixStride = kFractal;
    const int64_t from = static_cast<int64_t>(step.first_row) * args_.in_stride + step.first_input;
    AscendC::DataCopy(l1, in_[from], params);
  }

  __aicore__ inline void Multiply(int32_t index) {
    const MatmulStep step = StepAt(args_, tiling_, team_, index);
    const int32_t slot = index % 2;
    const AscendC::LocalTensor<float> sums = l0c_buffer_.Get<float>()[l0c_slot_ * kL0cBytes / 4];
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(slot);
    if (step.opens) AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(l0c_slot_);
    for (int32_t begin = 0; begin < step.inputs; begin += kChunkInputs) {
      const int32_t rest = step.inputs - begin;
      MultiplyChunk(sums, step, slot, begin, rest < kChunkInputs ? rest : kChunkInputs);
    }
    AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
    if (step.closes) Store(sums, step);
  }

  __aicore__ inline void MultiplyChunk(const AscendC::LocalTensor<float>& sums,
                                       const MatmulStep& step, int32_t slot, int32_t begin,
                                       int32_t inputs) {
    const AscendC::LocalTensor<half> a = l0a_buffer_.Get<half>()[l0_slot_ * kL0Bytes / 2];
    const AscendC::LocalTensor<half> b = l0b_buffer_.Get<half>()[l0_slot_ * kL0Bytes / 2];
    AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kFreeL0 + l0_slot_);
    LoadRows(a, l1_.Rows(slot), step, begin / kFractal, inputs / kFractal);
    LoadWeights(b, l1_.Weights(slot), step, begin / kFractal, inputs / kFractal);
    AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(l0_slot_);
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(l0_slot_);

    AscendC::MmadParams params;
    params.m = step.rows == 1 ? 2 : step.rows;
    params.n = step.outputs;
    params.k = inputs;
    params.cmatrixInitVal = step.opens && begin == 0;
    AscendC::Mmad(sums, a, b, params);
    // Small products end too soon for the cube to hold back the next one that adds to them.
    if ((params.m / kFractal) * (params.n / kFractal) < 10) AscendC::PipeBarrier<PIPE_M>();
    AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kFreeL0 + l0_slot_);
    l0_slot_ = 1 - l0_slot_;
  }

  // From [inputs / 16][rows / 16] fractals to [rows / 16][inputs / 16].
  __aicore__ inline void LoadRows(const AscendC::LocalTensor<half>& l0,
                                  const AscendC::LocalTensor<half>& l1, const MatmulStep& step,
                                  int32_t first, int32_t fractals) {
    const int32_t row_fractals = CeilDiv(step.rows, kFractal);
    AscendC::LoadData2DParams params;
    params.repeatTimes = fractals;
    params.srcStride = row_fractals;
    for (int32_t row = 0; row < row_fractals; ++row) {
      AscendC::LoadData(l0[row * fractals * kFractalElements],
                        l1[(first * row_fractals + row) * kFractalElements], params);
    }
  }

  // From [outputs / 16][inputs / 16] fractals to [inputs / 16][outputs / 16].
  __aicore__ inline void LoadWeights(const AscendC::LocalTensor<half>& l0,
                                     const AscendC::LocalTensor<half>& l1, const MatmulStep& step,
                                     int32_t first, int32_t fractals) {
    const int32_t output_fractals = step.outputs / kFractal;
    AscendC::LoadData2DParams params;
    params.repeatTimes = output_fractals;
    params.srcStride = step.inputs / kFractal;
    for (int32_t input = 0; input < fractals; ++input) {
      AscendC::LoadData(l0[input * output_fractals * kFractalElements],
                        l1[(first + input) * kFractalElements], params);
    }
  }

  __aicore__ inline void Store(const AscendC::LocalTensor<float>& sums, const MatmulStep& step) {
    AscendC::SetFlag<AscendC::HardEvent::M_FIX>(l0c_slot_);
    AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(l0c_slot_);
    AscendC::FixpipeParamsV220 params;
    params.nSize = step.outputs;
    params.mSize = step.rows;
    params.srcStride = RoundUp(step.rows, kFractal);
    params.dstStride = args_.out_stride;
    params.quantPre = sizeof(Out) == 2 ? QuantMode_t::F322F16 : QuantMode_t::NoQuant;
    const int64_t to = static_cast<int64_t>(step.first_row) * args_.out_stride + step.first_output;
    AscendC::Fixpipe<Out, float, AscendC::CFG_ROW_MAJOR>(out_[to], sums, params);
    AscendC::SetFlag<AscendC::HardEvent::FIX_M>(l0c_slot_);
    l0c_slot_ = (l0c_slot_ + 1) % l0c_slots_;
  }

  const MatmulArgs& args_;
  const MatmulTiling& tiling_;
  Team team_;
  AscendC::GlobalTensor<half> in_;
  AscendC::GlobalTensor<Out> out_;
  MatmulL1 l1_;
  AscendC::TBuf<AscendC::TPosition::A2> l0a_buffer_;
  AscendC::TBuf<AscendC::TPosition::B2> l0b_buffer_;
  AscendC::TBuf<AscendC::TPosition::CO1> l0c_buffer_;
  int32_t l0_slot_ = 0;
  int32_t l0c_slot_ = 0;
  int32_t l0c_slots_ = 1;
};

}  // namespace weft_ascend
