#pragma once
// RotaryStore: what lies between the QKV matrices and attention. ClearBlocks: makes new blocks of
// the KV cache readable as a whole.

#include <cstdint>

#include "kernel_operator.h"
#include "shapes.h"
#include "team.h"
#include "vector_tools.h"

namespace weft_ascend {

// Of each row: adds the bias, norms each query and key head, rotates both to the row's position,
// writes the queries as halves and the keys and values to the row's place in the pool. A head's
// values depend on that row's head alone.
//
// With heads == 0 there are only keys and values, with kv_heads == 0 only queries; `qkv` and `bias`
// then begin with the columns that there are. Requires: head_dim and rope_dims multiples of 16,
// rope_dims <= head_dim <= kMaxHeadDim; no two rows with one place; places in blocks that hold
// numbers (ClearBlocks).
struct RotaryStoreArgs {
  GM_ADDR qkv;        // float [rows, stride]: query heads, key heads, value heads
  GM_ADDR bias;       // float [(heads + 2 * kv_heads) * head_dim] or null
  GM_ADDR q_norm;     // float [head_dim] or null
  GM_ADDR k_norm;     // float [head_dim] or null
  GM_ADDR cos;        // float [context, rope_dims / 2]
  GM_ADDR sin;        // float [context, rope_dims / 2]
  GM_ADDR positions;  // int32 [rows]
  GM_ADDR places;     // int32 [rows]: block * kBlockPositions + offset
  GM_ADDR queries;    // half [rows, q_stride]
  GM_ADDR kv;         // half, the layer's pool [block][kv_heads][2][kBlockPositions][head_dim]
  int32_t rows;
  int32_t heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t rope_dims;
  int32_t stride;
  int32_t q_stride;
  float eps;
};

// Fills blocks of a layer's pool with zeros. Attention multiplies whole tiles, and nothing times
// zero is zero for what is not a number: so a new block is cleared before rows are stored in it, an
// operator earlier, since its rows may be stored by any core.
struct ClearBlocksArgs {
  GM_ADDR kv;      // half, the layer's pool
  GM_ADDR blocks;  // int32 [count]
  int32_t count;
  int32_t kv_heads;
  int32_t head_dim;
};

enum class HeadKind : uint8_t { kQuery, kKey, kValue };

// Consecutive heads of one kind of one row.
struct HeadRun {
  HeadKind kind;
  int32_t first;  // among those of its kind
  int32_t count;
  int32_t column;  // of qkv
};

class HeadRuns {
 public:
  static constexpr int32_t kMaxFloats = 4096;
  static constexpr int32_t kMaxHeads = 128;  // a repeat each

  // As long as UB allows, but short enough that every one of `workers` has some.
  __aicore__ inline HeadRuns(const RotaryStoreArgs& args, int32_t workers) : args_(args) {
    const int32_t all = args.heads + 2 * args.kv_heads;
    const int32_t fitting = kMaxFloats / args.head_dim;
    const int32_t most = fitting < kMaxHeads ? fitting : kMaxHeads;
    const int64_t fair = (int64_t{args.rows} * all + workers - 1) / workers;
    length_ = fair < most ? static_cast<int32_t>(fair) : most;
    if (length_ < 1) length_ = 1;
    query_runs_ = CeilDiv(args.heads, length_);
    key_runs_ = CeilDiv(args.kv_heads, length_);
  }

  __aicore__ inline int32_t per_row() const { return query_runs_ + 2 * key_runs_; }

  __aicore__ inline HeadRun operator[](int32_t index) const {
    if (index < query_runs_) return Run(HeadKind::kQuery, index, args_.heads, 0);
    index -= query_runs_;
    if (index < key_runs_) return Run(HeadKind::kKey, index, args_.kv_heads, args_.heads);
    index -= key_runs_;
    return Run(HeadKind::kValue, index, args_.kv_heads, args_.heads + args_.kv_heads);
  }

 private:
  __aicore__ inline HeadRun Run(HeadKind kind, int32_t index, int32_t heads, int32_t before) const {
    const int32_t first = index * length_;
    const int32_t left = heads - first;
    return {kind, first, left < length_ ? left : length_, (before + first) * args_.head_dim};
  }

  const RotaryStoreArgs& args_;
  int32_t length_ = 1;
  int32_t query_runs_ = 0;
  int32_t key_runs_ = 0;
};

class RotaryStorer {
 public:
  __aicore__ inline RotaryStorer(AscendC::TPipe& pipe, const RotaryStoreArgs& args)
      : args_(args), pairs_(args.rope_dims / 2) {
    constexpr uint32_t kBytes = HeadRuns::kMaxFloats * sizeof(float);
    pipe.InitBuffer(in_, 2, kBytes);
    if (args.bias != nullptr) pipe.InitBuffer(bias_, 2, kBytes);
    pipe.InitBuffer(angles_, 2, kMaxHeadDim * sizeof(float));
    pipe.InitBuffer(out_, 2, HeadRuns::kMaxFloats * sizeof(half));
    pipe.InitBuffer(work_, kBytes);
    positions_.Init(pipe, args.positions, args.rows);
    if (args.kv_heads > 0) places_.Init(pipe, args.places, args.rows);
    if (args.q_norm == nullptr && args.k_norm == nullptr) return;
    pipe.InitBuffer(norms_, 1, 2 * kMaxHeadDim * sizeof(float));
    pipe.InitBuffer(sums_, 3 * HeadRuns::kMaxHeads * sizeof(float));
    pipe.InitBuffer(factors_, HeadRuns::kMaxHeads * kUbAlign);
  }

