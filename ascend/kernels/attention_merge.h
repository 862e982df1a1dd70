#pragma once
// Partial results of attention: what a row has over one segment of keys, and their merging. Prefill
// merges on the core that made them, decode in an operator of its own; both by these functions, in
// ascending order of segments.

#include <cstdint>

#include "attention_work.h"
#include "kernel_operator.h"
#include "vector_tools.h"

namespace weft_ascend {

// Copies of a row's number that fill 32 bytes: vector instructions then take it for the row's every
// element.
constexpr int32_t kRowCopies = kBlockFloats;

// Each row's number eight times. Reads and writes whole groups of 8 rows.
__aicore__ inline void CopyAlongRows(const AscendC::LocalTensor<float>& copies,
                                     const AscendC::LocalTensor<float>& numbers, int32_t count) {
  AscendC::Brcb(copies, numbers, CeilDiv(count, kRowCopies),
                AscendC::BrcbRepeatParams(1, kRowCopies));
}

// Of some rows. maximum: of the scores; sum: of exp(score - maximum); values: the sum of
// exp(score - maximum) times the key's value.
struct AttentionPart {
  AscendC::LocalTensor<float> maximum;  // [rows, 8]
  AscendC::LocalTensor<float> sum;      // [rows, 8]
  AscendC::LocalTensor<float> values;   // [rows, head_dim]
};

// values [rows, head_dim] *= factors [rows, 8]. At most 255 rows.
__aicore__ inline void ScaleRows(const AscendC::LocalTensor<float>& values,
                                 const AscendC::LocalTensor<float>& factors, int32_t rows,
                                 int32_t head_dim) {
  const auto stride = head_dim / kRowCopies;
  for (int32_t column = 0; column < head_dim; column += kLanes) {
    const int32_t lanes = head_dim - column < kLanes ? head_dim - column : kLanes;
    AscendC::Mul(values[column], values[column], factors, static_cast<uint64_t>(lanes), rows,
                 AscendC::BinaryRepeatParams(1, 1, 0, stride, stride, 1));
  }
}

// values [rows, head_dim] /= divisors [rows, 8].
__aicore__ inline void DivideRows(const AscendC::LocalTensor<float>& values,
                                  const AscendC::LocalTensor<float>& divisors, int32_t rows,
                                  int32_t head_dim) {
  const auto stride = head_dim / kRowCopies;
  for (int32_t column = 0; column < head_dim; column += kLanes) {
    const int32_t lanes = head_dim - column < kLanes ? head_dim - column : kLanes;
    AscendC::Div(values[column], values[column], divisors, static_cast<uint64_t>(lanes), rows,
                 AscendC::BinaryRepeatParams(1, 1, 0, stride, stride, 1));
  }
}

// Takes the next segment of keys into what all before it gave; `part` is used up. A segment that
// a row does not see changes nothing of it: its maximum is so low that its factor is 0. Adding this
// 0 does not change a zero's sign either, as no sum here is a negative one: the cube adds to 0, and
// so does who takes the first of several.
class AttentionMerge {
 public:
  // `scratch`: [2, rows, 8].
  __aicore__ inline void Init(const AscendC::LocalTensor<float>& scratch, int32_t rows) {
    old_factor_ = scratch;
    new_factor_ = scratch[rows * kRowCopies];
  }

