#pragma once
// What the vector operators share: loads and stores of any length, tables of int32, rows in UB.

#include <cstdint>

#include "kernel_operator.h"
#include "shapes.h"
#include "team.h"

namespace weft_ascend {

// Floats in a repeat of a vector instruction, and in a block of UB.
constexpr int32_t kLanes = 64;
constexpr int32_t kBlockFloats = 8;

template <class T>
__aicore__ inline AscendC::GlobalTensor<T> GlobalAt(GM_ADDR address, int64_t offset = 0) {
  AscendC::GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(address) + offset);
  return tensor;
}

// Any number of elements. What lies behind them up to the end of a block of UB is `padding`.
template <class T>
__aicore__ inline void Load(const AscendC::LocalTensor<T>& to, const AscendC::GlobalTensor<T>& from,
                            int32_t count, T padding = 0) {
  constexpr int32_t kPerBlock = kUbAlign / static_cast<int32_t>(sizeof(T));
  if (count % kPerBlock == 0) {
    AscendC::DataCopy(to, from, static_cast<uint32_t>(count));
    return;
  }
  const auto right = static_cast<uint8_t>(RoundUp(count, kPerBlock) - count);
  AscendC::DataCopyPad(
      to, from, AscendC::DataCopyExtParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0},
      AscendC::DataCopyPadExtParams<T>{true, 0, right, padding});
}

template <class T>
__aicore__ inline void Store(const AscendC::GlobalTensor<T>& to,
                             const AscendC::LocalTensor<T>& from, int32_t count) {
  constexpr int32_t kPerBlock = kUbAlign / static_cast<int32_t>(sizeof(T));
  if (count % kPerBlock == 0) {
    AscendC::DataCopy(to, from, static_cast<uint32_t>(count));
    return;
  }
  AscendC::DataCopyPad(
      to, from, AscendC::DataCopyExtParams{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0});
}

// Pipe `To` waits until pipe `From` has done what it was given. Only for pairs of pipes between
// which no queue of the operator hands buffers on, since queues draw their ids from the same ones.
template <AscendC::HardEvent kEvent>
__aicore__ inline void Await() {
  AscendC::SetFlag<kEvent>(EVENT_ID0);
  AscendC::WaitFlag<kEvent>(EVENT_ID0);
}

__aicore__ inline void VectorBarrier() { AscendC::PipeBarrier<PIPE_V>(); }

// A table of int32 in GM that a scalar program reads. It comes in windows through MTE2, past the
// scalar cache: what others wrote before the operator began is seen without invalidating lines.
class IntTable {
 public:
  __aicore__ inline void Init(AscendC::TPipe& pipe, GM_ADDR table, int32_t count) {
    table_ = GlobalAt<int32_t>(table);
    count_ = count;
    first_ = -kWindow;
    pipe.InitBuffer(buffer_, kWindow * sizeof(int32_t));
  }

  // Requires: 0 <= index < count.
  __aicore__ inline int32_t Get(int32_t index) {
    AscendC::LocalTensor<int32_t> window = buffer_.template Get<int32_t>();
    const int32_t first = index / kWindow * kWindow;
    if (first != first_) {
      first_ = first;
      const int32_t left = count_ - first;
      Await<AscendC::HardEvent::S_MTE2>();
      Load(window, table_[first], left < kWindow ? left : kWindow);
      Await<AscendC::HardEvent::MTE2_S>();
    }
    return window.GetValue(index - first);
  }

 private:
  static constexpr int32_t kWindow = 256;
  AscendC::GlobalTensor<int32_t> table_;
  AscendC::TBuf<AscendC::TPosition::VECIN> buffer_;
  int32_t count_ = 0;
  int32_t first_ = -kWindow;
};

// Rows of `width` floats in UB, `stride` floats (a multiple of 8) from one to the next. At most 255
// rows.
struct UbRows {
  int32_t rows;
  int32_t width;
  int32_t stride;
};

// out[r] = a[r] * v, and out[r] = a[r] * b[r] and so on, row by row; `out` may be `a`.
enum class RowOp : uint8_t { kMul, kAdd, kSub };

template <RowOp kOp>
__aicore__ inline void EachRow(const AscendC::LocalTensor<float>& out,
                               const AscendC::LocalTensor<float>& a,
                               const AscendC::LocalTensor<float>& b, UbRows shape,
                               uint8_t b_row_blocks) {
  const auto row_blocks = static_cast<uint8_t>(shape.stride / kBlockFloats);
  const AscendC::BinaryRepeatParams params(1, 1, 1, row_blocks, row_blocks, b_row_blocks);
  const auto rows = static_cast<uint8_t>(shape.rows);
  for (int32_t i = 0; i < shape.width; i += kLanes) {
    const int32_t left = shape.width - i;
    const uint64_t lanes = left < kLanes ? left : kLanes;
    if constexpr (kOp == RowOp::kMul) {
      AscendC::Mul(out[i], a[i], b[i], lanes, rows, params);
    } else if constexpr (kOp == RowOp::kAdd) {
      AscendC::Add(out[i], a[i], b[i], lanes, rows, params);
    } else {
      AscendC::Sub(out[i], a[i], b[i], lanes, rows, params);
    }
  }
}

// x[r] *= factors[r], where `factors` holds a block of equal floats for each row.
__aicore__ inline void ScaleRows(const AscendC::LocalTensor<float>& x,
                                 const AscendC::LocalTensor<float>& factors, UbRows shape) {
  const auto row_blocks = static_cast<uint8_t>(shape.stride / kBlockFloats);
  const AscendC::BinaryRepeatParams params(1, 1, 0, row_blocks, row_blocks, 1);
  for (int32_t i = 0; i < shape.width; i += kLanes) {
    const int32_t left = shape.width - i;
    const uint64_t lanes = left < kLanes ? left : kLanes;
    AscendC::Mul(x[i], x[i], factors, lanes, static_cast<uint8_t>(shape.rows), params);
  }
}

// out = x * factor over one row of `count` floats, at most 255 * 64; `factor` is a block of equal
// floats.
__aicore__ inline void ScaleRow(const AscendC::LocalTensor<float>& out,
                                const AscendC::LocalTensor<float>& x,
                                const AscendC::LocalTensor<float>& factor, int32_t count) {
  const AscendC::BinaryRepeatParams params(1, 1, 0, 8, 8, 0);
  const int32_t whole = count / kLanes;
  const int32_t tail = count % kLanes;
  if (whole > 0) {
    AscendC::Mul(out, x, factor, static_cast<uint64_t>(kLanes), static_cast<uint8_t>(whole),
                 params);
  }
  if (tail > 0) {
    const int32_t at = whole * kLanes;
    AscendC::Mul(out[at], x[at], factor, static_cast<uint64_t>(tail), uint8_t{1}, params);
  }
}

}  // namespace weft_ascend
