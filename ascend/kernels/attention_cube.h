#pragma once
// The cube core's half of attention: queries times keys, and weights times values.

#include <cstdint>

#include "attention_work.h"
#include "kernel_operator.h"

namespace weft_ascend {

// Block tables, which the host or another core writes between uses: a line of them is dropped from
// the scalar cache before it is read.
class BlockTables {
 public:
  __aicore__ inline void Init(GM_ADDR tables) {
    words_.SetGlobalBuffer(reinterpret_cast<__gm__ uint32_t*>(tables));
    first_ = static_cast<int64_t>(reinterpret_cast<uint64_t>(tables) / sizeof(int32_t));
    line_ = -1;
  }
  __aicore__ inline int32_t Get(int64_t index) {
    const int64_t line = (first_ + index) / kLineWords;
    if (line != line_) {
      RefreshLine(words_[index]);
      line_ = line;
    }
    return static_cast<int32_t>(words_.GetValue(index));
  }

 private:
  AscendC::GlobalTensor<uint32_t> words_;
  int64_t first_ = 0;
  int64_t line_ = -1;
};

// Of step k it makes the scores, then of step k - 1 the weighted values, while the vector cores
// turn step k's scores into weights. Each buffer exists twice.
//
// That one tile's memory is not overwritten too early needs no flags of its own: step k + 2's
// scores follow step k's weights, which were waited for, and step k + 2's weights follow step k's
// weighted values in the vector cores likewise.
class AttentionCube {
 public:
  __aicore__ inline void Run(AscendC::TPipe& pipe, Team team, const AttentionArgs& args,
                             bool split_keys) {
    Init(pipe, team, args);
    AttentionSteps steps;
    steps.Init(args, team, split_keys);
    AttentionStep step = {};
    AttentionStep before = {};
    bool pending = false;
    while (steps.Next(step)) {
      Scores(step);
      if (pending) WeightedValues(before);
      before = step;
      pending = true;
    }
    if (pending) WeightedValues(before);
    TakeBackFlags();
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  // Ids of flags, of two slots each. The pipe keeps the first three of M_MTE1 for itself.
  static constexpr int32_t kKeys = 0;    // L1: keys, and the queries before the first of them
  static constexpr int32_t kValues = 2;  // L1: values and weights
  static constexpr int32_t kUnit = 0;    // L0A, L0B, L0C
  static constexpr int32_t kUnitFree = 3;

  static constexpr int32_t kFractalSize = kFractal * kFractal;
  static constexpr int32_t kRowsTile = kAttentionRows * kMaxHeadDim;
  static constexpr int32_t kKeysTile = kBlockPositions * kMaxHeadDim;
  static constexpr int32_t kWeightsTile = kAttentionRows * kBlockPositions;

  __aicore__ inline void Init(AscendC::TPipe& pipe, Team team, const AttentionArgs& args) {
    pipe.Reset();
    pipe.InitBuffer(queries_l1_, 2 * kRowsTile * sizeof(half));
    pipe.InitBuffer(keys_l1_, 2 * kKeysTile * sizeof(half));
    pipe.InitBuffer(values_l1_, 2 * kKeysTile * sizeof(half));
    pipe.InitBuffer(weights_l1_, 2 * kWeightsTile * sizeof(half));
    pipe.InitBuffer(left_l0_, 2 * kRowsTile * sizeof(half));
    pipe.InitBuffer(right_l0_, 2 * kKeysTile * sizeof(half));
    pipe.InitBuffer(product_l0_, 2 * kRowsTile * sizeof(float));

    queries_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(args.queries));
    kv_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(args.kv));
    tables_.Init(args.block_tables);
    handover_.Init(args, team);
    head_dim_ = args.head_dim;
    kv_heads_ = args.kv_heads;
    q_stride_ = args.q_stride;
    products_ = 0;

    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kKeys + slot);
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kValues + slot);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + slot);
      AscendC::SetFlag<AscendC::HardEvent::FIX_M>(kUnit + slot);
    }
  }

  __aicore__ inline void TakeBackFlags() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kKeys + slot);
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kValues + slot);
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + slot);
      AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(kUnit + slot);
    }
  }

  // scores [rows, 64] = queries [rows, head_dim] x keys [64, head_dim] transposed. Fetches the
  // values too, which are wanted next.
  __aicore__ inline void Scores(const AttentionStep& step) {
    const AttentionItem& item = step.item;
    const int32_t rows = item.tokens * item.heads;
    const int32_t slot = step.index & 1;
    const auto queries = queries_l1_.Get<half>()[(step.item_index & 1) * kRowsTile];
    const auto keys = keys_l1_.Get<half>()[slot * kKeysTile];
    const auto values = values_l1_.Get<half>()[slot * kKeysTile];
    const int64_t block = tables_.Get(static_cast<int64_t>(item.table) + step.tile);
    const int64_t tile = static_cast<int64_t>(kBlockPositions) * head_dim_;
    const int64_t in_pool = (block * kv_heads_ + item.kv_head) * 2 * tile;

    AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kKeys + slot);
    if (step.opens_item) {
      const int64_t first =
          static_cast<int64_t>(item.row) * q_stride_ + static_cast<int64_t>(item.head) * head_dim_;
      LoadRows(queries, queries_[first], item.tokens, q_stride_, item.heads, head_dim_);
    }
    LoadRows(keys, kv_[in_pool], 1, 0, kBlockPositions, head_dim_);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(kKeys + slot);
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kValues + slot);
    LoadRows(values, kv_[in_pool + tile], 1, 0, kBlockPositions, head_dim_);

    const int32_t unit = NextUnit();
    AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + unit);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(kKeys + slot);
    LoadLeft(unit, queries, rows, head_dim_);
    // Keys by rows are the right operand's columns: its fractals lie in L1 as L0B wants them.
    const int32_t fractals = head_dim_ / kFractal * (kBlockPositions / kFractal);
    AscendC::LoadData(Right(unit), keys, AscendC::LoadData2DParams(0, fractals, 1, 0, 0, false, 0));
    AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kKeys + slot);
    Multiply(unit, rows, kBlockPositions, head_dim_, handover_.scores[slot * kWeightsTile]);
    AscendC::CrossCoreSetFlag<0x2, PIPE_FIX>(kScoresReady);
  }

  // values [rows, head_dim] = weights [rows, 64] x values [64, head_dim].
  __aicore__ inline void WeightedValues(const AttentionStep& step) {
    const int32_t rows = step.item.tokens * step.item.heads;
    const int32_t slot = step.index & 1;
    const auto weights = weights_l1_.Get<half>()[slot * kWeightsTile];
    const auto values = values_l1_.Get<half>()[slot * kKeysTile];

    AscendC::CrossCoreWaitFlag(kWeightsReady);
    LoadRows(weights, handover_.weights[slot * kWeightsTile], 1, 0, rows, kBlockPositions);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(kValues + slot);

    const int32_t unit = NextUnit();
    AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + unit);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(kValues + slot);
    LoadLeft(unit, weights, rows, kBlockPositions);
    // Values by rows are the right operand itself: each fractal is turned on the way.
    const int32_t columns = head_dim_ / kFractal;
    const auto right = Right(unit);
    for (int32_t k = 0; k < kBlockPositions / kFractal; ++k) {
      AscendC::LoadDataWithTranspose(
          right[k * columns * kFractalSize], values,
          AscendC::LoadData2dTransposeParams(k, columns, kBlockPositions / kFractal, 0, 0, 0));
    }
    AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kValues + slot);
    Multiply(unit, rows, head_dim_, kBlockPositions,
             handover_.values[slot * kAttentionRows * head_dim_]);
    AscendC::CrossCoreSetFlag<0x2, PIPE_FIX>(kValuesReady);
  }

  // `count` matrices [rows, columns], `stride` apart, one below the other into L1 by fractals.
  // A row alone is loaded twice: with m = 1 the cube would read it in another layout.
  __aicore__ inline void LoadRows(const AscendC::LocalTensor<half>& to,
                                  const AscendC::GlobalTensor<half>& from, int32_t count,
                                  int32_t stride, int32_t rows, int32_t columns) {
    const bool alone = count * rows == 1;
    AscendC::Nd2NzParams params;
    params.ndNum = alone ? 2 : count;
    params.nValue = rows;
    params.dValue = columns;
    params.srcNdMatrixStride = alone || count == 1 ? 0 : stride;
    params.srcDValue = columns;
    params.dstNzC0Stride = RoundUp(count * rows, kFractal);
    params.dstNzNStride = 1;
    params.dstNzMatrixStride = rows * kFractal;
    AscendC::DataCopy(to, from, params);
  }

  // The left operand [rows, columns], from L1 into L0A: fractals by columns there, by rows here.
  __aicore__ inline void LoadLeft(int32_t unit, const AscendC::LocalTensor<half>& from,
                                  int32_t rows, int32_t columns) {
    const int32_t down = CeilDiv(rows, kFractal);
    const int32_t across = columns / kFractal;
    const auto left = Left(unit);
    for (int32_t i = 0; i < down; ++i) {
      AscendC::LoadData(left[i * across * kFractalSize], from[i * kFractalSize],
                        AscendC::LoadData2DParams(0, across, down, 0, 0, false, 0));
    }
  }

  // out [m, n] = left [m, k] x right [k, n], once both are there; frees them.
  __aicore__ inline void Multiply(int32_t unit, int32_t m, int32_t n, int32_t k,
                                  const AscendC::GlobalTensor<float>& out) {
    const auto product = product_l0_.Get<float>()[unit * kRowsTile];
    AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(kUnit + unit);
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(kUnit + unit);
    AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(kUnit + unit);
    AscendC::MmadParams params;
    params.m = m == 1 ? 2 : m;
    params.n = n;
    params.k = k;
    params.cmatrixInitVal = true;
    AscendC::Mmad(product, Left(unit), Right(unit), params);
    AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + unit);
    AscendC::SetFlag<AscendC::HardEvent::M_FIX>(kUnit + unit);
    AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(kUnit + unit);
    AscendC::Fixpipe<float, float, AscendC::CFG_ROW_MAJOR>(
        out, product, AscendC::FixpipeParamsV220(n, m, RoundUp(m, kFractal), n, false));
    AscendC::SetFlag<AscendC::HardEvent::FIX_M>(kUnit + unit);
  }

  __aicore__ inline int32_t NextUnit() { return products_++ & 1; }
  __aicore__ inline AscendC::LocalTensor<half> Left(int32_t unit) {
    return left_l0_.Get<half>()[unit * kRowsTile];
  }
  __aicore__ inline AscendC::LocalTensor<half> Right(int32_t unit) {
    return right_l0_.Get<half>()[unit * kKeysTile];
  }

  AscendC::TBuf<AscendC::TPosition::A1> queries_l1_;
  AscendC::TBuf<AscendC::TPosition::B1> keys_l1_;
  AscendC::TBuf<AscendC::TPosition::B1> values_l1_;
  AscendC::TBuf<AscendC::TPosition::A1> weights_l1_;
  AscendC::TBuf<AscendC::TPosition::A2> left_l0_;
  AscendC::TBuf<AscendC::TPosition::B2> right_l0_;
  AscendC::TBuf<AscendC::TPosition::CO1> product_l0_;
  AscendC::GlobalTensor<half> queries_;
  AscendC::GlobalTensor<half> kv_;
  BlockTables tables_;
  AttentionHandover handover_;
  int32_t head_dim_ = 0;
  int32_t kv_heads_ = 0;
  int32_t q_stride_ = 0;
  int32_t products_ = 0;
};

}  // namespace weft_ascend
