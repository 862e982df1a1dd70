// The arithmetic of attention on one tile of keys, in blocks of up to kBlockRows rows (a row here
// is one query head at one position) that stay in registers. Included once for each target; see
// kernels/simd.h.
//
// What a row computes does not depend on the other rows of its block: every score is one chain of
// products of elements over head_dim, every output one over the keys that the row sees, in
// ascending order. Pairs of bf16 halve the chains; then queries and the keys' weights are rounded
// to bf16.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/attention_cache-inl.h"
#include "kernels/elements-inl.h"
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
  const uint32_t* q;  // elements [rows, head_dim], scaled so that scores are exponents of 2
  float* scores;  // [rows, kKeys]: scores, then at each row's begin what the keys weigh, elements
  float* max;     // [rows], running
  float* sums;    // [rows, kLanes], running
  float* acc;     // [rows, padded dims], running
  float* correction;  // [rows]: factors of the running sums before this tile is added
  const int* seen;    // [rows]: keys of the tile that the row sees, 1 ... kKeys, ascending

  const uint32_t* weights() const { return reinterpret_cast<const uint32_t*>(scores); }
};

// Scores of kVectors vectors of keys. keys: a tile [head_dim, kKeys], from the first of these keys
// on; so are the scores.
template <int kRows, int kVectors, class Tile>
HWY_INLINE void make_scores(Tile keys, int head_dim, const uint32_t* q, float* scores) {
  const int elements = head_dim / kElementInputs;
  V score[kRows][kVectors];
  WEFT_UNROLL for (int r = 0; r < kRows; ++r) {
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) score[r][v] = hn::Zero(kTag);
  }
  for (int i = 0; i < elements; ++i, keys.at += kKeys) {
    Elements k[kVectors];
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) k[v] = keys.load(v);
    WEFT_UNROLL for (int r = 0; r < kRows; ++r) {
      const Elements one_q = broadcast_element(q + r * elements + i);
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) score[r][v] =
          add_product(score[r][v], one_q, k[v]);
    }
  }
  WEFT_UNROLL for (int r = 0; r < kRows; ++r) {
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) {
      hn::Store(score[r][v], kTag, scores + r * kKeys + v * kLanes);
    }
  }
}

// The scores of all keys that the last row sees, and of some more.
template <int kRows, class Tile>
HWY_NOINLINE void score_block(Tile keys, int head_dim, const BlockRows& rows) {
  constexpr int kVectors = std::min(block_vectors(kRows), kKeys / kLanes);
  const int end = rows.seen[kRows - 1];
  int key = 0;
  while (key < end) {
    const int vectors = (end - key + kLanes - 1) / kLanes;
    const auto take = [&](auto constant) {
      make_scores<kRows, constant()>(keys.from(key), head_dim, rows.q, rows.scores + key);
      key += constant() * kLanes;
    };
    if (vectors > kVectors / 2) {
      take(std::integral_constant<int, kVectors>());
    } else if (vectors > kVectors / 4) {
      take(std::integral_constant<int, kVectors / 2>());
    } else {
      take(std::integral_constant<int, std::max(kVectors / 4, 1)>());
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

HWY_INLINE V max_of(const float* values) {
  V max = hn::Load(kTag, values);
  for (int i = kLanes; i < kKeys; i += kLanes) max = hn::Max(max, hn::Load(kTag, values + i));
  return hn::MaxOfLanes(kTag, max);
}

HWY_INLINE void multiply(float* values, const float* factors) {
  for (int i = 0; i < kKeys; i += kLanes) {
    hn::Store(hn::Mul(hn::Load(kTag, values + i), hn::Load(kTag, factors + i)), kTag, values + i);
  }
}

// Stores a vector of keys' weights, those from `key` on, as elements and returns what was stored. A
// pair takes less room than the two scores that were there, so none is lost before it is read.
HWY_INLINE V store_weights(V weight, int key, float* row) {
#if WEFT_BF16_DOTS
  const auto rounded = bf16_in_upper_half(weight);
  const auto high = hn::BitCast(I32(), hn::ShiftRight<16>(rounded));
  const hn::Rebind<uint16_t, F32> half;
  hn::Store(hn::DemoteTo(half, high), half, reinterpret_cast<uint16_t*>(row) + key);
  return hn::BitCast(kTag, hn::And(rounded, hn::Set(U32(), 0xFFFF0000U)));
#else
  hn::Store(weight, kTag, row + key);
  return weight;
#endif
}

// Turns the scores of `count` rows into the keys' weights and moves maximum and sums on. `scales`:
// [2, kKeys] of keys and of values, or null. `correction` has room for whole vectors.
HWY_NOINLINE void softmax(int count, const float* scales, const BlockRows& rows) {
  for (int r = 0; r < count; ++r) {
    float* scores = rows.scores + r * kKeys;
    if (scales != nullptr) multiply(scores, scales);
    if (rows.seen[r] < kKeys) mask_scores(scores, rows.seen[r]);
    const float max = std::max(rows.max[r], hn::GetLane(max_of(scores)));
    rows.correction[r] = rows.max[r] - max;
    rows.max[r] = max;
  }
  for (int r = 0; r < count; r += kLanes) {
    const V exponents = hn::Load(kTag, rows.correction + r);
    hn::Store(exp2_nonpositive(kTag, exponents), kTag, rows.correction + r);
  }
  for (int r = 0; r < count; ++r) {
    float* scores = rows.scores + r * kKeys;
    const V max = hn::Set(kTag, rows.max[r]);
    V sum = hn::Mul(hn::Load(kTag, rows.sums + r * kLanes), hn::Set(kTag, rows.correction[r]));
    for (int key = 0; key < kKeys; key += kLanes) {
      const V weight = exp2_nonpositive(kTag, hn::Sub(hn::Load(kTag, scores + key), max));
      sum = hn::Add(sum, store_weights(weight, key, scores));
    }
    hn::Store(sum, kTag, rows.sums + r * kLanes);
    if (scales != nullptr) multiply(scores, scales + kKeys);
  }
}

// Adds elements [begin, end) of the values, as the rows weigh them, to kVectors vectors of the
// rows' accumulators after multiplying these by `correction` [rows]. values: a tile [kKeys,
// width], from the first of the dimensions on.
template <int kRows, int kVectors, class Tile>
HWY_INLINE void add_values(Tile values, int width, float* acc, const uint32_t* weights,
                           const float* correction, int begin, int end) {
  V sum[kRows][kVectors];
  WEFT_UNROLL for (int r = 0; r < kRows; ++r) {
    const V factor = hn::Set(kTag, correction[r]);
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = hn::Mul(hn::Load(kTag, acc + r * width + v * kLanes), factor);
    }
  }
  values.at += begin * width;
  for (int i = begin; i < end; ++i, values.at += width) {
    Elements value[kVectors];
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) value[v] = values.load(v);
    WEFT_UNROLL for (int r = 0; r < kRows; ++r) {
      const Elements weight = broadcast_element(weights + r * kKeys + i);
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] =
          add_product(sum[r][v], weight, value[v]);
    }
  }
  WEFT_UNROLL for (int r = 0; r < kRows; ++r) {
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v)
        hn::Store(sum[r][v], kTag, acc + r * width + v * kLanes);
  }
}

