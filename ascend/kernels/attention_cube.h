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

// A pipeline over the steps, one stage of each in every round: the keys and values of one are
// fetched, the scores of the one before are made, the weights of an earlier one are fetched, which
// the vector cores have made of its scores meanwhile, and the weighted values of the one before
// that are made.
class AttentionCube {
 public:
  __aicore__ inline void Run(AscendC::TPipe& pipe, Team team, const AttentionArgs& args,
                             bool split_keys) {
    Init(pipe, team, args);
    AttentionWindow<kValuesRing> steps;
    steps.Init(args, team, split_keys);
    for (int32_t round = 0; !steps.Ended(round - kLastStage); ++round) {
      // What was loaded from L1 for the round before the last is in L0: what is fetched now takes
      // the place of what was used last then.
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kRound + (round & 1));
      const AttentionStep* fetched = steps.At(round);
      const AttentionStep* scored = steps.At(round - 1);
      const AttentionStep* weighted = steps.At(round - 1 - kAttentionLag);
      const AttentionStep* done = steps.At(round - kLastStage);
      if (scored != nullptr) Scores(*scored);
      if (weighted != nullptr) FetchWeights(*weighted);
      if (fetched != nullptr) FetchKeys(*fetched);
      if (done != nullptr) WeightedValues(*done);
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kRound + (round & 1));
    }
    TakeBackFlags();
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  // Rounds from a step's first stage to its last.
  static constexpr int32_t kLastStage = kAttentionLag + 2;
  // Tiles in L1: from the round that fetches one until the second after the one that uses it.
  static constexpr int32_t kKeysRing = 3;  // used one round later, likewise queries and weights
  static constexpr int32_t kValuesRing = kLastStage + 2;

  // Ids of flags, of a ring or two of each.
  static constexpr int32_t kKeys = 0;     // fetched: keys, and queries before them
  static constexpr int32_t kWeights = 3;  // fetched: weights, and values before them
  static constexpr int32_t kRound = 0;
  static constexpr int32_t kUnit = 0;      // L0A, L0B and L0C
  static constexpr int32_t kUnitFree = 3;  // the pipe keeps M_MTE1's first three for itself

  static constexpr int32_t kFractalSize = kFractal * kFractal;
  static constexpr int32_t kRowsTile = kAttentionRows * kMaxHeadDim;
  static constexpr int32_t kKeysTile = kBlockPositions * kMaxHeadDim;
  static constexpr int32_t kWeightsTile = kAttentionRows * kBlockPositions;

  __aicore__ inline void Init(AscendC::TPipe& pipe, Team team, const AttentionArgs& args) {
    pipe.Reset();
    pipe.InitBuffer(queries_l1_, kKeysRing * kRowsTile * sizeof(half));
    pipe.InitBuffer(keys_l1_, kKeysRing * kKeysTile * sizeof(half));
    pipe.InitBuffer(values_l1_, kValuesRing * kKeysTile * sizeof(half));
    pipe.InitBuffer(weights_l1_, kKeysRing * kWeightsTile * sizeof(half));
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

    for (int32_t unit = 0; unit < 2; ++unit) {
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kRound + unit);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + unit);
      AscendC::SetFlag<AscendC::HardEvent::FIX_M>(kUnit + unit);
    }
  }

  __aicore__ inline void TakeBackFlags() {
    for (int32_t unit = 0; unit < 2; ++unit) {
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kRound + unit);
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + unit);
      AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(kUnit + unit);
    }
  }

  __aicore__ inline void FetchKeys(const AttentionStep& step) {
    const AttentionItem& item = step.item;
    const int64_t block = tables_.Get(static_cast<int64_t>(item.table) + step.tile);
    const int64_t tile = static_cast<int64_t>(kBlockPositions) * head_dim_;
    const int64_t in_pool = (block * kv_heads_ + item.kv_head) * 2 * tile;
    if (step.opens_item) {
      const int64_t first =
          static_cast<int64_t>(item.row) * q_stride_ + static_cast<int64_t>(item.head) * head_dim_;
      LoadRows(Queries(step), queries_[first], item.tokens, q_stride_, item.heads, head_dim_);
    }
    LoadRows(Keys(step), kv_[in_pool], 1, 0, kBlockPositions, head_dim_);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(kKeys + step.index % kKeysRing);
    LoadRows(Values(step), kv_[in_pool + tile], 1, 0, kBlockPositions, head_dim_);
  }

  // scores [rows, 64] = queries [rows, head_dim] x keys [64, head_dim] transposed.
  __aicore__ inline void Scores(const AttentionStep& step) {
    const int32_t rows = step.item.tokens * step.item.heads;
    const int32_t unit = NextUnit();
    AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + unit);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(kKeys + step.index % kKeysRing);
    LoadLeft(unit, Queries(step), rows, head_dim_);
    // Keys by rows are the right operand's columns: its fractals lie in L1 as L0B wants them.
    const int32_t fractals = head_dim_ / kFractal * (kBlockPositions / kFractal);
    AscendC::LoadData(Right(unit), Keys(step),
                      AscendC::LoadData2DParams(0, fractals, 1, 0, 0, false, 0));
    Multiply(unit, rows, kBlockPositions, head_dim_, handover_.Scores(step));
    AscendC::CrossCoreSetFlag<0x2, PIPE_FIX>(kScoresReady);
  }

  __aicore__ inline void FetchWeights(const AttentionStep& step) {
    const int32_t rows = step.item.tokens * step.item.heads;
    AscendC::CrossCoreWaitFlag(kWeightsReady);
    LoadRows(Weights(step), handover_.Weights(step), 1, 0, rows, kBlockPositions);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(kWeights + (step.index & 1));
  }

  // values [rows, head_dim] = weights [rows, 64] x values [64, head_dim].
  __aicore__ inline void WeightedValues(const AttentionStep& step) {
    const int32_t rows = step.item.tokens * step.item.heads;
    const int32_t unit = NextUnit();
    AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + unit);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(kWeights + (step.index & 1));
    LoadLeft(unit, Weights(step), rows, kBlockPositions);
    // Values by rows are the right operand itself: each fractal is turned on the way.
    const int32_t columns = head_dim_ / kFractal;
    const auto right = Right(unit);
    for (int32_t k = 0; k < kBlockPositions / kFractal; ++k) {
      AscendC::LoadDataWithTranspose(
          right[k * columns * kFractalSize], Values(step),
          AscendC::LoadData2dTransposeParams(k, columns, kBlockPositions / kFractal, 0, 0, 0));
    }
    Multiply(unit, rows, head_dim_, kBlockPositions, handover_.Values(step));
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

  __aicore__ inline AscendC::LocalTensor<half> Queries(const AttentionStep& step) {
    return queries_l1_.Get<half>()[step.item_index % kKeysRing * kRowsTile];
  }
  __aicore__ inline AscendC::LocalTensor<half> Keys(const AttentionStep& step) {
    return keys_l1_.Get<half>()[step.index % kKeysRing * kKeysTile];
  }
  __aicore__ inline AscendC::LocalTensor<half> Weights(const AttentionStep& step) {
    return weights_l1_.Get<half>()[step.index % kKeysRing * kWeightsTile];
  }
  __aicore__ inline AscendC::LocalTensor<half> Values(const AttentionStep& step) {
    return values_l1_.Get<half>()[step.index % kValuesRing * kKeysTile];
  }

  // Products alternate between two units, so that one is loaded while the other multiplies.
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
