#pragma once
// LogitTiles: a row of logits that streams through UB, and what a sampler asks of it.

#include <cstdint>

#include "kernel_operator.h"
#include "sample_row.h"
#include "vector_tools.h"

namespace weft_ascend {

constexpr float kLowestFloat = -3.402823466e38F;

// The tokens at or above a logit.
struct Level {
  float logit;
  int32_t count;
  float mass;  // the sum of their weights, where it was asked for
};

// The tokens that are left to draw from: those above a logit, and of those that equal it the ones
// with ids up to `last_tie`.
struct Cut {
  static constexpr int32_t kAllTies = 0x7fffffff;
  float logit = kLowestFloat;
  int32_t last_tie = kAllTies;
};

// Finds the first of some weights at which the sum so far exceeds a target; the last one above zero
// where rounding leaves the sum short of it.
class WeightSearch {
 public:
  __aicore__ inline explicit WeightSearch(float target) : left_(target) {}

  // Whether this one is it.
  __aicore__ inline bool Add(int32_t index, float weight) {
    if (!(weight > 0.0F)) return false;
    index_ = index;
    found_ = left_ < weight;
    if (!found_) left_ -= weight;
    return found_;
  }

  __aicore__ inline int32_t index() const { return index_; }
  // The target within the one that was found.
  __aicore__ inline float rest() const { return found_ ? left_ : -kLowestFloat; }

 private:
  float left_;
  int32_t index_ = 0;
  bool found_ = false;
};

class LogitTiles {
 public:
  __aicore__ inline void Init(AscendC::TPipe& pipe, int32_t vocab) {
    vocab_ = vocab;
    tiles_ = CeilDiv(vocab, kTile);
    pipe.InitBuffer(in_, 2, kTile * sizeof(float));
    pipe.InitBuffer(ones_, kTile * sizeof(float));
    pipe.InitBuffer(trial_, kTile * sizeof(float));
    pipe.InitBuffer(chosen_, kTile * sizeof(float));
    pipe.InitBuffer(work_, kTile * sizeof(float));
    pipe.InitBuffer(mask_, kTile / 8);
    pipe.InitBuffer(sums_, kLanes * sizeof(float));
    pipe.InitBuffer(few_, kUbAlign);
    pipe.InitBuffer(maxima_, 2 * kMaxTiles * sizeof(float));
    pipe.InitBuffer(masses_, kMaxTiles * sizeof(float));
    pipe.InitBuffer(counts_, kMaxTiles * sizeof(float));
    AscendC::Duplicate(ones_.Get<float>(), 1.0F, kTile);
    VectorBarrier();
  }

  // Takes up a row and looks at each of its logits; false if one is not finite.
  __aicore__ inline bool Scan(const AscendC::GlobalTensor<float>& logits) {
    logits_ = logits;
    Floats zeros = chosen_.Get<float>();  // logits times 0, added up: NaN where one is not finite
    Floats work = work_.Get<float>();
    Floats maxima = maxima_.Get<float>();
    AscendC::Duplicate(zeros, 0.0F, kTile);
    for (BeginAll(); Next(); Done()) {
      AscendC::ReduceMax(maxima[2 * tile_], values_, work, count_, true);
      VectorBarrier();
      AscendC::Muls(work, values_, 0.0F, count_);
      VectorBarrier();
      AscendC::Add(zeros, zeros, work, count_);
      VectorBarrier();
    }
    Floats few = few_.Get<float>();
    AscendC::ReduceSum(few, zeros, work, kTile);
    Await<AscendC::HardEvent::V_S>();
    FindMax();
    return few.GetValue(0) == 0.0F;
  }

  // Of the row that was scanned: its largest logit, and the lowest id that has it.
  __aicore__ inline float max() const { return max_; }
  __aicore__ inline int32_t argmax() const { return argmax_; }
  __aicore__ inline int32_t vocab() const { return vocab_; }

  __aicore__ inline void SetTemperature(float inverse) { inverse_temperature_ = inverse; }

  __aicore__ inline Level Measure(float logit, bool weighs) {
    for (Begin(logit); Next(); Done()) {
      Compare(AscendC::CMPMODE::GE);
      CountTile();
      if (weighs) WeighTile();
    }
    Await<AscendC::HardEvent::V_S>();
    Level level{logit, 0, 0.0F};
    for (int32_t tile = Find(0); tile < tiles_; tile = Find(tile + 1)) {
      level.count += static_cast<int32_t>(counts_.Get<float>().GetValue(tile));
      if (weighs) level.mass += masses_.Get<float>().GetValue(tile);
    }
    return level;
  }

  // The sum of the weights that a cut leaves; remembers it by tiles for Draw.
  __aicore__ inline float Weigh(const Cut& cut) {
    for (Begin(cut.logit); Next(); Done()) {
      Keep(cut);
      SumTile(masses_.Get<float>(), work_.Get<float>());
    }
    Await<AscendC::HardEvent::V_S>();
    float mass = 0.0F;
    for (int32_t tile = Find(0); tile < tiles_; tile = Find(tile + 1)) {
      mass += masses_.Get<float>().GetValue(tile);
    }
    return mass;
  }

