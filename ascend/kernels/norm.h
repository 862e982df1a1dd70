#pragma once
// AddNorm: the addition to the residual stream and the RMSNorm that follows it, in one pass.

#include <cstdint>

#include "kernel_operator.h"
#include "shapes.h"
#include "team.h"
#include "vector_tools.h"

namespace weft_ascend {

// hidden[r] += update[r] + bias; normed[r] = hidden[r] / sqrt(mean(hidden[r]^2) + eps) * weights.
// Without `update` nothing is added, without `weights` nothing is normed. A row's bits depend on
// the row alone: squares are summed lane by lane over pieces of 2048 and then over the lanes.
// Requires: `width` a multiple of 16, at most kMaxHidden.
struct AddNormArgs {
  GM_ADDR hidden;   // float [rows, width], written only where there is an update
  GM_ADDR update;   // float [rows, update_stride] or null
  GM_ADDR bias;     // float [width] or null; only with an update
  GM_ADDR weights;  // float [width] or null
  GM_ADDR normed;   // half [rows, normed_stride]; only with weights
  int32_t rows;
  int32_t width;
  int32_t update_stride;
  int32_t normed_stride;
  float eps;
};

class AddNormRows {
 public:
  __aicore__ inline AddNormRows(AscendC::TPipe& pipe, const AddNormArgs& args) : args_(args) {
    const uint32_t row_bytes = static_cast<uint32_t>(args.width) * sizeof(float);
    constexpr uint32_t kPieceBytes = kPiece * sizeof(float);
    pipe.InitBuffer(rows_, args.width <= kMaxHidden / 2 ? 2 : 1, row_bytes);
    pipe.InitBuffer(hidden_, 2, kPieceBytes);
    if (args.update != nullptr) pipe.InitBuffer(added_, 2, kPieceBytes);
    if (args.weights == nullptr) return;
    pipe.InitBuffer(weights_, 1, row_bytes);
    pipe.InitBuffer(normed_, 2, kPiece * sizeof(half));
    pipe.InitBuffer(squares_, kPieceBytes);
    pipe.InitBuffer(piece_, kPieceBytes);
    pipe.InitBuffer(scale_, 2 * kUbAlign);
    pipe.InitBuffer(factor_, kLanes * sizeof(float));
  }

  __aicore__ inline void Run(Share rows) {
    if (rows.begin >= rows.end) return;
    AscendC::LocalTensor<float> weights;
    if (args_.weights != nullptr) weights = LoadWeights();
    for (int32_t row = rows.begin; row < rows.end; ++row) Row(row, weights);
    if (args_.weights != nullptr) weights_.FreeTensor(weights);
  }

 private:
  using Floats = AscendC::LocalTensor<float>;
  static constexpr int32_t kPiece = 2048;

  __aicore__ inline int32_t PieceAt(int32_t column) const {
    const int32_t left = args_.width - column;
    return left < kPiece ? left : kPiece;
  }

  __aicore__ inline Floats LoadWeights() {
    Floats scale = scale_.Get<float>();
    AscendC::Duplicate(scale, 0.0F, kBlockFloats);
    AscendC::Duplicate(scale[kBlockFloats], 1.0F, kBlockFloats);
    Floats weights = weights_.AllocTensor<float>();
    Load(weights, GlobalAt<float>(args_.weights), args_.width);
    weights_.EnQue(weights);
    return weights_.DeQue<float>();
  }

  __aicore__ inline void Row(int64_t row, const Floats& weights) {
    Floats x = rows_.AllocTensor<float>();
    for (int32_t column = 0; column < args_.width; column += kPiece) Sum(row, column, x[column]);
    rows_.EnQue(x);
    x = rows_.DeQue<float>();
    if (args_.update != nullptr) {
      Store(GlobalAt<float>(args_.hidden, row * args_.width), x, args_.width);
    }
    if (args_.weights != nullptr) {
      FindFactor(x);
      for (int32_t column = 0; column < args_.width; column += kPiece) {
        Norm(row, column, x[column], weights[column]);
      }
    }
    rows_.FreeTensor(x);
  }

