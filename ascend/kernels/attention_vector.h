#pragma once
// The vector cores' half of attention: the softmax of each segment of keys, and the merging of the
// segments.

#include <cstdint>

#include "attention_merge.h"
#include "attention_softmax.h"
#include "attention_work.h"
#include "kernel_operator.h"

namespace weft_ascend {

// A pipeline over the steps: the weights of one are made, then the weighted values of an earlier
// one are taken in. What the second needs of the first is kept for as many steps.
class AttentionVector {
 public:
  __aicore__ inline void Run(AscendC::TPipe& pipe, Team team, const AttentionArgs& args,
                             bool split_keys) {
    Init(pipe, team, args, split_keys);
    AttentionWindow<kAttentionRing> steps;
    steps.Init(args, team, split_keys);
    for (int32_t i = 0; !steps.Ended(i - kAttentionLag); ++i) {
      const AttentionStep* scores = steps.At(i);
      if (scores != nullptr) Weights(*scores);
      const AttentionStep* values = steps.At(i - kAttentionLag);
      if (values != nullptr) TakeValues(*values);
    }
    TakeBackFlags();
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  // Ids of flags; the softmax has 0 and 1 of the same events.
  static constexpr int32_t kValues = 2;  // MTE2 and V, two slots
  static constexpr int32_t kResult = 2;  // V and MTE3

  static constexpr int32_t kRows = kAttentionRows / kVectorCores;
  // Weighted values are taken in half of the rows at a time.
  static constexpr int32_t kTakenRows = kRows / 2;
  static constexpr int32_t kTakenValues = kTakenRows * 128;
  static constexpr int32_t kNumbers = kRows * kRowCopies;
  static constexpr int32_t kTakenNumbers = kTakenRows * kRowCopies;

  __aicore__ inline void Init(AscendC::TPipe& pipe, Team team, const AttentionArgs& args,
                              bool split_keys) {
    pipe.Reset();
    handover_.Init(args, team);
    softmax_.Init(pipe, args, handover_);
    pipe.InitBuffer(values_, 2 * kTakenValues * sizeof(float));
    pipe.InitBuffer(total_values_, 2 * kTakenValues * sizeof(float));
    pipe.InitBuffer(total_numbers_, 2 * kNumbers * sizeof(float));
    pipe.InitBuffer(part_numbers_, 4 * kTakenNumbers * sizeof(float));
    pipe.InitBuffer(row_numbers_, 2 * kAttentionRing * kRows * sizeof(float));
    pipe.InitBuffer(out_half_, 2 * kTakenValues * sizeof(half));

    partials_.Init(args);
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(args.out));
    head_dim_ = args.head_dim;
    taken_rows_ = AttentionTileRows(head_dim_) / kVectorCores / 2;
    out_stride_ = args.out_stride;
    split_keys_ = split_keys;
    core_ = static_cast<int32_t>(AscendC::GetSubBlockIdx());
    taken_ = 0;

    const auto numbers = total_numbers_.Get<float>();
    total_ = {numbers, numbers[kNumbers], total_values_.Get<float>()};
    merge_.Init(part_numbers_.Get<float>()[2 * kTakenNumbers], kTakenRows);
    // Whole vectors are copied along rows, whatever the count of these: all must be numbers.
    AscendC::Duplicate(row_numbers_.Get<float>(), 0.0f, 2 * kAttentionRing * kRows);
    AscendC::PipeBarrier<PIPE_V>();

    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kValues + slot);
    }
    AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kResult);
  }

  __aicore__ inline void TakeBackFlags() {
    softmax_.TakeBackFlags();
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kValues + slot);
    }
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kResult);
  }

  // Of the rows from `first` on, at most `most`.
  __aicore__ inline static AttentionChunk ChunkAt(const AttentionRows& rows, int32_t first,
                                                  int32_t most) {
    const int32_t left = rows.Count() - first;
    return {first, left < most ? left : most};
  }

  __aicore__ inline void Weights(const AttentionStep& step) {
    const AttentionRows rows = RowsOfVectorCore(step.item, core_);
    AscendC::CrossCoreWaitFlag(kScoresReady);
    if (rows.Count() > 0) softmax_.Fetch(step, rows, ChunkAt(rows, 0, kSoftmaxRows));
    for (int32_t row = 0; row < rows.Count(); row += kSoftmaxRows) {
      const int32_t next = row + kSoftmaxRows;
      if (next < rows.Count()) softmax_.Fetch(step, rows, ChunkAt(rows, next, kSoftmaxRows));
      softmax_.Weigh(step, rows, ChunkAt(rows, row, kSoftmaxRows), Maximum(step)[row],
                     Sum(step)[row]);
    }
    AscendC::CrossCoreSetFlag<0x2, PIPE_MTE3>(kWeightsReady);
  }

  // Merges the step's segment of keys into those before it.
  __aicore__ inline void TakeValues(const AttentionStep& step) {
    const AttentionRows rows = RowsOfVectorCore(step.item, core_);
    AscendC::CrossCoreWaitFlag(kValuesReady);
    if (rows.Count() == 0) return;
    FetchValues(step, rows, ChunkAt(rows, 0, taken_rows_), taken_ & 1);
    // The last item's result must have left.
    if (split_keys_) AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kResult);
    for (int32_t row = 0; row < rows.Count(); row += taken_rows_) {
      const int32_t slot = taken_++ & 1;
      const int32_t next = row + taken_rows_;
      if (next < rows.Count()) {
        FetchValues(step, rows, ChunkAt(rows, next, taken_rows_), taken_ & 1);
      }
      const int32_t count = ChunkAt(rows, row, taken_rows_).count;
      const AttentionPart part = PartOf(step, row, count, slot);
      const AttentionPart total = {total_.maximum[row * kRowCopies], total_.sum[row * kRowCopies],
                                   total_.values[row * head_dim_]};
      AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(kValues + slot);
      merge_.Take(total, part, count, head_dim_, step.opens_item);
      AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kValues + slot);
    }
    if (split_keys_) {
      StorePart(step.item, rows);
    } else if (step.closes_item) {
      StoreTotal(step.item, rows);
    }
  }

  __aicore__ inline void FetchValues(const AttentionStep& step, const AttentionRows& rows,
                                     AttentionChunk chunk, int32_t slot) {
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kValues + slot);
    AscendC::DataCopy(values_.Get<float>()[slot * kTakenValues],
                      handover_.Values(step, rows.first + chunk.first), chunk.count * head_dim_);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(kValues + slot);
  }

  // The segment's result for the rows from `row` on, whose values are in the slot.
  __aicore__ inline AttentionPart PartOf(const AttentionStep& step, int32_t row, int32_t count,
                                         int32_t slot) {
    const auto numbers = part_numbers_.Get<float>();
    const AttentionPart part = {numbers, numbers[kTakenNumbers],
                                values_.Get<float>()[slot * kTakenValues]};
    CopyAlongRows(part.maximum, Maximum(step)[row], count);
    CopyAlongRows(part.sum, Sum(step)[row], count);
    AscendC::PipeBarrier<PIPE_V>();
    return part;
  }

  __aicore__ inline void StorePart(const AttentionItem& item, const AttentionRows& rows) {
    const int64_t place = item.partial + rows.token;
    const int32_t head = item.head + rows.head;
    AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(kResult);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(kResult);
    const int64_t next_row = partials_.Floats();
    StoreTokens(partials_.Values(place, head), total_.values, rows, head_dim_, next_row);
    StoreTokens(partials_.Maximum(place, head), total_.maximum, rows, kRowCopies, next_row);
    StoreTokens(partials_.Sum(place, head), total_.sum, rows, kRowCopies, next_row);
    AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kResult);
  }

  __aicore__ inline void StoreTotal(const AttentionItem& item, const AttentionRows& rows) {
    const auto out_half = out_half_.Get<half>();
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kResult);
    merge_.Finish(total_, out_half, rows.Count(), head_dim_);
    AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(kResult);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(kResult);
    const int64_t to = static_cast<int64_t>(item.row + rows.token) * out_stride_ +
                       static_cast<int64_t>(item.head + rows.head) * head_dim_;
    StoreTokens(out_[to], out_half, rows, head_dim_, out_stride_);
    AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kResult);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // from [tokens, heads, size] to where tokens are `stride` apart.
  template <class T>
  __aicore__ inline void StoreTokens(const AscendC::GlobalTensor<T>& to,
                                     const AscendC::LocalTensor<T>& from, const AttentionRows& rows,
                                     int32_t size, int64_t stride) {
    constexpr int32_t kPerBlock = kUbAlign / static_cast<int32_t>(sizeof(T));
    const int32_t length = rows.heads * size;
    const int64_t gap = rows.tokens > 1 ? (stride - length) / kPerBlock : 0;
    AscendC::DataCopy(to, from, AscendC::DataCopyParams(rows.tokens, length / kPerBlock, 0, gap));
  }

  // A number for each row: maximum and sum over the step's segment.
  __aicore__ inline AscendC::LocalTensor<float> Maximum(const AttentionStep& step) {
    return row_numbers_.Get<float>()[step.index % kAttentionRing * kRows];
  }
  __aicore__ inline AscendC::LocalTensor<float> Sum(const AttentionStep& step) {
    return row_numbers_.Get<float>()[(kAttentionRing + step.index % kAttentionRing) * kRows];
  }

  AttentionSoftmax softmax_;
  AscendC::TBuf<AscendC::TPosition::VECIN> values_;
  AscendC::TBuf<AscendC::TPosition::VECOUT> total_values_;
  AscendC::TBuf<AscendC::TPosition::VECOUT> total_numbers_;  // [2][rows, 8]
  AscendC::TBuf<AscendC::TPosition::VECCALC> part_numbers_;  // [4][rows taken at a time, 8]
  AscendC::TBuf<AscendC::TPosition::VECCALC> row_numbers_;   // [2][ring][rows]
  AscendC::TBuf<AscendC::TPosition::VECOUT> out_half_;
  AscendC::GlobalTensor<half> out_;
  AttentionHandover handover_;
  AttentionPartials partials_;
  AttentionMerge merge_;
  AttentionPart total_;
  int32_t head_dim_ = 0;
  int32_t taken_rows_ = 0;
  int32_t out_stride_ = 0;
  bool split_keys_ = false;
  int32_t core_ = 0;
  int32_t taken_ = 0;
};

}  // namespace weft_ascend
