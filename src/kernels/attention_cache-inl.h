// How the SIMD tables lay out KV blocks, and how they read and write them. Included once for each
// target; see kernels/simd.h.
//
// A block holds for each KV head a key tile [head_dim][64 positions] and a value tile [64
// positions][padded dims]: lanes are keys while scores are made and dimensions while values are
// summed, so that no lane ever adds to another and a row's sums run over head_dim and over keys in
// ascending order however many rows are worked on. Q8_0 has the scales of keys and of values
// [2][64] behind them. BF16 keeps neighbours of the reduction in pairs, [head_dim / 2][64][2] and
// [32][padded dims][2]: one half of a 32-bit lane each, as a dot product of bf16 pairs wants them.

#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "kernels/elements-inl.h"
#include "kernels/kernel_table.h"
#include "kernels/tails-inl.h"

#if defined(WEFT_ATTENTION_CACHE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_ATTENTION_CACHE_INL_H
#undef WEFT_ATTENTION_CACHE_INL_H
#else
#define WEFT_ATTENTION_CACHE_INL_H
#endif

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using I32 = hn::RebindToSigned<F32>;
using V = hn::Vec<F32>;
constexpr F32 kTag;
constexpr int kLanes = hn::MaxLanes(F32());
constexpr int kKeys = kBlockPositions;  // of a tile
static_assert(kKeys % kLanes == 0);

// Values have whole vectors on every target, zero beyond head_dim.
constexpr int padded_dims(int head_dim) { return (head_dim + 15) / 16 * 16; }

// One KV head's part of a block.
struct HeadLayout {
  int64_t element_bytes;
  int64_t values;  // offset of the value tile; the key tile is at 0
  int64_t scales;  // offset of the scales, the size of all before them
  int64_t bytes;

  explicit HeadLayout(const KvLayout& layout) {
    const bool q8 = layout.type == KvType::kQ8_0;
    element_bytes = q8 ? 1 : layout.type == KvType::kF32 ? 4 : 2;
    values = element_bytes * layout.head_dim * kKeys;
    scales = values + element_bytes * padded_dims(layout.head_dim) * kKeys;
    bytes = scales + (q8 ? 2 * kKeys * static_cast<int64_t>(sizeof(float)) : 0);
  }
};

// --- Reading: a tile [outer, width] as elements, exactly ---
// Each line read fetches the one `ahead` bytes further into the cache, which belongs to the next
// tile.

constexpr int kLine = 64;  // bytes

// Where kernels read a tile: elements, or halves as the cache holds them, which are elements once
// they are in a register.
struct ElementTile {
  const uint32_t* at;

  HWY_INLINE ElementTile from(int i) const { return {at + i}; }
  HWY_INLINE Elements load(int v) const { return load_elements(at + v * kLanes); }
};

#if !WEFT_BF16_DOTS
struct HalfTile {
  const hwy::float16_t* at;
  ptrdiff_t ahead;

  HWY_INLINE HalfTile from(int i) const { return {at + i, ahead}; }
  HWY_INLINE Elements load(int v) const {
    const hwy::float16_t* p = at + v * kLanes;
    if (v * kLanes % (kLine / 2) == 0) {
      __builtin_prefetch(reinterpret_cast<const std::byte*>(p) + ahead, 0, 2);
    }
    return hn::PromoteTo(kTag, hn::Load(hn::Rebind<hwy::float16_t, F32>(), p));
  }
};
#endif

HWY_INLINE void read_f16(const std::byte* tile, int64_t elements, ptrdiff_t ahead, float* to) {
  const hn::Rebind<hwy::float16_t, F32> half;
  const auto* from = reinterpret_cast<const hwy::float16_t*>(tile);
  constexpr int kStep = kLine / 2;
  for (int64_t line = 0; line < elements; line += kStep) {
    hwy::Prefetch(tile + line * 2 + ahead);
    for (int64_t i = line; i < line + kStep; i += kLanes) {
      hn::Store(hn::PromoteTo(kTag, hn::Load(half, from + i)), kTag, to + i);
    }
  }
}