  // x = hidden + update + bias.
  __aicore__ inline void Sum(int64_t row, int32_t column, const Floats& x) {
    const int32_t count = PieceAt(column);
    Floats hidden = hidden_.AllocTensor<float>();
    Load(hidden, GlobalAt<float>(args_.hidden, row * args_.width + column), count);
    hidden_.EnQue(hidden);
    hidden = hidden_.DeQue<float>();
    if (args_.update == nullptr) {
      AscendC::Muls(x, hidden, 1.0F, count);
    } else {
      AddPiece(args_.update, row * args_.update_stride + column, count, x, hidden);
      if (args_.bias != nullptr) {
        VectorBarrier();
        AddPiece(args_.bias, column, count, x, x);
      }
    }
    hidden_.FreeTensor(hidden);
    VectorBarrier();
  }

  // x = base + the floats at an address.
  __aicore__ inline void AddPiece(GM_ADDR address, int64_t offset, int32_t count, const Floats& x,
                                  const Floats& base) {
    Floats added = added_.AllocTensor<float>();
    Load(added, GlobalAt<float>(address, offset), count);
    added_.EnQue(added);
    added = added_.DeQue<float>();
    AscendC::Add(x, base, added, count);
    added_.FreeTensor(added);
  }

  // A block of 1 / sqrt(mean(x^2) + eps) into factor_.
  __aicore__ inline void FindFactor(const Floats& x) {
    Floats squares = squares_.Get<float>();
    Floats piece = piece_.Get<float>();
    AscendC::Mul(squares, x, x, PieceAt(0));
    for (int32_t column = kPiece; column < args_.width; column += kPiece) {
      const int32_t count = PieceAt(column);
      VectorBarrier();
      AscendC::Mul(piece, x[column], x[column], count);
      VectorBarrier();
      AscendC::Add(squares, squares, piece, count);
    }
    VectorBarrier();
    Floats scale = scale_.Get<float>();
    Floats ones = scale[kBlockFloats];
    AscendC::ReduceSum(scale, squares, piece, PieceAt(0));
    VectorBarrier();
    AscendC::Muls(scale, scale, 1.0F / static_cast<float>(args_.width), kBlockFloats);
    VectorBarrier();
    AscendC::Adds(scale, scale, args_.eps, kBlockFloats);
    VectorBarrier();
    AscendC::Sqrt(scale, scale, kBlockFloats);
    VectorBarrier();
    // Reciprocal and Rsqrt only approximate.
    AscendC::Div(scale, ones, scale, kBlockFloats);
    VectorBarrier();
    AscendC::Brcb(factor_.Get<float>(), scale, 1, {1, 8});
    VectorBarrier();
  }

  __aicore__ inline void Norm(int64_t row, int32_t column, const Floats& x, const Floats& weights) {
    const int32_t count = PieceAt(column);
    Floats piece = piece_.Get<float>();
    ScaleRow(piece, x, factor_.Get<float>(), count);
    VectorBarrier();
    AscendC::Mul(piece, piece, weights, count);
    VectorBarrier();
    AscendC::LocalTensor<half> normed = normed_.AllocTensor<half>();
    AscendC::Cast(normed, piece, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
    VectorBarrier();
    normed_.EnQue(normed);
    normed = normed_.DeQue<half>();
    Store(GlobalAt<half>(args_.normed, row * args_.normed_stride + column), normed, count);
    normed_.FreeTensor(normed);
  }

  const AddNormArgs& args_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> rows_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> hidden_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> added_;  // updates, and biases
  AscendC::TQue<AscendC::TPosition::VECIN, 1> weights_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> normed_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> squares_;  // lane by lane, of all pieces
  AscendC::TBuf<AscendC::TPosition::VECCALC> piece_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> scale_;   // a block of results, a block of ones
  AscendC::TBuf<AscendC::TPosition::VECCALC> factor_;  // the first of the results, 64 times
};

__aicore__ inline void AddNorm(AscendC::TPipe& pipe, Team team, const AddNormArgs& args) {
  if ASCEND_IS_AIV {
    pipe.Reset();
    AddNormRows rows(pipe, args);
    rows.Run(VectorShare(team, args.rows));
    AscendC::PipeBarrier<PIPE_ALL>();
  }
}

}  // namespace weft_ascend
