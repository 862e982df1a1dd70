#pragma once
// Sample: draws tokens from rows of logits, a row on one vector core.
//
// Order, as on the host: temperature, floor (min-p), top-k, top-p, and the inverse of the
// cumulative distribution over ids in ascending order; the largest logit, of equal ones the lowest
// id, where the row is greedy. A token's weight is exp((logit - max) * inverse_temperature).
//
// Both cuts keep the first tokens in the order of sampling: larger logits first, lower ids first
// among equals. They are found by bisection on the logit at which to cut, so that a row of any
// length needs no sorting and no more of UB than a tile: a step counts and weighs the tokens at or
// above a trial logit. Halving in turns between two logits and between their places among all
// floats, it ends at two neighbouring floats or, most often long before, when only one token lies
// between: the cut is exact either way. Weights are added up in one order, a tile of 4096 as a tree
// and then tile after tile. A rounded sum never falls when a term grows, so the mass at or above a
// logit never falls with the logit, and bisection finds the one place where it reaches its goal.
//
// Compared with the host's sampler, which adds doubles: greedy tokens and top-k cuts are the same.
// A mass is off by (20 + 2 ln(vocab) + vocab / 4096) x 2^-24 of itself at the most, 5e-6 at 152k
// tokens: 2 roundings of an exponent that is ln(vocab) on the average, 4 units in the last place of
// Exp, 12 levels of the tree, the tiles. Where the cumulative probability is that close to top_p, a
// token more or less may remain; where the uniform number is that close to a boundary, the
// neighbour may be drawn; a floor rounded to float may keep or lose a token within 1 unit of it.

#include <cstdint>

#include "kernel_operator.h"
#include "logit_tiles.h"
#include "sample_row.h"
#include "team.h"
#include "vector_tools.h"