HWY_INLINE void read_bf16(const std::byte* tile, int outer, int width, ptrdiff_t ahead, float* to) {
  const auto* pairs = reinterpret_cast<const uint32_t*>(tile);
  constexpr int kStep = kLine / 4;
  for (int o = 0; o < outer; o += 2, pairs += width, to += 2 * width) {
    for (int line = 0; line < width; line += kStep) {
      hwy::Prefetch(reinterpret_cast<const std::byte*>(pairs + line) + ahead);
      for (int i = line; i < line + kStep; i += kLanes) {
        const auto pair = hn::Load(U32(), pairs + i);
        const auto second = hn::And(pair, hn::Set(U32(), 0xFFFF0000U));
        hn::Store(hn::BitCast(kTag, hn::ShiftLeft<16>(pair)), kTag, to + i);
        hn::Store(hn::BitCast(kTag, second), kTag, to + width + i);
      }
    }
  }
}

// Without the scales, which are the positions': they go to the scores and to the keys' weights.
HWY_INLINE void read_q8(const std::byte* tile, int64_t elements, ptrdiff_t ahead, float* to) {
  const hn::Rebind<int8_t, F32> byte;
  const auto* from = reinterpret_cast<const int8_t*>(tile);
  for (int64_t line = 0; line < elements; line += kLine) {
    hwy::Prefetch(tile + line + ahead);
    for (int64_t i = line; i < line + kLine; i += kLanes) {
      const auto integers = hn::PromoteTo(I32(), hn::Load(byte, from + i));
      hn::Store(hn::ConvertTo(kTag, integers), kTag, to + i);
    }
  }
}

// The elements of a tile: the tile itself if it holds them, else a copy in `memory` [outer, width].
HWY_INLINE const uint32_t* read_tile(KvType type, const std::byte* tile, int outer, int width,
                                     ptrdiff_t ahead, float* memory) {
  const int64_t elements = int64_t{outer} * width;
#if WEFT_BF16_DOTS
  WEFT_CHECK(type == KvType::kBF16 && memory != nullptr);
  for (int64_t line = 0; line < 2 * elements; line += kLine) hwy::Prefetch(tile + line + ahead);
  return reinterpret_cast<const uint32_t*>(tile);
#else
  switch (type) {
    case KvType::kF32:
      return reinterpret_cast<const uint32_t*>(tile);
    case KvType::kF16:
      read_f16(tile, elements, ahead, memory);
      break;
    case KvType::kBF16:
      read_bf16(tile, outer, width, ahead, memory);
      break;
    case KvType::kQ8_0:
      read_q8(tile, elements, ahead, memory);
      break;
  }
  return reinterpret_cast<const uint32_t*>(memory);
#endif
}

// --- Writing ---

// Both to the nearest, ties to even.
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, F32>> to_f16(V v) {
  const hn::Rebind<hwy::float16_t, F32> half;
  return hn::BitCast(hn::Rebind<uint16_t, F32>(), hn::DemoteTo(half, v));
}

HWY_INLINE hn::Vec<hn::Rebind<uint16_t, F32>> to_bf16(V v) {
  const auto high = hn::BitCast(I32(), hn::ShiftRight<16>(bf16_in_upper_half(v)));
  return hn::DemoteTo(hn::Rebind<uint16_t, F32>(), high);
}

struct Q8Scale {
  float scale;  // NaN if a value is not finite
  float inverse;
};

HWY_INLINE Q8Scale q8_scale(const float* x, int head_dim) {
  V magnitude = hn::Zero(kTag);
  V finite = hn::Zero(kTag);  // NaN once a value was infinite or NaN
  for (int i = 0; i < head_dim; i += kLanes) {
    const V v = load_first(kTag, x + i, std::min(kLanes, head_dim - i));
    magnitude = hn::Max(magnitude, hn::Abs(v));
    finite = hn::MulAdd(v, hn::Zero(kTag), finite);
  }
  const float largest = hn::GetLane(hn::MaxOfLanes(kTag, magnitude));
  const float not_finite = hn::GetLane(hn::SumOfLanes(kTag, finite));
  if (largest < 1e-30F) return {not_finite, 0};  // its inverse would not be a number
  return {largest / 127 + not_finite, 127 / largest};
}