  __aicore__ inline void Take(const AttentionPart& total, const AttentionPart& part, int32_t rows,
                              int32_t head_dim, bool first) {
    const int32_t numbers = rows * kRowCopies;
    if (first) {
      AscendC::Adds(total.maximum, part.maximum, 0.0f, numbers);
      AscendC::Adds(total.sum, part.sum, 0.0f, numbers);
      AscendC::Adds(total.values, part.values, 0.0f, rows * head_dim);
      AscendC::PipeBarrier<PIPE_V>();
      return;
    }
    AscendC::Max(new_factor_, total.maximum, part.maximum, numbers);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Sub(old_factor_, total.maximum, new_factor_, numbers);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Adds(total.maximum, new_factor_, 0.0f, numbers);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Sub(new_factor_, part.maximum, total.maximum, numbers);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Exp(old_factor_, old_factor_, numbers);
    AscendC::Exp(new_factor_, new_factor_, numbers);
    AscendC::PipeBarrier<PIPE_V>();

    AscendC::Mul(total.sum, total.sum, old_factor_, numbers);
    AscendC::Mul(part.sum, part.sum, new_factor_, numbers);
    ScaleRows(total.values, old_factor_, rows, head_dim);
    ScaleRows(part.values, new_factor_, rows, head_dim);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Add(total.sum, total.sum, part.sum, numbers);
    AscendC::Add(total.values, total.values, part.values, rows * head_dim);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // out = values / sum, in half.
  __aicore__ inline void Finish(const AttentionPart& total, const AscendC::LocalTensor<half>& out,
                                int32_t rows, int32_t head_dim) {
    DivideRows(total.values, total.sum, rows, head_dim);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Cast(out, total.values, AscendC::RoundMode::CAST_RINT, rows * head_dim);
  }

 private:
  AscendC::LocalTensor<float> old_factor_;
  AscendC::LocalTensor<float> new_factor_;
};

// Where a row's partial results over one segment of keys lie.
class AttentionPartials {
 public:
  __aicore__ inline void Init(const AttentionArgs& args) {
    partials_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(args.partials));
    heads_ = args.heads;
    head_dim_ = args.head_dim;
  }
  // Of head `head` of the partial result number `place`.
  __aicore__ inline AscendC::GlobalTensor<float> Values(int64_t place, int32_t head) const {
    return partials_[place * Floats() + static_cast<int64_t>(head) * head_dim_];
  }
  __aicore__ inline AscendC::GlobalTensor<float> Maximum(int64_t place, int32_t head) const {
    return partials_[place * Floats() + static_cast<int64_t>(heads_) * head_dim_ +
                     head * kRowCopies];
  }
  __aicore__ inline AscendC::GlobalTensor<float> Sum(int64_t place, int32_t head) const {
    return partials_[place * Floats() + static_cast<int64_t>(heads_) * (head_dim_ + kRowCopies) +
                     head * kRowCopies];
  }
  // From a row's to the next row's.
  __aicore__ inline int64_t Floats() const { return AttentionPartialFloats(heads_, head_dim_); }

