#pragma once
// The cube core's half of attention: queries times keys, and weights times values.

#include <cstdint>

#include "attention_work.h"
#include "kernel_operator.h"

namespace weft_ascend {

// A pipeline over the steps. A round takes the scores of one step and the weighted values of an
// earlier one, whose weights the vector cores have made meanwhile, in turn, tile of keys by tile:
// the scores keep the fixpipe busy, the values do not. Keys and values are fetched some tiles
// ahead, in groups that share a flag.
class AttentionCube {
 public:
  __aicore__ inline void Run(AscendC::TPipe& pipe, Team team, const AttentionArgs& args,
                             bool split_keys) {
    Init(pipe, team, args);
    steps_.Init(args, team, split_keys);
    Fetch(0, 0, group_);
    FetchAhead(0, 0);
    for (int32_t round = 0; !steps_.Ended(round - kAttentionLag); ++round) {
      const AttentionStep* scored = steps_.At(round);
      const AttentionStep* weighted = steps_.At(round - kAttentionLag);
      for (int32_t tile = 0; tile < Tiles(round); ++tile) {
        if (tile > 0) FetchAhead(round, tile);
        if (tile % group_ == 0) FetchWeights(weighted, tile + group_);
        if (tile < Tiles(scored)) Scores(*scored, tile);
        if (tile < Tiles(weighted)) WeightedValues(*weighted, tile);
      }
      // The next round's first weights come before what is not needed yet, unless they are all that
      // is left to wait for.
      const AttentionStep* next = steps_.At(round + 1 - kAttentionLag);
      const bool last = steps_.At(round + 1) == nullptr;
      if (last) FetchAhead(round + 1, 0);
      FetchWeights(next, 0);
      if (!last) FetchAhead(round + 1, 0);
    }
    TakeBackFlags();
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  // Ids of flags, of two slots each but the last ones.
  static constexpr int32_t kKeys = 0;  // L1: a group of keys, and queries before them
  static constexpr int32_t kValues = 2;
  static constexpr int32_t kWeights = 4;
  static constexpr int32_t kUnit = 0;         // L0A and L0B
  static constexpr int32_t kUnitFree = 3;     // the pipe keeps M_MTE1's first three for itself
  static constexpr int32_t kQueriesFree = 5;  // likewise M_MTE1
  static constexpr int32_t kProduct = 0;      // L0C: two tiles of scores
  static constexpr int32_t kSums = 2;         // L0C: weighted values

  static constexpr int32_t kFractalSize = kFractal * kFractal;
  static constexpr int32_t kSlots = 2;
  // Tiles of rows by head_dim, of a group of keys by head_dim, of rows by keys: the greatest.
  static constexpr int32_t kRowsTile = 128 * 128;
  static constexpr int32_t kGroupTile = 256 * 128;
  static constexpr int32_t kWeightsGroup = kAttentionRows * 256;
  static constexpr int32_t kWeightsTile = kAttentionRows * kBlockPositions;
  static constexpr int32_t kKeysTile = kBlockPositions * kMaxHeadDim;

  __aicore__ inline void Init(AscendC::TPipe& pipe, Team team, const AttentionArgs& args) {
    pipe.Reset();
    pipe.InitBuffer(queries_l1_, kSlots * kRowsTile * sizeof(half));
    pipe.InitBuffer(keys_l1_, kSlots * kGroupTile * sizeof(half));
    pipe.InitBuffer(values_l1_, kSlots * kGroupTile * sizeof(half));
    pipe.InitBuffer(weights_l1_, kSlots * kWeightsGroup * sizeof(half));
    pipe.InitBuffer(queries_l0_, kRowsTile * sizeof(half));
    pipe.InitBuffer(weights_l0_, kSlots * kWeightsTile * sizeof(half));
    pipe.InitBuffer(right_l0_, kSlots * kKeysTile * sizeof(half));
    pipe.InitBuffer(scores_l0_, kSlots * kWeightsTile * sizeof(float));
    pipe.InitBuffer(sums_l0_, kRowsTile * sizeof(float));

    queries_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(args.queries));
    kv_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(args.kv));
    key_tables_.Init(args.block_tables);
    value_tables_.Init(args.block_tables);
    handover_.Init(args, team);
    head_dim_ = args.head_dim;
    kv_heads_ = args.kv_heads;
    q_stride_ = args.q_stride;
    group_ = kGroupTile / 128 / kBlockPositions;
    if (head_dim_ > 128) group_ /= 2;
    keys_fetched_ = values_fetched_ = weights_fetched_ = 0;
    key_groups_ = value_groups_ = 0;
    products_ = scores_ = 0;