// The stored form of up to kLanes values, as elements of that size.
template <KvType kType, class T>
HWY_INLINE void encode(V v, float inverse, T* out) {
  if constexpr (kType == KvType::kF32) {
    hn::Store(v, kTag, out);
  } else if constexpr (kType == KvType::kF16) {
    hn::Store(to_f16(v), hn::Rebind<uint16_t, F32>(), out);
  } else if constexpr (kType == KvType::kBF16) {
    hn::Store(to_bf16(v), hn::Rebind<uint16_t, F32>(), out);
  } else {
    const auto rounded = hn::NearestInt(hn::Mul(v, hn::Set(kTag, inverse)));
    const hn::Rebind<int8_t, F32> byte;
    hn::Store(hn::DemoteTo(byte, rounded), byte, out);
  }
}

// Writes x [head_dim] where element i belongs at out[place(i)]; with `padding` zeros up to
// padded_dims.
template <KvType kType, class T, class Place>
HWY_INLINE void scatter(const float* x, int head_dim, int end, float inverse, T* out, Place place) {
  for (int i = 0; i < end; i += kLanes) {
    const int n = std::clamp(head_dim - i, 0, kLanes);
    HWY_ALIGN T elements[kLanes];
    encode<kType>(load_first(kTag, x + (n > 0 ? i : 0), n), inverse, elements);
    for (int j = 0; j < std::min(kLanes, end - i); ++j) out[place(i + j)] = elements[j];
  }
}

template <KvType kType, class T>
void store_head(const HeadLayout& at, int head_dim, std::byte* head, int offset, const float* k,
                const float* v) {
  constexpr bool kPairs = kType == KvType::kBF16;
  const int padded = padded_dims(head_dim);
  Q8Scale key{};
  Q8Scale value{};
  if constexpr (kType == KvType::kQ8_0) {
    auto* scales = reinterpret_cast<float*>(head + at.scales);
    key = q8_scale(k, head_dim);
    value = q8_scale(v, head_dim);
    scales[offset] = key.scale;
    scales[kKeys + offset] = value.scale;
  }
  scatter<kType>(k, head_dim, head_dim, key.inverse, reinterpret_cast<T*>(head), [&](int i) {
    return kPairs ? ((i / 2) * kKeys + offset) * 2 + i % 2 : i * kKeys + offset;
  });
  T* values = reinterpret_cast<T*>(head + at.values);
  if constexpr (kPairs) {
    scatter<kType>(v, head_dim, padded, value.inverse, values,
                   [&](int i) { return ((offset / 2) * padded + i) * 2 + offset % 2; });
  } else {
    for (int i = 0; i < padded; i += kLanes) {
      const int n = std::clamp(head_dim - i, 0, kLanes);
      encode<kType>(load_first(kTag, v + (n > 0 ? i : 0), n), value.inverse,
                    values + offset * padded + i);
    }
  }
}

int64_t kv_block_bytes(const KvLayout& layout) {
  return HeadLayout(layout).bytes * layout.kv_heads;
}

void store_kv(const KvLayout& layout, std::byte* block, int offset, const float* k,
              const float* v) {
  const HeadLayout at(layout);
  for (int head = 0; head < layout.kv_heads; ++head) {
    const int d = layout.head_dim;
    switch (layout.type) {
      case KvType::kF32:
        store_head<KvType::kF32, float>(at, d, block, offset, k, v);
        break;
      case KvType::kF16:
        store_head<KvType::kF16, uint16_t>(at, d, block, offset, k, v);
        break;
      case KvType::kBF16:
        store_head<KvType::kBF16, uint16_t>(at, d, block, offset, k, v);
        break;
      case KvType::kQ8_0:
        store_head<KvType::kQ8_0, int8_t>(at, d, block, offset, k, v);
        break;
    }
    block += at.bytes;
    k += d;
    v += d;
  }
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET
#endif  // include guard