  __aicore__ inline void Run(const HeadRuns& runs, Share share) {
    if (share.begin >= share.end) return;
    const bool norms = args_.q_norm != nullptr || args_.k_norm != nullptr;
    Floats weights;
    if (norms) weights = LoadNorms();
    const int32_t per_row = runs.per_row();
    for (int32_t i = share.begin; i < share.end; ++i) Do(i / per_row, runs[i % per_row], weights);
    if (norms) norms_.FreeTensor(weights);
  }

 private:
  using Floats = AscendC::LocalTensor<float>;
  using Halves = AscendC::LocalTensor<half>;

  __aicore__ inline Floats LoadNorms() {
    Floats sums = sums_.Get<float>();
    AscendC::Duplicate(sums, 1.0F, 3 * HeadRuns::kMaxHeads);
    Floats weights = norms_.AllocTensor<float>();
    if (args_.q_norm != nullptr) Load(weights, GlobalAt<float>(args_.q_norm), args_.head_dim);
    if (args_.k_norm != nullptr) {
      Load(weights[kMaxHeadDim], GlobalAt<float>(args_.k_norm), args_.head_dim);
    }
    norms_.EnQue(weights);
    return norms_.DeQue<float>();
  }

  __aicore__ inline void Do(int32_t row, HeadRun run, const Floats& norms) {
    const bool query = run.kind == HeadKind::kQuery;
    const int32_t place = query ? 0 : places_.Get(row);
    const UbRows shape{run.count, args_.head_dim, args_.head_dim};

    Floats x = in_.AllocTensor<float>();
    Load(x, GlobalAt<float>(args_.qkv, int64_t{row} * args_.stride + run.column),
         run.count * args_.head_dim);
    in_.EnQue(x);
    x = in_.DeQue<float>();
    if (args_.bias != nullptr) AddBias(run, x);
    if (run.kind != HeadKind::kValue) {
      const GM_ADDR norm = query ? args_.q_norm : args_.k_norm;
      if (norm != nullptr) Norm(shape, x, query ? norms : norms[kMaxHeadDim]);
      Rotate(positions_.Get(row), shape, x);
    }
    Halves out = out_.AllocTensor<half>();
    AscendC::Cast(out, x, AscendC::RoundMode::CAST_RINT,
                  static_cast<uint32_t>(run.count * args_.head_dim));
    in_.FreeTensor(x);
    out_.EnQue(out);
    out = out_.DeQue<half>();
    Put(row, place, run, out);
    out_.FreeTensor(out);
  }

  __aicore__ inline void AddBias(HeadRun run, const Floats& x) {
    const int32_t count = run.count * args_.head_dim;
    Floats bias = bias_.AllocTensor<float>();
    Load(bias, GlobalAt<float>(args_.bias, run.column), count);
    bias_.EnQue(bias);
    bias = bias_.DeQue<float>();
    AscendC::Add(x, x, bias, count);
    bias_.FreeTensor(bias);
    VectorBarrier();
  }

  // x[head] = x[head] / sqrt(mean(x[head]^2) + eps) * weights.
  __aicore__ inline void Norm(UbRows shape, const Floats& x, const Floats& weights) {
    Floats squares = work_.Get<float>();
    Floats sums = sums_.Get<float>();
    Floats more = sums[HeadRuns::kMaxHeads];
    Floats ones = more[HeadRuns::kMaxHeads];
    AscendC::Mul(squares, x, x, shape.rows * shape.stride);
    VectorBarrier();
    SumLanes(sums, squares, shape, 0);
    for (int32_t i = kLanes; i < shape.width; i += kLanes) {
      SumLanes(more, squares, shape, i);
      VectorBarrier();
      AscendC::Add(sums, sums, more, shape.rows);
      VectorBarrier();
    }
    VectorBarrier();
    const int32_t padded = RoundUp(shape.rows, kBlockFloats);  // the rest holds what it held
    AscendC::Muls(sums, sums, 1.0F / static_cast<float>(shape.width), padded);
    VectorBarrier();
    AscendC::Adds(sums, sums, args_.eps, padded);
    VectorBarrier();
    AscendC::Sqrt(sums, sums, padded);
    VectorBarrier();
    AscendC::Div(sums, ones, sums, padded);
    VectorBarrier();
    Floats factors = factors_.Get<float>();
    AscendC::Brcb(factors, sums, static_cast<uint8_t>(padded / kBlockFloats), {1, 8});
    VectorBarrier();
    ScaleRows(x, factors, shape);
    VectorBarrier();
    EachRow<RowOp::kMul>(x, x, weights, shape, 0);
    VectorBarrier();
  }