    for (int32_t slot = 0; slot < kSlots; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kKeys + slot);
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kValues + slot);
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kWeights + slot);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + slot);
      AscendC::SetFlag<AscendC::HardEvent::FIX_M>(kProduct + slot);
    }
    AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kQueriesFree);
    AscendC::SetFlag<AscendC::HardEvent::FIX_M>(kSums);
  }

  __aicore__ inline void TakeBackFlags() {
    for (int32_t slot = 0; slot < kSlots; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kKeys + slot);
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kValues + slot);
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kWeights + slot);
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + slot);
      AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(kProduct + slot);
    }
    AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kQueriesFree);
    AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(kSums);
  }

  __aicore__ inline static int32_t Tiles(const AttentionStep* step) {
    return step != nullptr ? step->tiles : 0;
  }
  __aicore__ inline int32_t Tiles(int32_t round) {
    const int32_t scored = Tiles(steps_.At(round));
    const int32_t weighted = Tiles(steps_.At(round - kAttentionLag));
    return scored > weighted ? scored : weighted;
  }
  __aicore__ inline static int32_t Rows(const AttentionStep& step) {
    return step.item.tokens * step.item.heads;
  }

  // While a round is at `tile`: of the next group the tile at the same place, and at the end of a
  // group all that is left of it.
  __aicore__ inline void FetchAhead(int32_t round, int32_t tile) {
    const int32_t tiles = Tiles(round);
    const int32_t place = tile % group_;
    const int32_t next_group = tile - place + group_;
    const bool ends = place + 1 == group_ || tile + 1 >= tiles;
    const int32_t end = ends ? group_ : place + 1;
    if (next_group < tiles) {
      Fetch(round, next_group + place, next_group + end);
    } else {
      Fetch(round + 1, place, end);
    }
  }

  // Of a round's keys and values the tiles [tile, end).
  __aicore__ inline void Fetch(int32_t round, int32_t tile, int32_t end) {
    const AttentionStep* scored = steps_.At(round);
    const AttentionStep* weighted = steps_.At(round - kAttentionLag);
    for (; tile < end; ++tile) {
      if (tile < Tiles(scored)) FetchKeys(*scored, tile);
      if (tile < Tiles(weighted)) FetchValues(*weighted, tile);
    }
  }

  __aicore__ inline void FetchKeys(const AttentionStep& step, int32_t tile) {
    const AttentionItem& item = step.item;
    const int32_t slot = kKeys + keys_fetched_ % kSlots;
    if (tile % group_ == 0) AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
    if (step.opens_item && tile == 0) {
      const int64_t first =
          static_cast<int64_t>(item.row) * q_stride_ + static_cast<int64_t>(item.head) * head_dim_;
      LoadRows(Queries(step), queries_[first], item.tokens, q_stride_, item.heads, head_dim_);
    }
    LoadTile(OfGroup(keys_l1_, keys_fetched_, tile), kv_[InPool(key_tables_, step, tile)]);
    if (!EndsGroup(step, tile)) return;
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(slot);
    ++keys_fetched_;
  }

  __aicore__ inline void FetchValues(const AttentionStep& step, int32_t tile) {
    const int32_t slot = kValues + values_fetched_ % kSlots;
    const int64_t keys = static_cast<int64_t>(kBlockPositions) * head_dim_;
    if (tile % group_ == 0) AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
    LoadTile(OfGroup(values_l1_, values_fetched_, tile),
             kv_[InPool(value_tables_, step, tile) + keys]);
    if (!EndsGroup(step, tile)) return;
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(slot);
    ++values_fetched_;
  }

  // The keys of a tile; its values follow.
  __aicore__ inline int64_t InPool(BlockTables& tables, const AttentionStep& step, int32_t tile) {
    const int64_t block = tables.Get(static_cast<int64_t>(step.item.table) + step.tile + tile);
    return (block * kv_heads_ + step.item.kv_head) * 2 * kBlockPositions * head_dim_;
  }

  __aicore__ inline bool EndsGroup(const AttentionStep& step, int32_t tile) const {
    return (tile + 1) % group_ == 0 || tile + 1 == step.tiles;
  }

  // The weights of a group of keys, if the step has it. They lie as fractals already. A row alone
  // needs no second one beside it, whose products are not stored.
  __aicore__ inline void FetchWeights(const AttentionStep* step, int32_t tile) {
    if (tile >= Tiles(step)) return;
    if (tile == 0) AscendC::CrossCoreWaitFlag(kWeightsReady);
    const int32_t rows = Rows(*step);
    const int32_t tiles = step->tiles - tile < group_ ? step->tiles - tile : group_;
    const int32_t slot = weights_fetched_++ % kSlots;
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kWeights + slot);
    AscendC::DataCopy(Weights(slot, rows, 0), handover_.Weights(*step, tile),
                      AscendC::DataCopyParams(tiles * kTileFractals, rows, handover_.Rows() - rows,
                                              RoundUp(rows, kFractal) - rows));
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(kWeights + slot);
  }

  // scores [rows, 64] = queries [rows, head_dim] x keys [64, head_dim] transposed.
  __aicore__ inline void Scores(const AttentionStep& step, int32_t tile) {
    const int32_t rows = Rows(step);
    const int32_t unit = NextUnit();
    const int32_t slot = kKeys + key_groups_ % kSlots;
    AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + unit);
    if (tile % group_ == 0) AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(slot);
    if (step.opens_item && tile == 0) {
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kQueriesFree);
      LoadLeft(queries_l0_.Get<half>(), Queries(step), rows, head_dim_);
    }
    // Keys by rows are the right operand's columns: its fractals, as L0B wants each.
    const int32_t across = head_dim_ / kFractal;
    for (int32_t i = 0; i < kTileFractals; ++i) {
      AscendC::LoadData(Right(unit)[i * kFractalSize],
                        OfGroup(keys_l1_, key_groups_, tile)[i * across * kFractalSize],
                        AscendC::LoadData2DParams(0, across, 1, 0, kTileFractals - 1, false, 0));
    }
    if (EndsGroup(step, tile)) {
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
      ++key_groups_;
    }

    const int32_t product = scores_++ % kSlots;
    const auto scores = scores_l0_.Get<float>()[product * kWeightsTile];
    AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(kUnit + unit);
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(kUnit + unit);
    AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(kProduct + product);
    Multiply(scores, queries_l0_.Get<half>(), Right(unit), rows, kBlockPositions, head_dim_, true);
    AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + unit);
    const bool ends = tile + 1 == step.tiles;
    if (ends && step.closes_item) AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kQueriesFree);
    Store(handover_.Scores(step, tile), scores, rows, kBlockPositions, kProduct + product);
    if (ends) AscendC::CrossCoreSetFlag<0x2, PIPE_FIX>(kScoresReady);
  }

  // values [rows, head_dim] += weights [rows, 64] x values [64, head_dim].
  __aicore__ inline void WeightedValues(const AttentionStep& step, int32_t tile) {
    const int32_t rows = Rows(step);
    const int32_t unit = NextUnit();
    const int32_t slot = kValues + value_groups_ % kSlots;
    const int32_t weights = value_groups_ % kSlots;
    AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + unit);
    if (tile % group_ == 0) {
      AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(kWeights + weights);
      AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(slot);
    }
    const auto left = weights_l0_.Get<half>()[unit * kWeightsTile];
    LoadLeft(left, Weights(weights, rows, tile % group_), rows, kBlockPositions);
    // Values by rows are the right operand itself: each fractal is turned on the way.
    const int32_t across = head_dim_ / kFractal;
    const auto right = Right(unit);
    for (int32_t i = 0; i < kTileFractals; ++i) {
      AscendC::LoadDataWithTranspose(
          right[i * across * kFractalSize], OfGroup(values_l1_, value_groups_, tile),
          AscendC::LoadData2dTransposeParams(i * across, across, 1, 0, 0, 0));
    }
    if (EndsGroup(step, tile)) {
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kWeights + weights);
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(slot);
      ++value_groups_;
    }

    const auto sums = sums_l0_.Get<float>();
    AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(kUnit + unit);
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(kUnit + unit);
    if (tile == 0) AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(kSums);
    Multiply(sums, left, right, rows, head_dim_, kBlockPositions, tile == 0);
    AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kUnitFree + unit);
    if (tile + 1 < step.tiles) return;
    Store(handover_.Values(step), sums, rows, head_dim_, kSums);
    AscendC::CrossCoreSetFlag<0x2, PIPE_FIX>(kValuesReady);
  }

  // The keys or values of a block into L1: fractals [4][head_dim / 16], in the order of
  // kTileFractals. Each row of the copy is four of the block's, since rows cost it time.
  __aicore__ inline void LoadTile(const AscendC::LocalTensor<half>& to,
                                  const AscendC::GlobalTensor<half>& from) {
    const int32_t columns = kTileFractals * head_dim_;
    AscendC::DataCopy(to, from,
                      AscendC::Nd2NzParams(1, kFractal, columns, 0, columns, kFractal, 1, 0));
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
  __aicore__ inline void LoadLeft(const AscendC::LocalTensor<half>& to,
                                  const AscendC::LocalTensor<half>& from, int32_t rows,
                                  int32_t columns) {
    const int32_t down = CeilDiv(rows, kFractal);
    const int32_t across = columns / kFractal;
    for (int32_t i = 0; i < down; ++i) {
      AscendC::LoadData(to[i * across * kFractalSize], from[i * kFractalSize],
                        AscendC::LoadData2DParams(0, across, down, 0, 0, false, 0));
    }
  }

  // product [m, n] = left [m, k] x right [k, n], or is added to it.
  __aicore__ inline void Multiply(const AscendC::LocalTensor<float>& product,
                                  const AscendC::LocalTensor<half>& left,
                                  const AscendC::LocalTensor<half>& right, int32_t m, int32_t n,
                                  int32_t k, bool first) {
    AscendC::MmadParams params;
    params.m = m == 1 ? 2 : m;
    params.n = n;
    params.k = k;
    params.cmatrixInitVal = first;
    AscendC::Mmad(product, left, right, params);
    // Small products end too soon for the cube to hold back the next one that adds to them.
    if ((params.m / kFractal) * (params.n / kFractal) < 10) AscendC::PipeBarrier<PIPE_M>();
  }

  // From L0C to global memory, [rows, columns]; frees it by the flag.
  __aicore__ inline void Store(const AscendC::GlobalTensor<float>& to,
                               const AscendC::LocalTensor<float>& from, int32_t rows,
                               int32_t columns, int32_t flag) {
    AscendC::SetFlag<AscendC::HardEvent::M_FIX>(flag);
    AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(flag);
    AscendC::Fixpipe<float, float, AscendC::CFG_ROW_MAJOR>(
        to, from,
        AscendC::FixpipeParamsV220(columns, rows, RoundUp(rows, kFractal), columns, false));
    AscendC::SetFlag<AscendC::HardEvent::FIX_M>(flag);
  }

  __aicore__ inline AscendC::LocalTensor<half> Queries(const AttentionStep& step) {
    return queries_l1_.Get<half>()[step.item_index % kSlots * kRowsTile];
  }
  // A tile of a group of keys or values.
  template <class Buffer>
  __aicore__ inline AscendC::LocalTensor<half> OfGroup(Buffer& buffer, int32_t group,
                                                       int32_t tile) {
    return buffer.template Get<half>()[group % kSlots * kGroupTile +
                                       tile % group_ * kBlockPositions * head_dim_];
  }
  // A tile of a group of weights.
  __aicore__ inline AscendC::LocalTensor<half> Weights(int32_t slot, int32_t rows, int32_t tile) {
    return weights_l1_
        .Get<half>()[slot * kWeightsGroup + tile * RoundUp(rows, kFractal) * kBlockPositions];
  }

  // Products alternate between two units, so that one is loaded while the other multiplies.
  __aicore__ inline int32_t NextUnit() { return products_++ % kSlots; }
  __aicore__ inline AscendC::LocalTensor<half> Right(int32_t unit) {
    return right_l0_.Get<half>()[unit * kKeysTile];
  }

  AscendC::TBuf<AscendC::TPosition::A1> queries_l1_;
  AscendC::TBuf<AscendC::TPosition::B1> keys_l1_;
  AscendC::TBuf<AscendC::TPosition::B1> values_l1_;
  AscendC::TBuf<AscendC::TPosition::A1> weights_l1_;
  AscendC::TBuf<AscendC::TPosition::A2> queries_l0_;
  AscendC::TBuf<AscendC::TPosition::A2> weights_l0_;
  AscendC::TBuf<AscendC::TPosition::B2> right_l0_;
  AscendC::TBuf<AscendC::TPosition::CO1> scores_l0_;
  AscendC::TBuf<AscendC::TPosition::CO1> sums_l0_;
  AscendC::GlobalTensor<half> queries_;
  AscendC::GlobalTensor<half> kv_;
  BlockTables key_tables_;  // each at its own line: values come later
  BlockTables value_tables_;
  AttentionWindow<kAttentionLag + 3> steps_;
  AttentionHandover handover_;
  int32_t head_dim_ = 0;
  int32_t kv_heads_ = 0;
  int32_t q_stride_ = 0;
  int32_t group_ = 1;  // tiles of keys
  // So far: groups that were fetched, and that were used; operands in L0 and scores in L0C.
  int32_t keys_fetched_ = 0;
  int32_t values_fetched_ = 0;
  int32_t weights_fetched_ = 0;
  int32_t key_groups_ = 0;
  int32_t value_groups_ = 0;  // and of weights
  int32_t products_ = 0;
  int32_t scores_ = 0;
};

}  // namespace weft_ascend