namespace weft_ascend {

// Requires: vocab <= kMaxVocab; slots that exist, each of one row at the most.
struct SampleArgs {
  GM_ADDR logits;       // float [rows, stride]
  GM_ADDR params;       // SampleRow [rows]
  GM_ADDR results;      // SampleResult [rows]
  GM_ADDR slot_tokens;  // int32 [slots, kSlotStride]
  int32_t rows;
  int32_t vocab;
  int32_t stride;
};

// Floats in their order as integers.
__aicore__ inline uint32_t OrderOf(float x) {
  const auto bits = __builtin_bit_cast(uint32_t, x);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
__aicore__ inline float FloatAt(uint32_t order) {
  const uint32_t bits = (order & 0x80000000U) != 0 ? order & 0x7FFFFFFFU : ~order;
  return __builtin_bit_cast(float, bits);
}

// Where to cut: the largest logit of which at least `count` tokens, or a mass of at least `mass`,
// lie at or above.
struct Goal {
  int32_t count;  // 0: by mass
  float mass;

  __aicore__ inline bool Reached(const Level& level) const {
    return count > 0 ? level.count >= count : level.mass >= mass;
  }
};

// Draws from the row that `tiles` scanned last.
class Drawing {
 public:
  __aicore__ inline Drawing(LogitTiles& tiles, const SampleRow& row) : tiles_(tiles), row_(row) {
    tiles.SetTemperature(row.inverse_temperature);
  }

  __aicore__ inline int32_t Token() {
    Level all{kLowestFloat, tiles_.vocab(), 0.0F};
    if (tiles_.max() + row_.floor > all.logit) {
      all = tiles_.Measure(tiles_.max() + row_.floor, false);
    }
    cut_.logit = all.logit;
    if (row_.top_k > 0 && row_.top_k < all.count) all = CutByCount(all);
    all.mass = tiles_.Weigh(cut_);
    if (row_.top_p < 1.0F) {
      CutByMass(all);
      all.mass = tiles_.Weigh(cut_);
    }
    return tiles_.Draw(cut_, row_.uniform * all.mass);
  }

 private:
  struct Bracket {
    Level low;   // reaches the goal
    Level high;  // does not
  };

  // Both cuts take what is left so far; the first one returns what is left then.
  __aicore__ inline Level CutByCount(const Level& all) {
    const Bracket at = Bisect(all, {row_.top_k, 0.0F});
    cut_.logit = at.low.logit;
    if (at.low.count > row_.top_k) {
      cut_.last_tie = tiles_.NthEqual(cut_.logit, row_.top_k - at.high.count);
    }
    return {cut_.logit, row_.top_k, 0.0F};
  }

  __aicore__ inline void CutByMass(const Level& all) {
    const float share = row_.top_p * all.mass;
    const Goal goal{0, share > 0.0F ? share : -1.0F / kLowestFloat};
    const Bracket at = Bisect(all, goal);
    if (at.low.logit > cut_.logit) cut_ = {at.low.logit, Cut::kAllTies};
    const int32_t ties = at.low.count - at.high.count;
    if (ties <= 1) return;
    const float weight = tiles_.WeightOf(cut_.logit);
    const float missing = goal.mass - at.high.mass;
    auto needed = static_cast<int32_t>(missing / weight);
    if (static_cast<float>(needed) * weight < missing) ++needed;
    if (needed < 1) needed = 1;
    if (needed < ties) cut_.last_tie = tiles_.NthEqual(cut_.logit, needed);
  }

  // The tokens that reach a goal lie at or above low.logit; those from it up to high.logit are at
  // most one, or equal, or not needed to tell apart. Requires: `all` reaches the goal.
  __aicore__ inline Bracket Bisect(const Level& all, const Goal& goal) {
    Bracket at = Enclose(all, goal);
    for (bool by_order = false;; by_order = !by_order) {
      if (at.low.count == goal.count || at.low.count - at.high.count <= 1) return at;
      const uint32_t low = OrderOf(at.low.logit);
      const uint32_t high = OrderOf(at.high.logit);
      if (high - low <= 1) return at;
      uint32_t middle = low + (high - low) / 2;
      if (!by_order) middle = OrderOf(0.5F * at.low.logit + 0.5F * at.high.logit);
      if (middle <= low) middle = low + 1;
      if (middle >= high) middle = high - 1;
      const Level level = tiles_.Measure(FloatAt(middle), goal.count == 0);
      (goal.Reached(level) ? at.low : at.high) = level;
    }
  }

  // Steps down from the largest logit, twice as far each time: tokens that matter are near it, and
  // tiles without any are passed over.
  __aicore__ inline Bracket Enclose(const Level& all, const Goal& goal) {
    Bracket at{all, {FloatAt(OrderOf(tiles_.max()) + 1), 0, 0.0F}};
    for (float step = 2.0F; tiles_.max() - step > all.logit; step *= 2.0F) {
      const Level level = tiles_.Measure(tiles_.max() - step, goal.count == 0);
      if (goal.Reached(level)) {
        at.low = level;
        break;
      }
      at.high = level;
    }
    return at;
  }

  LogitTiles& tiles_;
  const SampleRow& row_;
  Cut cut_;
};

class RowSampler {
 public:
  __aicore__ inline RowSampler(AscendC::TPipe& pipe, const SampleArgs& args) : args_(args) {
    tiles_.Init(pipe, args.vocab);
    pipe.InitBuffer(words_, kUbAlign);
    pipe.InitBuffer(result_, kUbAlign);
  }

  __aicore__ inline void Run(int64_t index) {
    const SampleRow row = ReadParams(index);
    if (row.slot < 0) return;
    const bool finite = tiles_.Scan(GlobalAt<float>(args_.logits, index * args_.stride));
    Write(index, row.slot, finite ? TokenOf(row) : 0, finite);
  }

 private:
  static constexpr int32_t kWords = kUbAlign / static_cast<int32_t>(sizeof(int32_t));
  static_assert(sizeof(SampleRow) == kUbAlign && sizeof(SampleResult) == kUbAlign);

  __aicore__ inline int32_t TokenOf(const SampleRow& row) {
    if (row.inverse_temperature == 0.0F) return tiles_.argmax();
    return Drawing(tiles_, row).Token();
  }

  __aicore__ inline SampleRow ReadParams(int64_t index) {
    AscendC::LocalTensor<int32_t> words = words_.Get<int32_t>();
    Await<AscendC::HardEvent::S_MTE2>();
    Load(words, GlobalAt<int32_t>(args_.params, index * kWords), kWords);
    Await<AscendC::HardEvent::MTE2_S>();
    const AscendC::LocalTensor<float> floats = words.ReinterpretCast<float>();
    return {words.GetValue(0),
            floats.GetValue(1),
            words.GetValue(2),
            floats.GetValue(3),
            floats.GetValue(4),
            floats.GetValue(5),
            {}};
  }

  __aicore__ inline void Write(int64_t index, int64_t slot, int32_t token, bool finite) {
    AscendC::LocalTensor<int32_t> words = result_.Get<int32_t>();
    Await<AscendC::HardEvent::MTE3_S>();
    words.SetValue(0, token);
    words.SetValue(1, finite ? 1 : 0);
    for (int32_t i = 2; i < kWords; ++i) words.SetValue(i, 0);
    Await<AscendC::HardEvent::S_MTE3>();
    Store(GlobalAt<int32_t>(args_.results, index * kWords), words, kWords);
    Store(GlobalAt<int32_t>(args_.slot_tokens, slot * kSlotStride), words, 1);
  }

  const SampleArgs& args_;
  LogitTiles tiles_;
  AscendC::TBuf<AscendC::TPosition::VECIN> words_;
  AscendC::TBuf<AscendC::TPosition::VECOUT> result_;
};

__aicore__ inline void Sample(AscendC::TPipe& pipe, Team team, const SampleArgs& args) {
  if ASCEND_IS_AIV {
    pipe.Reset();
    RowSampler sampler(pipe, args);
    const Share rows = VectorShare(team, args.rows);
    for (int32_t row = rows.begin; row < rows.end; ++row) sampler.Run(row);
    AscendC::PipeBarrier<PIPE_ALL>();
  }
}

}  // namespace weft_ascend
