// The arithmetic of attention on one tile of keys, in blocks of up to kBlockRows rows (a row here
// is one query head at one position) that stay in registers. Included once for each target; see
// kernels/simd.h.
//
// What a row computes does not depend on the other rows of its block: every score is one chain of
// fused multiply-adds over head_dim, every output one over the keys that the row sees, in ascending
// order.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/attention_cache-inl.h"
#include "kernels/exp-inl.h"

#if defined(WEFT_ATTENTION_BLOCK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_ATTENTION_BLOCK_INL_H
#undef WEFT_ATTENTION_BLOCK_INL_H
#else
#define WEFT_ATTENTION_BLOCK_INL_H
#endif

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kBlockRows = 6;

// Vectors of outputs a row in a block of `rows`: as many accumulators as the registers hold beside
// the operands.
constexpr int block_vectors(int rows) {
  constexpr int kAccumulators = HWY_TARGET == HWY_AVX2 ? 12 : 24;
  return rows == 1 ? 8 : rows <= 3 ? (kAccumulators == 24 ? 8 : 4) : kAccumulators / kBlockRows;
}

// Rows of one block, at their places in the arrays of all rows.
struct BlockRows {
  const float* q;  // [rows, head_dim], scaled so that scores are exponents of 2
  float* scores;   // [rows, kKeys]: scores, then what the keys weigh
  float* max;      // [rows], running
  float* sums;     // [rows, kLanes], running
  float* acc;      // [rows, padded dims], running
  float*
      correction;   // [rows]: what the running sums are multiplied by before this tile's are added
  const int* seen;  // [rows]: keys of the tile that the row sees, 1 ... kKeys, ascending
};

template <int kRows, KvType kType>
HWY_INLINE void score_block(const Elements<kType>& keys, int head_dim, const BlockRows& rows) {
  constexpr int kVectors = std::min(block_vectors(kRows), kKeys / kLanes);
  for (int key = 0; key < kKeys; key += kVectors * kLanes) {
    V score[kRows][kVectors];
    for (auto& row : score) {
      for (V& v : row) v = hn::Zero(kTag);
    }
    const auto add_dim = [&](int dim, int parity) {
      V k[kVectors];
      for (int v = 0; v < kVectors; ++v) k[v] = keys.load(dim + parity, key + v * kLanes);
      for (int r = 0; r < kRows; ++r) {
        const V q = hn::Set(kTag, rows.q[r * head_dim + dim + parity]);
        for (int v = 0; v < kVectors; ++v) score[r][v] = hn::MulAdd(q, k[v], score[r][v]);
      }
    };
    for (int dim = 0; dim < head_dim; dim += 2) {
      add_dim(dim, 0);
      add_dim(dim, 1);
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        hn::Store(score[r][v], kTag, rows.scores + r * kKeys + key + v * kLanes);
      }
    }
  }
}

// Scores of the row, those of keys it does not see at minus infinity.
HWY_INLINE void mask_scores(float* scores, int seen) {
  const V nothing = hn::Set(kTag, -std::numeric_limits<float>::infinity());
  for (int key = seen / kLanes * kLanes; key < kKeys; key += kLanes) {
    const auto unseen = hn::Ge(hn::Iota(kTag, static_cast<float>(key)), hn::Set(kTag, seen));
    hn::Store(hn::IfThenElse(unseen, nothing, hn::Load(kTag, scores + key)), kTag, scores + key);
  }
}

