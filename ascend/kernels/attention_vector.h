#pragma once
// The vector cores' half of attention: the online softmax over tiles of 64 keys, restarted every
// 512 keys, and the merging of these segments.

#include <cstdint>

#include "attention_merge.h"
#include "attention_work.h"
#include "kernel_operator.h"

namespace weft_ascend {

// Which of a tile's rows one vector core has: some tokens with all heads, or some heads of a lone
// token. Row t * heads + h of the core is token t's head h.
struct AttentionRows {
  int32_t first;  // row of the tile
  int32_t token;  // of the item, likewise head
  int32_t tokens;
  int32_t head;
  int32_t heads;

  __aicore__ inline int32_t Count() const { return tokens * heads; }
};

__aicore__ inline AttentionRows RowsOfVectorCore(const AttentionItem& item, int32_t core) {
  AttentionRows rows = {0, 0, item.tokens, 0, item.heads};
  if (item.tokens > 1) {
    const int32_t half = CeilDiv(item.tokens, kVectorCores);
    rows.token = core * half;
    rows.tokens = core == 0 ? half : item.tokens - half;
  } else {
    const int32_t half = CeilDiv(item.heads, kVectorCores);
    rows.head = core * half;
    rows.heads = core == 0 ? half : item.heads - half;
  }
  rows.first = rows.token * item.heads + rows.head;
  return rows;
}

// A pipeline over the steps: the scores of one are fetched while the weights of the step before it
// are made, then the weighted values of an earlier one are taken in. What the last needs of the
// second is kept for as many steps, or segments.
class AttentionVector {
 public:
  __aicore__ inline void Run(AscendC::TPipe& pipe, Team team, const AttentionArgs& args,
                             bool split_keys) {
    Init(pipe, team, args, split_keys);
    AttentionWindow<kAttentionLag + 2> steps;
    steps.Init(args, team, split_keys);
    for (int32_t i = 0; !steps.Ended(i - 1 - kAttentionLag); ++i) {
      const AttentionStep* scores = steps.At(i);
      if (scores != nullptr) FetchScores(*scores);
      const AttentionStep* values = steps.At(i - 1 - kAttentionLag);
      if (values != nullptr) FetchValues(*values);
      const AttentionStep* weights = steps.At(i - 1);
      if (weights != nullptr) Weights(*weights);
      if (values != nullptr) Accumulate(*values);
    }
    TakeBackFlags();
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  // Ids of flags, of two slots each but the last.
  static constexpr int32_t kScores = 0;   // MTE2 and V
  static constexpr int32_t kValues = 2;   // MTE2 and V
  static constexpr int32_t kWeights = 0;  // V and MTE3
  static constexpr int32_t kResult = 2;   // V and MTE3

  static constexpr int32_t kRows = kAttentionVectorRows;
  static constexpr int32_t kKeys = kBlockPositions;
  static constexpr int32_t kScoresTile = kRows * kKeys;
  static constexpr int32_t kValuesTile = kRows * kMaxHeadDim;
  static constexpr int32_t kNumbers = kRows * kRowCopies;
  static constexpr int32_t kScratch = 3;
  static constexpr int32_t kRowNumbers = kScratch + 2 * kAttentionRing;
  static constexpr int32_t kCopies = 7;  // before those of the factors
  // Stands for a score that is not seen: exp(this - any maximum) is 0, yet no infinity meets
  // another.
  static constexpr float kUnseen = -1.0e30f;

  __aicore__ inline void Init(AscendC::TPipe& pipe, Team team, const AttentionArgs& args,
                              bool split_keys) {
    pipe.Reset();
    pipe.InitBuffer(scores_, 2 * kScoresTile * sizeof(float));
    pipe.InitBuffer(weights_, 2 * kScoresTile * sizeof(half));
    pipe.InitBuffer(values_, 2 * kValuesTile * sizeof(float));
    pipe.InitBuffer(part_values_, kValuesTile * sizeof(float));
    pipe.InitBuffer(total_values_, kValuesTile * sizeof(float));
    pipe.InitBuffer(out_half_, kValuesTile * sizeof(half));
    pipe.InitBuffer(scaled_, kScoresTile * sizeof(float));
    pipe.InitBuffer(blocks_, kNumbers * sizeof(float));
    pipe.InitBuffer(row_numbers_, kRowNumbers * kRows * sizeof(float));
    pipe.InitBuffer(copies_, (kCopies + kAttentionRing) * kNumbers * sizeof(float));

    handover_.Init(args, team);
    partials_.Init(args);
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(args.out));
    head_dim_ = args.head_dim;
    out_stride_ = args.out_stride;
    scale_ = args.scale;
    split_keys_ = split_keys;
    core_ = static_cast<int32_t>(AscendC::GetSubBlockIdx());

    const auto copies = copies_.Get<float>();
    part_ = {copies, copies[kNumbers], part_values_.Get<float>()};
    total_ = {copies[2 * kNumbers], copies[3 * kNumbers], total_values_.Get<float>()};
    merge_.Init(copies[4 * kNumbers], kRows);
    // Whole vectors of numbers are computed, whatever the count of rows: all must be numbers.
    AscendC::Duplicate(row_numbers_.Get<float>(), 0.0f, kRowNumbers * kRows);
    AscendC::Duplicate(blocks_.Get<float>(), 0.0f, kNumbers);
    AscendC::PipeBarrier<PIPE_V>();

    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kScores + slot);
      AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kValues + slot);
      AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kWeights + slot);
    }
    AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kResult);
  }

  __aicore__ inline void TakeBackFlags() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kScores + slot);
      AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kValues + slot);
      AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kWeights + slot);
    }
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kResult);
  }

  __aicore__ inline void FetchScores(const AttentionStep& step) {
    const AttentionRows rows = RowsOfVectorCore(step.item, core_);
    AscendC::CrossCoreWaitFlag(kScoresReady);
    if (rows.Count() == 0) return;
    const int32_t slot = step.index & 1;
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kScores + slot);
    AscendC::DataCopy(scores_.Get<float>()[slot * kScoresTile], handover_.Scores(step, rows.first),
                      rows.Count() * kKeys);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(kScores + slot);
  }

  __aicore__ inline void FetchValues(const AttentionStep& step) {
    const AttentionRows rows = RowsOfVectorCore(step.item, core_);
    AscendC::CrossCoreWaitFlag(kValuesReady);
    if (rows.Count() == 0) return;
    const int32_t slot = step.index & 1;
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kValues + slot);
    AscendC::DataCopy(values_.Get<float>()[slot * kValuesTile], handover_.Values(step, rows.first),
                      rows.Count() * head_dim_);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(kValues + slot);
  }

  // weights = exp(scores * scale - the rows' maximum so far), in half for the cube core. Brings the
  // rows' maximum and sum up to date.
  __aicore__ inline void Weights(const AttentionStep& step) {
    const AttentionRows rows = RowsOfVectorCore(step.item, core_);
    if (rows.Count() > 0) {
      const int32_t slot = step.index & 1;
      const auto scaled = scaled_.Get<float>();
      const auto weights = weights_.Get<half>()[slot * kScoresTile];
      const int32_t size = rows.Count() * kKeys;
      Scale(step, rows, scaled);
      RaiseMaximum(step, rows.Count());
      Exponentials(step, rows.Count(), scaled);

      AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kWeights + slot);
      AscendC::Cast(weights, scaled, AscendC::RoundMode::CAST_RINT, size);
      AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(kWeights + slot);
      AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(kWeights + slot);
      AscendC::DataCopy(handover_.Weights(step, rows.first), weights, size);
      AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kWeights + slot);
      AddToSum(step, rows.Count(), scaled);
    }
    AscendC::CrossCoreSetFlag<0x2, PIPE_MTE3>(kWeightsReady);
  }

  // The scores times the scale, and each row's greatest of this tile.
  __aicore__ inline void Scale(const AttentionStep& step, const AttentionRows& rows,
                               const AscendC::LocalTensor<float>& scaled) {
    const int32_t count = rows.Count();
    const int32_t slot = step.index & 1;
    const auto scores = scores_.Get<float>()[slot * kScoresTile];
    const auto blocks = blocks_.Get<float>();
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(kScores + slot);
    HideLaterKeys(step, rows, scores);
    AscendC::BlockReduceMax(blocks, scores, count, kKeys, 1, 1, kKeys / kRowCopies);
    AscendC::Muls(scaled, scores, scale_, count * kKeys);
    AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kScores + slot);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::BlockReduceMax(Scratch(0), blocks, CeilDiv(count, kRowCopies), kKeys, 1, 1,
                            kKeys / kRowCopies);
    AscendC::PipeBarrier<PIPE_V>();
    // The scale is positive, and rounding keeps the order: this is the greatest scaled score.
    AscendC::Muls(Scratch(0), Scratch(0), scale_, kRows);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // The rows' maximum with this tile, which is copied along the rows, and by how much it has grown.
  __aicore__ inline void RaiseMaximum(const AttentionStep& step, int32_t count) {
    const auto maximum = RowMaximum(step);
    const auto grown = Scratch(1);
    if (step.opens_segment) {
      AscendC::Adds(maximum, Scratch(0), 0.0f, kRows);
      AscendC::PipeBarrier<PIPE_V>();
      CopyAlongRows(MaximumCopies(), maximum, count);
    } else {
      AscendC::Max(grown, maximum, Scratch(0), kRows);
      AscendC::PipeBarrier<PIPE_V>();
      CopyAlongRows(MaximumCopies(), grown, count);
      AscendC::Sub(Scratch(2), maximum, grown, kRows);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Adds(maximum, grown, 0.0f, kRows);
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

  // exp of the distance to the maximum: of the scores, and of the maximum before.
  __aicore__ inline void Exponentials(const AttentionStep& step, int32_t count,
                                      const AscendC::LocalTensor<float>& scaled) {
    const auto factor = Scratch(2);
    constexpr int32_t kStride = kKeys / kRowCopies;
    AscendC::Sub(scaled, scaled, MaximumCopies(), static_cast<uint64_t>(kKeys), count,
                 AscendC::BinaryRepeatParams(1, 1, 0, kStride, kStride, 1));
    if (!step.opens_segment) AscendC::Exp(factor, factor, kRows);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Exp(scaled, scaled, count * kKeys);
    if (!step.opens_segment) {
      CopyAlongRows(Factors(step), factor, count);
      AscendC::Mul(RowSum(step), RowSum(step), factor, kRows);
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void AddToSum(const AttentionStep& step, int32_t count,
                                  const AscendC::LocalTensor<float>& exponentials) {
    const auto sum = RowSum(step);
    const auto blocks = blocks_.Get<float>();
    AscendC::BlockReduceSum(blocks, exponentials, count, kKeys, 1, 1, kKeys / kRowCopies);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::BlockReduceSum(Scratch(0), blocks, CeilDiv(count, kRowCopies), kKeys, 1, 1,
                            kKeys / kRowCopies);
    AscendC::PipeBarrier<PIPE_V>();
    if (step.opens_segment) {
      AscendC::Adds(sum, Scratch(0), 0.0f, kRows);
    } else {
      AscendC::Add(sum, sum, Scratch(0), kRows);
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

  // A token sees its own position and those before.
  __aicore__ inline void HideLaterKeys(const AttentionStep& step, const AttentionRows& rows,
                                       const AscendC::LocalTensor<float>& scores) {
    const int32_t seen_by_first = step.item.position + rows.token + 1 - step.tile * kKeys;
    bool hidden = false;
    for (int32_t token = 0; token < rows.tokens; ++token) {
      const int32_t seen = seen_by_first + token;
      if (seen >= kKeys) break;
      uint64_t unseen[2] = {~0ULL, 0};
      if (seen > 0) unseen[0] <<= seen;
      AscendC::Duplicate(scores[token * rows.heads * kKeys], kUnseen, unseen, rows.heads, 1,
                         kKeys / kRowCopies);
      hidden = true;
    }
    if (hidden) AscendC::PipeBarrier<PIPE_V>();
  }

  // The segment's values so far: rescaled to the new maximum, plus this tile's.
  __aicore__ inline void Accumulate(const AttentionStep& step) {
    const AttentionRows rows = RowsOfVectorCore(step.item, core_);
    const int32_t count = rows.Count();
    if (count == 0) return;

    const int32_t slot = step.index & 1;
    const int32_t size = count * head_dim_;
    const auto values = values_.Get<float>()[slot * kValuesTile];
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(kValues + slot);
    if (step.opens_segment) {
      // Decode's last partial result must have left.
      if (split_keys_) AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kResult);
      AscendC::Adds(part_.values, values, 0.0f, size);
    } else {
      ScaleRows(part_.values, Factors(step), count, head_dim_);
      AscendC::PipeBarrier<PIPE_V>();
      AscendC::Add(part_.values, part_.values, values, size);
    }
    AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kValues + slot);
    AscendC::PipeBarrier<PIPE_V>();
    if (step.closes_segment) CloseSegment(step, rows);
  }

  __aicore__ inline void CloseSegment(const AttentionStep& step, const AttentionRows& rows) {
    const int32_t count = rows.Count();
    CopyAlongRows(part_.maximum, RowMaximum(step), count);
    CopyAlongRows(part_.sum, RowSum(step), count);
    AscendC::PipeBarrier<PIPE_V>();
    if (split_keys_) {
      StorePart(step.item, rows);
      return;
    }
    merge_.Take(total_, part_, count, head_dim_, step.tile < kSegmentKeys / kKeys);
    if (step.closes_item) StoreTotal(step.item, rows);
  }

  __aicore__ inline void StorePart(const AttentionItem& item, const AttentionRows& rows) {
    const int64_t place = item.partial + rows.token;
    const int32_t head = item.head + rows.head;
    AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(kResult);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(kResult);
    const int64_t next_row = partials_.Floats();
    StoreTokens(partials_.Values(place, head), part_.values, rows, head_dim_, next_row);
    StoreTokens(partials_.Maximum(place, head), part_.maximum, rows, kRowCopies, next_row);
    StoreTokens(partials_.Sum(place, head), part_.sum, rows, kRowCopies, next_row);
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

  // Each row's number eight times.
  __aicore__ inline void CopyAlongRows(const AscendC::LocalTensor<float>& copies,
                                       const AscendC::LocalTensor<float>& numbers, int32_t count) {
    AscendC::Brcb(copies, numbers, CeilDiv(count, kRowCopies),
                  AscendC::BrcbRepeatParams(1, kRowCopies));
  }

  // A number for each row: maximum and sum of the segment, and scratch.
  __aicore__ inline AscendC::LocalTensor<float> Scratch(int32_t index) {
    return row_numbers_.Get<float>()[index * kRows];
  }
  __aicore__ inline AscendC::LocalTensor<float> RowMaximum(const AttentionStep& step) {
    return Scratch(kScratch + step.segment % kAttentionRing);
  }
  __aicore__ inline AscendC::LocalTensor<float> RowSum(const AttentionStep& step) {
    return Scratch(kScratch + kAttentionRing + step.segment % kAttentionRing);
  }
  // Numbers of the rows copied along them, [rows, 8]: by how much a step's tile rescales the values
  // before it, and the maximum.
  __aicore__ inline AscendC::LocalTensor<float> Factors(const AttentionStep& step) {
    return copies_.Get<float>()[(kCopies + step.index % kAttentionRing) * kNumbers];
  }
  __aicore__ inline AscendC::LocalTensor<float> MaximumCopies() {
    return copies_.Get<float>()[6 * kNumbers];
  }

  AscendC::TBuf<AscendC::TPosition::VECIN> scores_;
  AscendC::TBuf<AscendC::TPosition::VECOUT> weights_;
  AscendC::TBuf<AscendC::TPosition::VECIN> values_;
  AscendC::TBuf<AscendC::TPosition::VECOUT> part_values_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> total_values_;
  AscendC::TBuf<AscendC::TPosition::VECOUT> out_half_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> scaled_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> blocks_;       // [rows, 8] of each block of 8 keys
  AscendC::TBuf<AscendC::TPosition::VECCALC> row_numbers_;  // [][rows]
  AscendC::TBuf<AscendC::TPosition::VECOUT> copies_;        // [][rows, 8]
  AscendC::GlobalTensor<half> out_;
  AttentionHandover handover_;
  AttentionPartials partials_;
  AttentionMerge merge_;
  AttentionPart part_;
  AttentionPart total_;
  int32_t head_dim_ = 0;
  int32_t out_stride_ = 0;
  float scale_ = 0.0f;
  bool split_keys_ = false;
  int32_t core_ = 0;
};

}  // namespace weft_ascend