  // The token at which the weights that `cut` leaves, added up by ascending id, exceed `target`.
  // Requires: Weigh(cut) came last.
  __aicore__ inline int32_t Draw(const Cut& cut, float target) {
    Floats masses = masses_.Get<float>();
    WeightSearch by_tile(target);
    for (int32_t tile = Find(0); tile < tiles_; tile = Find(tile + 1)) {
      if (by_tile.Add(tile, masses.GetValue(tile))) break;
    }
    Open(by_tile.index());
    Keep(cut);
    Floats weights = work_.Get<float>();
    SumTile(masses, weights);
    Await<AscendC::HardEvent::V_S>();
    Floats sums = sums_.Get<float>();
    WeightSearch by_repeat(by_tile.rest());
    for (int32_t i = 0; i < CeilDiv(count_, kLanes); ++i) {
      if (by_repeat.Add(i, sums.GetValue(i))) break;
    }
    const int32_t begin = by_repeat.index() * kLanes;
    WeightSearch by_token(by_repeat.rest());
    for (int32_t i = begin; i < begin + kLanes && i < count_; ++i) {
      if (by_token.Add(i, weights.GetValue(i))) break;
    }
    const int32_t token = tile_ * kTile + by_token.index();
    Done();
    return token;
  }

  // The id of the n-th token, counted from 1, that has this very logit. Requires: it exists.
  __aicore__ inline int32_t NthEqual(float logit, int32_t n) {
    for (Begin(logit); Next(); Done()) {
      Compare(AscendC::CMPMODE::EQ);
      CountTile();
    }
    Await<AscendC::HardEvent::V_S>();
    int32_t tile = Find(0);
    for (; tile < tiles_; tile = Find(tile + 1)) {
      const auto here = static_cast<int32_t>(counts_.Get<float>().GetValue(tile));
      if (n <= here) break;
      n -= here;
    }
    Open(tile);
    Await<AscendC::HardEvent::V_S>();
    int32_t i = 0;
    for (; i < count_ - 1; ++i) {
      if (values_.GetValue(i) == logit && --n == 0) break;
    }
    Done();
    return tile * kTile + i;
  }

  __aicore__ inline float WeightOf(float logit) {
    Floats few = few_.Get<float>();
    AscendC::Duplicate(few, logit, kBlockFloats);
    VectorBarrier();
    ExpOf(few, few, kBlockFloats);
    Await<AscendC::HardEvent::V_S>();
    return few.GetValue(0);
  }

 private:
  using Floats = AscendC::LocalTensor<float>;
  static constexpr int32_t kTile = kLanes * kLanes;  // whose repeats' sums are a repeat again
  static constexpr int32_t kMaxTiles = kMaxVocab / kTile;
  static constexpr AscendC::SELMODE kTensorOrScalar = AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE;

  // --- The stream: for (Begin(...); Next(); Done()), each tile is in values_ ---

  __aicore__ inline void BeginAll() {
    scanning_ = true;
    Prefetch(0);
  }

  // The tiles with a logit of at least this, which fills trial_.
  __aicore__ inline void Begin(float logit) {
    scanning_ = false;
    floor_ = logit;
    AscendC::Duplicate(trial_.Get<float>(), logit, kTile);
    VectorBarrier();
    Prefetch(Find(0));
  }

  __aicore__ inline bool Next() {
    if (next_ >= tiles_) return false;
    tile_ = next_;
    Prefetch(Find(tile_ + 1));
    Take();
    return true;
  }

  __aicore__ inline void Done() { in_.FreeTensor(values_); }

  // One tile by itself, up to Done().
  __aicore__ inline void Open(int32_t tile) {
    tile_ = tile;
    Prefetch(tile);
    Take();
  }

  __aicore__ inline int32_t Find(int32_t tile) {
    if (scanning_) return tile;
    const Floats maxima = maxima_.Get<float>();
    while (tile < tiles_ && maxima.GetValue(2 * tile) < floor_) ++tile;
    return tile;
  }

  __aicore__ inline int32_t CountOf(int32_t tile) const {
    const int32_t left = vocab_ - tile * kTile;
    return left < kTile ? left : kTile;
  }

  __aicore__ inline void Prefetch(int32_t tile) {
    next_ = tile;
    if (tile >= tiles_) return;
    Floats values = in_.AllocTensor<float>();
    Load(values, logits_[tile * kTile], CountOf(tile), kLowestFloat);
    in_.EnQue(values);
  }

  // Compare takes whole repeats.
  __aicore__ inline void Take() {
    values_ = in_.DeQue<float>();
    count_ = CountOf(tile_);
    const int32_t loaded = RoundUp(count_, kBlockFloats);
    if (loaded % kLanes == 0) return;
    AscendC::Duplicate(values_[loaded], kLowestFloat, RoundUp(count_, kLanes) - loaded);
    VectorBarrier();
  }