#if WEFT_BF16_DOTS
// Adds the first key of the pair at `values` to one row's accumulators.
template <int kVectors>
HWY_INLINE void add_half_pair(const uint32_t* values, float* acc, const uint32_t* weight) {
  for (int v = 0; v < kVectors; ++v) {
    const auto first = hn::And(load_elements(values + v * kLanes), hn::Set(U32(), 0xFFFFU));
    const V sum = hn::Load(kTag, acc + v * kLanes);
    hn::Store(add_product(sum, broadcast_element(weight), first), kTag, acc + v * kLanes);
  }
}
#endif

// The same for all keys that the rows see. One that a row does not see is not read for it: what
// lies there may be anything.
template <int kRows, int kVectors, class Tile>
HWY_NOINLINE void value_block(Tile values, int width, float* acc, const BlockRows& rows) {
  constexpr float kNoCorrection = 1;
  const int all_see = rows.seen[0] / kElementInputs;
  add_values<kRows, kVectors>(values, width, acc, rows.weights(), rows.correction, 0, all_see);
  if (rows.seen[0] == kKeys) return;
  for (int r = 0; r < kRows; ++r) {
    const uint32_t* weights = rows.weights() + r * kKeys;
    const int end = rows.seen[r] / kElementInputs;
    if (end > all_see) {
      add_values<1, kVectors>(values, width, acc + r * width, weights, &kNoCorrection, all_see,
                              end);
    }
#if WEFT_BF16_DOTS
    if (rows.seen[r] % 2 != 0) {
      add_half_pair<kVectors>(values.at + end * width, acc + r * width, weights + end);
    }
#endif
  }
}

template <int kRows, class Tile>
void value_blocks(Tile values, int width, const BlockRows& rows) {
  constexpr int kWidest = std::min(block_vectors(kRows), 4);
  int dim = 0;
  const auto take = [&](auto vectors) {
    value_block<kRows, vectors()>(values.from(dim), width, rows.acc + dim, rows);
    dim += vectors() * kLanes;
  };
  for (int pieces = (width / kLanes + kWidest - 1) / kWidest; pieces > 0; --pieces) {
    switch ((width - dim) / kLanes / pieces) {  // rounded down: the later pieces are the larger
      case 1:
        take(std::integral_constant<int, 1>());
        break;
      case 2:
        take(std::integral_constant<int, 2>());
        break;
      case 3:
        take(std::integral_constant<int, std::min(kWidest, 3)>());
        break;
      default:
        take(std::integral_constant<int, kWidest>());
        break;
    }
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