// Turns scores into the keys' weights and moves maximum and sums on. `scales`: of keys, then of
// values, or null.
template <bool kScaled>
HWY_INLINE void softmax_block(int count, const float* scales, const BlockRows& rows) {
  HWY_ALIGN float before[std::max(kBlockRows, kLanes)] = {};
  for (int r = 0; r < count; ++r) {
    float* scores = rows.scores + r * kKeys;
    if (kScaled) {
      for (int key = 0; key < kKeys; key += kLanes) {
        hn::Store(hn::Mul(hn::Load(kTag, scores + key), hn::Load(kTag, scales + key)), kTag,
                  scores + key);
      }
    }
    if (rows.seen[r] < kKeys) mask_scores(scores, rows.seen[r]);
    V max = hn::Load(kTag, scores);
    for (int key = kLanes; key < kKeys; key += kLanes)
      max = hn::Max(max, hn::Load(kTag, scores + key));
    before[r] = rows.max[r];
    rows.max[r] = std::max(before[r], hn::GetLane(hn::MaxOfLanes(kTag, max)));
    before[r] -= rows.max[r];
  }
  for (int r = 0; r < count; r += kLanes) {
    HWY_ALIGN float corrections[kLanes];
    hn::Store(exp2_nonpositive(kTag, hn::Load(kTag, before + r)), kTag, corrections);
    for (int i = r; i < std::min(count, r + kLanes); ++i) rows.correction[i] = corrections[i - r];
  }
  for (int r = 0; r < count; ++r) {
    float* scores = rows.scores + r * kKeys;
    const V max = hn::Set(kTag, rows.max[r]);
    V sum = hn::Mul(hn::Load(kTag, rows.sums + r * kLanes), hn::Set(kTag, rows.correction[r]));
    for (int key = 0; key < kKeys; key += kLanes) {
      V weight = exp2_nonpositive(kTag, hn::Sub(hn::Load(kTag, scores + key), max));
      sum = hn::Add(sum, weight);
      if (kScaled) weight = hn::Mul(weight, hn::Load(kTag, scales + kKeys + key));
      hn::Store(weight, kTag, scores + key);
    }
    hn::Store(sum, kTag, rows.sums + r * kLanes);
  }
}

// Adds the weighted values to kVectors vectors of the accumulators, from dimension `dim` on. A key
// that a row does not see is not read for it: what lies there may be anything.
template <int kRows, int kVectors, KvType kType>
HWY_INLINE void value_block(const Elements<kType>& values, int dim, const BlockRows& rows) {
  V acc[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    const V correction = hn::Set(kTag, rows.correction[r]);
    for (int v = 0; v < kVectors; ++v) {
      const V before = hn::Load(kTag, rows.acc + r * values.width + dim + v * kLanes);
      acc[r][v] = hn::Mul(before, correction);
    }
  }
  const auto add_key = [&](int key, int parity) {
    V value[kVectors];
    for (int v = 0; v < kVectors; ++v) value[v] = values.load(key + parity, dim + v * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const V weight = hn::Set(kTag, rows.scores[r * kKeys + key + parity]);
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(weight, value[v], acc[r][v]);
    }
  };
  const int all_see = rows.seen[0];
  int key = 0;
  for (; key + 2 <= all_see; key += 2) {
    add_key(key, 0);
    add_key(key, 1);
  }
  if (key < all_see) add_key(key, 0);
  for (int r = 0; r < kRows; ++r) {
    for (key = all_see; key < rows.seen[r]; ++key) {
      const V weight = hn::Set(kTag, rows.scores[r * kKeys + key]);
      for (int v = 0; v < kVectors; ++v) {
        acc[r][v] = hn::MulAdd(weight, values.load(key, dim + v * kLanes), acc[r][v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(acc[r][v], kTag, rows.acc + r * values.width + dim + v * kLanes);
    }
  }
}

template <int kRows, KvType kType>
void value_blocks(const Elements<kType>& values, const BlockRows& rows) {
  constexpr int kMost = block_vectors(kRows);
  const int vectors = values.width / kLanes;
  int dim = 0;
  if (kMost == 8 && vectors % 8 == 0) {
    for (; dim < values.width; dim += 8 * kLanes) value_block<kRows, 8>(values, dim, rows);
    return;
  }
  constexpr int kWidest = std::min(kMost, 4);
  for (int pieces = (vectors + kWidest - 1) / kWidest; pieces > 0; --pieces) {
    const int take =
        (values.width - dim) / kLanes / pieces;  // rounded down: the later ones are the larger
    if constexpr (kWidest == 4) {
      if (take == 4) value_block<kRows, 4>(values, dim, rows);
      if (take == 3) value_block<kRows, 3>(values, dim, rows);
    }
    if (take == 2) value_block<kRows, 2>(values, dim, rows);
    if (take == 1) value_block<kRows, 1>(values, dim, rows);
    dim += take * kLanes;
  }
}

// Calls f with `count` as a constant.
template <class F>
HWY_INLINE void with_rows(int count, F f) {
  static_assert(kBlockRows == 6);
  switch (count) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 3:
      return f(std::integral_constant<int, 3>());
    case 4:
      return f(std::integral_constant<int, 4>());
    case 5:
      return f(std::integral_constant<int, 5>());
    default:
      return f(std::integral_constant<int, 6>());
  }
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET
#endif  // include guard