  __aicore__ inline void FindMax() {
    const Floats maxima = maxima_.Get<float>();
    int32_t best = 0;
    for (int32_t tile = 1; tile < tiles_; ++tile) {
      if (maxima.GetValue(2 * tile) > maxima.GetValue(2 * best)) best = tile;
    }
    max_ = maxima.GetValue(2 * best);
    argmax_ = best * kTile + maxima.ReinterpretCast<int32_t>().GetValue(2 * best + 1);
  }

  // --- On the tile in values_ ---

  __aicore__ inline void Compare(AscendC::CMPMODE mode) {
    AscendC::Compare(mask_.Get<uint8_t>(), values_, trial_.Get<float>(), mode,
                     static_cast<uint32_t>(RoundUp(count_, kLanes)));
    VectorBarrier();
  }

  // The number of ones in the mask, into counts_.
  __aicore__ inline void CountTile() {
    Floats chosen = chosen_.Get<float>();
    AscendC::Select(chosen, mask_.Get<uint8_t>(), ones_.Get<float>(), 0.0F, kTensorOrScalar,
                    static_cast<uint32_t>(count_));
    VectorBarrier();
    SumTile(counts_.Get<float>(), chosen);
  }

  __aicore__ inline void ExpOf(const Floats& out, const Floats& logits, int32_t count) {
    AscendC::Adds(out, logits, -max_, count);
    VectorBarrier();
    AscendC::Muls(out, out, inverse_temperature_, count);
    VectorBarrier();
    AscendC::Exp(out, out, count);
    VectorBarrier();
  }

  // Weights of the tokens in the mask into work_, zeros elsewhere.
  __aicore__ inline void WeighMasked() {
    Floats work = work_.Get<float>();
    ExpOf(work, values_, count_);
    AscendC::Select(work, mask_.Get<uint8_t>(), work, 0.0F, kTensorOrScalar,
                    static_cast<uint32_t>(count_));
    VectorBarrier();
  }

  // The sum of the weights in the mask, into masses_.
  __aicore__ inline void WeighTile() {
    WeighMasked();
    SumTile(masses_.Get<float>(), work_.Get<float>());
  }

  // The weights that a cut leaves into work_, zeros elsewhere. Requires: trial_ holds its logit.
  __aicore__ inline void Keep(const Cut& cut) {
    const int32_t first = tile_ * kTile;
    Compare(cut.last_tie < first ? AscendC::CMPMODE::GT : AscendC::CMPMODE::GE);
    WeighMasked();
    if (cut.last_tie < first || cut.last_tie >= first + count_) return;
    Floats work = work_.Get<float>();
    Await<AscendC::HardEvent::V_S>();
    for (int32_t i = cut.last_tie - first + 1; i < count_; ++i) {
      if (values_.GetValue(i) == cut.logit) work.SetValue(i, 0.0F);
    }
    Await<AscendC::HardEvent::S_V>();
  }

  // sums[tile_] = the sum of a tile, as a tree; the sums of its repeats stay in sums_.
  __aicore__ inline void SumTile(const Floats& sums, const Floats& tile) {
    Floats repeats = sums_.Get<float>();
    const int32_t whole = count_ / kLanes;
    const int32_t tail = count_ % kLanes;
    if (whole > 0) AscendC::WholeReduceSum(repeats, tile, kLanes, whole, 1, 1, 8);
    if (tail > 0) {
      VectorBarrier();  // both may write the same block
      AscendC::WholeReduceSum(repeats[whole], tile[whole * kLanes], tail, 1, 1, 1, 8);
    }
    VectorBarrier();
    AscendC::WholeReduceSum(sums[tile_], repeats, whole + (tail > 0 ? 1 : 0), 1, 1, 1, 8);
  }

  AscendC::GlobalTensor<float> logits_;
  int32_t vocab_ = 0;
  int32_t tiles_ = 0;
  float max_ = 0.0F;
  int32_t argmax_ = 0;
  float inverse_temperature_ = 1.0F;

  bool scanning_ = true;
  float floor_ = kLowestFloat;
  int32_t next_ = 0;
  int32_t tile_ = 0;
  int32_t count_ = 0;
  Floats values_;

  AscendC::TQue<AscendC::TPosition::VECIN, 2> in_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> ones_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> trial_;   // the logit to compare with
  AscendC::TBuf<AscendC::TPosition::VECCALC> chosen_;  // ones where the mask has some
  AscendC::TBuf<AscendC::TPosition::VECCALC> work_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> mask_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> sums_;    // of a tile's repeats
  AscendC::TBuf<AscendC::TPosition::VECCALC> few_;     // a block for single numbers
  AscendC::TBuf<AscendC::TPosition::VECCALC> maxima_;  // of each tile: the logit, its place
  AscendC::TBuf<AscendC::TPosition::VECCALC> masses_;  // of each tile
  AscendC::TBuf<AscendC::TPosition::VECCALC> counts_;  // of each tile
};

}  // namespace weft_ascend
