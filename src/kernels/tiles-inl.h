// The kernels of the matrix multiplication: one tile of rows by some vectors of outputs, over a run
// of inputs.

#if defined(WEFT_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILES_INL_H
#undef WEFT_TILES_INL_H
#else
#define WEFT_TILES_INL_H
#endif

#include "kernels/panel_sums-inl.h"
#include "kernels/weights-inl.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {

// Registers that the accumulators of a tile may take.
constexpr int kAccumulators = HWY_TARGET == HWY_AVX2 ? 8 : HWY_TARGET == HWY_AVX3_DL ? 28 : 24;

// Weights to fetch from memory while a kernel runs. The core's own prefetcher follows every page as
// a stream of its own and only so far, so lines are asked for in four pages in turn: that keeps as
// many of them under way as it takes to hide the memory behind the arithmetic.
struct Ahead {
  const std::byte* at = nullptr;
  int64_t step = 0;  // bytes for each block

  // Where the lines of a block begin: of four pages, lines 4 i + p are lines i of page p.
  HWY_INLINE const std::byte* lines() const {
    const auto place = reinterpret_cast<uintptr_t>(at) & 0x3FFF;
    const auto turned = place >> 2 & 0xFC0;
    return at - place + turned;
  }
  // The n-th line of a block.
  template <int n>
  static HWY_INLINE void fetch(const std::byte* lines) {
    __builtin_prefetch(lines + n % 4 * 4096 + n / 4 * 64, 0, 2);
  }
};

// A tile's activations from some block on; see kernels/activations.h.
struct Q8Cursor {
  const std::byte* body = nullptr;
  const int32_t* starts = nullptr;  // of the kind that the weights' offset needs
  const float* sums = nullptr;
  Ahead ahead;

  // For weights of that offset (0: the starts are not read) and so many groups in a block: both are
  // constants where this is called.
  HWY_INLINE Q8Cursor(const Q8Tile& tile, int64_t block, int offset, int groups)
      : body(tile.body + block * tile.rows * kQ8BodyBytes), starts(tile.starts()) {
    const int64_t step = block * tile.rows * groups;
    for (int64_t k = 0; k < 2 && groups == 2; ++k) {
      if (kStartOffsets16[k] == offset) starts = tile.starts16(k) + step;
    }
    for (int64_t k = 0; k < 3 && groups == 1; ++k) {
      if (kStartOffsets32[k] == offset) starts = tile.starts32(k) + step;
    }
    sums = (groups == 2 ? tile.sums16() : tile.sums32()) + step;
  }
};

// Adds to sums [kRows][kPanelOutputs], columns of the reader's outputs, the product over `supers`
// super-blocks. For each row and output the same operations in the same order, whatever kRows and
// the kind of reader.
template <class Reader, int kRows>
HWY_INLINE void multiply_q8(Reader reader, int64_t supers, Q8Cursor at, float* HWY_RESTRICT sums) {
  using Dot = Dots<Reader::kBits>;
  constexpr int kVectors = Reader::kVectors;
  constexpr int kGroups = Reader::kGroups;
  constexpr int kGroupQuads = kBlockQuads / kGroups;
  constexpr bool kKeep = 2 * kRows * kVectors <= kAccumulators;
  const F32Tag df;
  const I32Tag di;
  F32 kept[kRows][kVectors];
  if constexpr (kKeep) load_sums<kRows, kVectors>(sums, kept);
  for (int64_t s = 0; s < supers; ++s) {
    reader.enter_super();
    for (int b = 0; b < Reader::kSuperBlocks; ++b) {
      constexpr int kLines = Reader::kFetchLines;
      const std::byte* lines = at.ahead.lines();
      at.ahead.at += at.ahead.step;
      const auto* codes = reinterpret_cast<const int8_t*>(at.body);
      const auto* scales = reinterpret_cast<const float*>(at.body + kRows * 32);
      unroll<kGroups>([&](auto g) WEFT_INLINE_LAMBDA {
        typename Dot::Sum dots[kRows][kVectors];
        WEFT_UNROLL for (int r = 0; r < kRows; ++r) {
          const I32 start = hn::Set(di, Reader::kHasOffset ? at.starts[r] : kMagicBits);
          WEFT_UNROLL for (int v = 0; v < kVectors; ++v) dots[r][v] = Dot::start(start);
        }
        unroll<kGroupQuads>([&](auto j) WEFT_INLINE_LAMBDA {
          constexpr int q = g * kGroupQuads + j;
          unroll<(q + 1) * kLines / kBlockQuads - q * kLines / kBlockQuads>(
              [&](auto i)
                  WEFT_INLINE_LAMBDA { Ahead::fetch<q * kLines / kBlockQuads + i>(lines); });
          typename Dot::Weights w[kVectors];
          WEFT_UNROLL for (int v = 0; v < kVectors; ++v) w[v] =
              Dot::ready(reader.template quad<q>(v));
          WEFT_UNROLL for (int r = 0; r < kRows; ++r) {
            const U8 a = broadcast_quad(codes + r * 32 + 4 * q);
            WEFT_UNROLL for (int v = 0; v < kVectors; ++v) dots[r][v] =
                Dot::add(dots[r][v], w[v], a);
          }
        });
        WEFT_UNROLL for (int v = 0; v < kVectors; ++v) {
          // The rows' scales are read where they are used: kept for the next vector, they would
          // push sums out of the registers.
          asm volatile("" ::: "memory");
          const F32 scale = reader.scale(g, v);
          F32 minimum = scale;
          if constexpr (Reader::kHasMinimum) minimum = reader.minimum(g, v);
          WEFT_UNROLL for (int r = 0; r < kRows; ++r) {
            const I32 start = hn::Set(di, Reader::kHasOffset ? at.starts[r] : kMagicBits);
            const F32 dot = hn::BitCast(df, Dot::total(dots[r][v], start));
            const F32 scaled =
                hn::MulAdd(dot, hn::Set(df, scales[r]), hn::Set(df, scales[kRows + r]));
            float* place = sums + r * kPanelOutputs + v * kLanes;
            F32 sum = kKeep ? kept[r][v] : hn::Load(df, place);
            sum = hn::MulAdd(scaled, scale, sum);
            if constexpr (Reader::kHasMinimum)
              sum = hn::MulAdd(hn::Set(df, at.sums[r]), minimum, sum);
            if constexpr (kKeep) {
              kept[r][v] = sum;
            } else {
              hn::Store(sum, df, place);
            }
          }
        }
        at.starts += kRows;
        at.sums += kRows;
      });
      at.body += kRows * kQ8BodyBytes;
      reader.next_block();
    }
    reader.leave_super();
  }
  if constexpr (kKeep) store_sums<kRows, kVectors>(kept, sums);
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET

#endif  // WEFT_TILES_INL_H