  // The sums of up to 64 lanes of each row, from lane i on.
  __aicore__ inline void SumLanes(const Floats& sums, const Floats& squares, UbRows shape,
                                  int32_t i) {
    const int32_t left = shape.width - i;
    AscendC::WholeReduceSum(sums, squares[i], left < kLanes ? left : kLanes, shape.rows, 1, 1,
                            shape.stride / kBlockFloats);
  }

  // Pairs are (i, i + pairs_): (a, b) becomes (a cos - b sin, b cos + a sin).
  __aicore__ inline void Rotate(int64_t position, UbRows shape, const Floats& x) {
    Floats cos = angles_.AllocTensor<float>();
    Load(cos, GlobalAt<float>(args_.cos, position * pairs_), pairs_);
    Load(cos[kMaxHeadDim / 2], GlobalAt<float>(args_.sin, position * pairs_), pairs_);
    angles_.EnQue(cos);
    cos = angles_.DeQue<float>();
    Floats sin = cos[kMaxHeadDim / 2];
    Floats a = x;
    Floats b = x[pairs_];
    Floats b_sin = work_.Get<float>();
    Floats a_sin = b_sin[pairs_];
    const UbRows half_rows{shape.rows, pairs_, shape.stride};
    EachRow<RowOp::kMul>(b_sin, b, sin, half_rows, 0);
    EachRow<RowOp::kMul>(a_sin, a, sin, half_rows, 0);
    VectorBarrier();
    EachRow<RowOp::kMul>(a, a, cos, half_rows, 0);
    EachRow<RowOp::kMul>(b, b, cos, half_rows, 0);
    VectorBarrier();
    const auto row_blocks = static_cast<uint8_t>(shape.stride / kBlockFloats);
    EachRow<RowOp::kSub>(a, a, b_sin, half_rows, row_blocks);
    EachRow<RowOp::kAdd>(b, b, a_sin, half_rows, row_blocks);
    VectorBarrier();
    angles_.FreeTensor(cos);
  }

  __aicore__ inline void Put(int64_t row, int64_t place, HeadRun run, const Halves& out) {
    if (run.kind == HeadKind::kQuery) {
      Store(GlobalAt<half>(args_.queries, row * args_.q_stride + run.column), out,
            run.count * args_.head_dim);
      return;
    }
    const int64_t head = place / kBlockPositions * args_.kv_heads + run.first;
    const int64_t matrix = 2 * head + (run.kind == HeadKind::kValue ? 1 : 0);
    const int64_t position = matrix * kBlockPositions + place % kBlockPositions;
    const auto blocks = static_cast<uint16_t>(args_.head_dim * sizeof(half) / kUbAlign);
    const auto gap = static_cast<uint16_t>((2 * kBlockPositions - 1) * blocks);
    AscendC::DataCopy(GlobalAt<half>(args_.kv, position * args_.head_dim), out,
                      AscendC::DataCopyParams{static_cast<uint16_t>(run.count), blocks, 0, gap});
  }

  const RotaryStoreArgs& args_;
  int32_t pairs_;
  IntTable positions_;
  IntTable places_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> in_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> bias_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> angles_;  // cos, sin
  AscendC::TQue<AscendC::TPosition::VECIN, 1> norms_;   // q, k
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> work_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> sums_;  // of all lanes, of some lanes, ones
  AscendC::TBuf<AscendC::TPosition::VECCALC> factors_;
};

__aicore__ inline void RotaryStore(AscendC::TPipe& pipe, Team team, const RotaryStoreArgs& args) {
  if ASCEND_IS_AIV {
    pipe.Reset();
    const HeadRuns runs(args, team.size * kVectorCores);
    RotaryStorer storer(pipe, args);
    storer.Run(runs, VectorShare(team, args.rows * runs.per_row()));
    AscendC::PipeBarrier<PIPE_ALL>();
  }
}

__aicore__ inline void ClearBlocks(AscendC::TPipe& pipe, Team team, const ClearBlocksArgs& args) {
  if ASCEND_IS_AIV {
    pipe.Reset();
    // A head's keys or values at once.
    const int32_t values = kBlockPositions * args.head_dim;
    const int32_t pieces = 2 * args.kv_heads;
    AscendC::TBuf<AscendC::TPosition::VECOUT> buffer;
    pipe.InitBuffer(buffer, static_cast<uint32_t>(values) * sizeof(half));
    IntTable blocks;
    blocks.Init(pipe, args.blocks, args.count);
    AscendC::LocalTensor<half> zeros = buffer.Get<half>();
    AscendC::Duplicate(zeros, static_cast<half>(0), values);
    Await<AscendC::HardEvent::V_MTE3>();
    const Share share = VectorShare(team, args.count * pieces);
    for (int32_t i = share.begin; i < share.end; ++i) {
      const int64_t piece = int64_t{blocks.Get(i / pieces)} * pieces + i % pieces;
      Store(GlobalAt<half>(args.kv, piece * values), zeros, values);
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }
}

}  // namespace weft_ascend
