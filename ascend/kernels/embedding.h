#pragma once
// Rows in and out of the layers: the embedding, and copies of rows by index.

#include <cstdint>

#include "kernel_operator.h"
#include "sample_row.h"
#include "team.h"
#include "vector_tools.h"

namespace weft_ascend {

// out[r] = table[token of row r]. A token below zero, -1 - slot, stands for the last token of a
// slot. Requires: tokens within the table; `width` a multiple of 16.
struct EmbedArgs {
  GM_ADDR tokens;       // int32 [rows]
  GM_ADDR slot_tokens;  // int32 [slots, kSlotStride]; may be null without such a token
  GM_ADDR table;        // half [vocab, width]
  GM_ADDR out;          // float [rows, width]
  int32_t rows;
  int32_t width;
};

// out[r] = in[from[r]] for floats; a null table stands for 0 ... rows - 1. `in` and `out` do not
// overlap. Requires: `width` a multiple of 16.
struct CopyRowsArgs {
  GM_ADDR in;    // float [, width]
  GM_ADDR from;  // int32 [rows] or null
  GM_ADDR out;   // float [rows, width]
  int32_t rows;
  int32_t width;
};

class Embedding {
 public:
  __aicore__ inline Embedding(AscendC::TPipe& pipe, const EmbedArgs& args) : args_(args) {
    pipe.InitBuffer(in_, 2, kPiece * sizeof(half));
    pipe.InitBuffer(out_, 2, kPiece * sizeof(float));
    pipe.InitBuffer(slot_, kUbAlign);
    tokens_.Init(pipe, args.tokens, args.rows);
  }

  __aicore__ inline void Row(int32_t row) {
    const int64_t token = TokenOf(row);
    for (int32_t column = 0; column < args_.width; column += kPiece) {
      const int32_t left = args_.width - column;
      Piece(token, row, column, left < kPiece ? left : kPiece);
    }
  }

 private:
  static constexpr int32_t kPiece = 4096;

  __aicore__ inline int64_t TokenOf(int32_t row) {
    const int32_t token = tokens_.Get(row);
    if (token >= 0) return token;
    AscendC::LocalTensor<int32_t> last = slot_.Get<int32_t>();
    const int64_t slot = -1 - int64_t{token};
    Await<AscendC::HardEvent::S_MTE2>();
    Load(last, GlobalAt<int32_t>(args_.slot_tokens, slot * kSlotStride), 1);
    Await<AscendC::HardEvent::MTE2_S>();
    return last.GetValue(0);
  }

  __aicore__ inline void Piece(int64_t token, int64_t row, int32_t column, int32_t count) {
    AscendC::LocalTensor<half> in = in_.AllocTensor<half>();
    Load(in, GlobalAt<half>(args_.table, token * args_.width + column), count);
    in_.EnQue(in);

    in = in_.DeQue<half>();
    AscendC::LocalTensor<float> out = out_.AllocTensor<float>();
    AscendC::Cast(out, in, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(count));
    in_.FreeTensor(in);
    out_.EnQue(out);

    out = out_.DeQue<float>();
    Store(GlobalAt<float>(args_.out, row * args_.width + column), out, count);
    out_.FreeTensor(out);
  }

  const EmbedArgs& args_;
  IntTable tokens_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> out_;
  AscendC::TBuf<AscendC::TPosition::VECIN> slot_;
};

// Rows are only moved, so a buffer goes from MTE2 to MTE3 and back without a queue.
class RowCopier {
 public:
  __aicore__ inline RowCopier(AscendC::TPipe& pipe, const CopyRowsArgs& args) : args_(args) {
    pipe.InitBuffer(buffer_, kBuffers * kPiece * sizeof(float));
    if (args.from != nullptr) from_.Init(pipe, args.from, args.rows);
  }

  __aicore__ inline void Run(Share rows) {
    for (int32_t row = rows.begin; row < rows.end; ++row) {
      const int64_t from = args_.from == nullptr ? row : from_.Get(row);
      for (int32_t column = 0; column < args_.width; column += kPiece) {
        const int32_t left = args_.width - column;
        Piece(from * args_.width + column, int64_t{row} * args_.width + column,
              left < kPiece ? left : kPiece);
      }
    }
    const int32_t busy = pieces_ < kBuffers ? pieces_ : kBuffers;
    for (int32_t id = 0; id < busy; ++id) AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(id);
  }

 private:
  static constexpr int32_t kPiece = 8192;
  static constexpr int32_t kBuffers = 2;

  __aicore__ inline void Piece(int64_t from, int64_t to, int32_t count) {
    const int32_t id = pieces_ % kBuffers;
    AscendC::LocalTensor<float> piece = buffer_.Get<float>()[id * kPiece];
    if (pieces_ >= kBuffers) AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(id);
    Load(piece, GlobalAt<float>(args_.in, from), count);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE3>(id);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE3>(id);
    Store(GlobalAt<float>(args_.out, to), piece, count);
    AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(id);
    ++pieces_;
  }

  const CopyRowsArgs& args_;
  IntTable from_;
  AscendC::TBuf<AscendC::TPosition::VECIN> buffer_;
  int32_t pieces_ = 0;
};

__aicore__ inline void Embed(AscendC::TPipe& pipe, Team team, const EmbedArgs& args) {
  if ASCEND_IS_AIV {
    pipe.Reset();
    Embedding embedding(pipe, args);
    const Share rows = VectorShare(team, args.rows);
    for (int32_t row = rows.begin; row < rows.end; ++row) embedding.Row(row);
    AscendC::PipeBarrier<PIPE_ALL>();
  }
}

__aicore__ inline void CopyRows(AscendC::TPipe& pipe, Team team, const CopyRowsArgs& args) {
  if ASCEND_IS_AIV {
    pipe.Reset();
    RowCopier copier(pipe, args);
    copier.Run(VectorShare(team, args.rows));
    AscendC::PipeBarrier<PIPE_ALL>();
  }
}

}  // namespace weft_ascend
