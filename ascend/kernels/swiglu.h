#pragma once
// SwiGlu: what lies between the two matrices of a feed-forward network.

#include <cstdint>

#include "kernel_operator.h"
#include "team.h"
#include "vector_tools.h"

namespace weft_ascend {

// out[r] = silu(gate) * up, where row r of gate_up is gate [width] followed by up [width], computed
// in floats. Requires: `width` a multiple of 16.
struct SwiGluArgs {
  GM_ADDR gate_up;  // [rows, in_stride], half or float by the template
  GM_ADDR bias;     // float [2 * width], added before, or null
  GM_ADDR out;      // half [rows, out_stride]
  int32_t rows;
  int32_t width;
  int32_t in_stride;
  int32_t out_stride;
};

template <class In>
class SwiGluPieces {
 public:
  static constexpr int32_t kPiece = 2048;

  __aicore__ inline SwiGluPieces(AscendC::TPipe& pipe, const SwiGluArgs& args) : args_(args) {
    pipe.InitBuffer(in_, 2, 2 * kPiece * sizeof(In));
    pipe.InitBuffer(out_, 2, kPiece * sizeof(half));
    pipe.InitBuffer(work_, 3 * kPiece * sizeof(float));
    if (args.bias != nullptr) pipe.InitBuffer(bias_, 2, 2 * kPiece * sizeof(float));
  }

  __aicore__ inline void Piece(int64_t row, int32_t column) {
    const int32_t left = args_.width - column;
    const int32_t count = left < kPiece ? left : kPiece;
    Floats gate = work_.Get<float>();
    Floats up = gate[kPiece];
    Widen(row * args_.in_stride + column, count, gate, up);
    if (args_.bias != nullptr) AddBias(column, count, gate, up);

    Floats divisor = up[kPiece];  // 1 + exp(-gate)
    AscendC::Muls(divisor, gate, -1.0F, count);
    VectorBarrier();
    AscendC::Exp(divisor, divisor, count);
    VectorBarrier();
    AscendC::Adds(divisor, divisor, 1.0F, count);
    VectorBarrier();
    AscendC::Div(gate, gate, divisor, count);
    VectorBarrier();
    AscendC::Mul(gate, gate, up, count);
    VectorBarrier();

    AscendC::LocalTensor<half> out = out_.AllocTensor<half>();
    AscendC::Cast(out, gate, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
    VectorBarrier();
    out_.EnQue(out);
    out = out_.DeQue<half>();
    Store(GlobalAt<half>(args_.out, row * args_.out_stride + column), out, count);
    out_.FreeTensor(out);
  }

 private:
  using Floats = AscendC::LocalTensor<float>;

  __aicore__ inline void Widen(int64_t offset, int32_t count, const Floats& gate,
                               const Floats& up) {
    AscendC::LocalTensor<In> in = in_.template AllocTensor<In>();
    Load(in, GlobalAt<In>(args_.gate_up, offset), count);
    Load(in[kPiece], GlobalAt<In>(args_.gate_up, offset + args_.width), count);
    in_.EnQue(in);
    in = in_.template DeQue<In>();
    if constexpr (sizeof(In) == sizeof(half)) {
      const auto n = static_cast<uint32_t>(count);
      AscendC::Cast(gate, in, AscendC::RoundMode::CAST_NONE, n);
      AscendC::Cast(up, in[kPiece], AscendC::RoundMode::CAST_NONE, n);
    } else {
      AscendC::Muls(gate, in, 1.0F, count);
      AscendC::Muls(up, in[kPiece], 1.0F, count);
    }
    in_.FreeTensor(in);
    VectorBarrier();
  }

  __aicore__ inline void AddBias(int32_t column, int32_t count, const Floats& gate,
                                 const Floats& up) {
    Floats bias = bias_.AllocTensor<float>();
    Load(bias, GlobalAt<float>(args_.bias, column), count);
    Load(bias[kPiece], GlobalAt<float>(args_.bias, int64_t{args_.width} + column), count);
    bias_.EnQue(bias);
    bias = bias_.DeQue<float>();
    AscendC::Add(gate, gate, bias, count);
    AscendC::Add(up, up, bias[kPiece], count);
    bias_.FreeTensor(bias);
    VectorBarrier();
  }

  const SwiGluArgs& args_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> in_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> bias_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> work_;
};

template <class In = half>
__aicore__ inline void SwiGlu(AscendC::TPipe& pipe, Team team, const SwiGluArgs& args) {
  if ASCEND_IS_AIV {
    pipe.Reset();
    constexpr int32_t kPiece = SwiGluPieces<In>::kPiece;
    const int32_t pieces = CeilDiv(args.width, kPiece);
    SwiGluPieces<In> op(pipe, args);
    const Share share = VectorShare(team, args.rows * pieces);
    for (int32_t i = share.begin; i < share.end; ++i) op.Piece(i / pieces, i % pieces * kPiece);
    AscendC::PipeBarrier<PIPE_ALL>();
  }
}

}  // namespace weft_ascend