 private:
  AscendC::GlobalTensor<float> partials_;
  int32_t heads_ = 0;
  int32_t head_dim_ = 0;
};

// The vector cores' program of DecodeAttentionMerge: some heads of a row at a time, dealt out in
// turn.
class AttentionMergeVector {
 public:
  __aicore__ inline void Run(AscendC::TPipe& pipe, Team team, const AttentionArgs& args) {
    Init(pipe, args);
    const int32_t cores = team.size * kVectorCores;
    const int32_t groups = CeilDiv(heads_, kHeads);
    // Items until this core's next one.
    int32_t ahead = team.rank * kVectorCores + static_cast<int32_t>(AscendC::GetSubBlockIdx());
    int64_t place = 0;
    for (int32_t i = 0; i < args.segment_count; ++i) {
      const AttentionSegment segment = ReadSegment(args.segments, i);
      const int32_t items = segment.rows * groups;
      for (; ahead < items; ahead += cores) {
        const int32_t row = ahead / groups;
        MergeRow(segment.first_row + row, ahead % groups * kHeads, place + row, segment.rows,
                 KeySegments(segment.first_position + row + 1));
      }
      ahead -= items;
      place +=
          static_cast<int64_t>(segment.rows) * KeySegments(segment.first_position + segment.rows);
    }
    TakeBackFlags();
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  static constexpr int32_t kHeads = 8;
  static constexpr int32_t kPart = 0;  // ids of flags, of two slots
  static constexpr int32_t kOut = 2;
  static constexpr int32_t kValuesTile = kHeads * kMaxHeadDim;
  static constexpr int32_t kNumbers = kHeads * kRowCopies;

  __aicore__ inline void Init(AscendC::TPipe& pipe, const AttentionArgs& args) {
    pipe.Reset();
    pipe.InitBuffer(part_values_, 2 * kValuesTile * sizeof(float));
    pipe.InitBuffer(part_numbers_, 4 * kNumbers * sizeof(float));
    pipe.InitBuffer(total_values_, kValuesTile * sizeof(float));
    pipe.InitBuffer(total_numbers_, 4 * kNumbers * sizeof(float));
    pipe.InitBuffer(out_half_, kValuesTile * sizeof(half));

    partials_.Init(args);
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(args.out));
    heads_ = args.heads;
    head_dim_ = args.head_dim;
    out_stride_ = args.out_stride;
    loads_ = 0;

    const auto numbers = total_numbers_.Get<float>();
    total_ = {numbers, numbers[kNumbers], total_values_.Get<float>()};
    merge_.Init(numbers[2 * kNumbers], kHeads);
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kPart + slot);
    }
    AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kOut);
  }

  __aicore__ inline void TakeBackFlags() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kPart + slot);
    }
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kOut);
  }

  // Up to 8 heads of a row, whose partial results over successive segments of keys are `stride`
  // apart.
  __aicore__ inline void MergeRow(int32_t row, int32_t head, int64_t place, int32_t stride,
                                  int32_t key_segments) {
    const int32_t heads = heads_ - head < kHeads ? heads_ - head : kHeads;
    Load(place, head, heads, loads_ & 1);
    for (int32_t i = 0; i < key_segments; ++i) {
      const int32_t slot = loads_++ & 1;
      if (i + 1 < key_segments) {
        Load(place + static_cast<int64_t>(i + 1) * stride, head, heads, loads_ & 1);
      }
      AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(kPart + slot);
      merge_.Take(total_, Part(slot), heads, head_dim_, i == 0);
      AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(kPart + slot);
    }

    const auto out_half = out_half_.Get<half>();
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(kOut);
    merge_.Finish(total_, out_half, heads, head_dim_);
    AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(kOut);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(kOut);
    const int64_t to =
        static_cast<int64_t>(row) * out_stride_ + static_cast<int64_t>(head) * head_dim_;
    AscendC::DataCopy(out_[to], out_half, heads * head_dim_);
    AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(kOut);
    // The next row's total overwrites what Finish has read, on the same pipe.
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void Load(int64_t place, int32_t head, int32_t heads, int32_t slot) {
    const AttentionPart part = Part(slot);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(kPart + slot);
    AscendC::DataCopy(part.values, partials_.Values(place, head), heads * head_dim_);
    const auto numbers = heads * kRowCopies;
    AscendC::DataCopy(part.maximum, partials_.Maximum(place, head), numbers);
    AscendC::DataCopy(part.sum, partials_.Sum(place, head), numbers);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(kPart + slot);
  }

  __aicore__ inline AttentionPart Part(int32_t slot) {
    const auto numbers = part_numbers_.Get<float>()[slot * 2 * kNumbers];
    return {numbers, numbers[kNumbers], part_values_.Get<float>()[slot * kValuesTile]};
  }

  AscendC::TBuf<AscendC::TPosition::VECIN> part_values_;
  AscendC::TBuf<AscendC::TPosition::VECIN> part_numbers_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> total_values_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> total_numbers_;
  AscendC::TBuf<AscendC::TPosition::VECOUT> out_half_;
  AscendC::GlobalTensor<half> out_;
  AttentionPartials partials_;
  AttentionMerge merge_;
  AttentionPart total_;
  int32_t heads_ = 0;
  int32_t head_dim_ = 0;
  int32_t out_stride_ = 0;
  int32_t loads_ = 0;
};

}  // namespace weft_ascend
