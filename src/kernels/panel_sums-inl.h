// The sums of some rows and one panel's outputs, [rows][kPanelOutputs] floats: which rows have
// theirs open at once, and where they go when complete. Included once for each target; see
// kernels/simd.h.

#if defined(WEFT_PANEL_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_PANEL_SUMS_INL_H
#undef WEFT_PANEL_SUMS_INL_H
#else
#define WEFT_PANEL_SUMS_INL_H
#endif

#include <algorithm>

#include "kernels/activations.h"
#include "kernels/kernel_table.h"
#include "kernels/panel.h"
#include "kernels/simd.h"
#include "kernels/vectors-inl.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {

// Rows whose sums are open at once, and the bytes of activations they may take of the L2 cache.
constexpr int kGroupRows = 72;
constexpr int64_t kGroupBytes = 1 << 20;

template <int kRows, int kVectors>
HWY_INLINE void load_sums(const float* from, F32 (&sums)[kRows][kVectors]) {
  WEFT_UNROLL for (int r = 0; r < kRows; ++r) {
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = hn::Load(F32Tag(), from + r * kPanelOutputs + v * kLanes);
    }
  }
}
template <int kRows, int kVectors>
HWY_INLINE void store_sums(const F32 (&sums)[kRows][kVectors], float* to) {
  WEFT_UNROLL for (int r = 0; r < kRows; ++r) {
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) {
      hn::Store(sums[r][v], F32Tag(), to + r * kPanelOutputs + v * kLanes);
    }
  }
}

// Tiles [begin, end) whose sums are open at once.
struct TileGroup {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t row_begin = 0;
  int64_t rows = 0;
};

TileGroup group_from(const Tiling& tiling, int64_t begin, int64_t row_bytes) {
  const int64_t rows = std::min<int64_t>(kGroupRows, kGroupBytes / std::max<int64_t>(row_bytes, 1));
  const int64_t tiles = std::max<int64_t>(rows / tiling.most(), 1);
  TileGroup group;
  group.begin = begin;
  group.end = std::min(begin + tiles, tiling.count());
  group.row_begin = tiling.tile(begin).row_begin;
  const TileRange last = tiling.tile(group.end - 1);
  group.rows = last.row_begin + last.rows - group.row_begin;
  return group;
}

// Writes sums [rows][kPanelOutputs] of one panel, the first of row `row_begin`.
void write_panel(const float* sums, int64_t row_begin, int64_t rows, const PackedMatrix& matrix,
                 int64_t panel, const MatmulOutput& out) {
  const F32Tag d;
  const int64_t first = panel * kPanelOutputs;
  const int64_t count = std::min<int64_t>(kPanelOutputs, matrix.outputs - first);
  const float* bias = out.bias == nullptr ? nullptr : out.bias + first;
  for (int64_t r = 0; r < rows; ++r, sums += kPanelOutputs) {
    float* to = out.out + (row_begin + r) * out.stride + first;
    int64_t o = 0;
    for (; o + kLanes <= count; o += kLanes) {
      F32 value = hn::Load(d, sums + o);
      if (bias != nullptr) value = hn::Add(value, hn::LoadU(d, bias + o));
      if (out.accumulate) value = hn::Add(hn::LoadU(d, to + o), value);
      hn::StoreU(value, d, to + o);
    }
    for (; o < count; ++o) {
      const float value = bias == nullptr ? sums[o] : sums[o] + bias[o];
      to[o] = out.accumulate ? to[o] + value : value;
    }
  }
}

// Asks for the places of these rows before they are written.
HWY_INLINE void fetch_output(int64_t row_begin, int64_t rows, int64_t panel,
                             const MatmulOutput& out) {
  for (int64_t r = row_begin; r < row_begin + rows; ++r) {
    const float* to = out.out + r * out.stride + panel * kPanelOutputs;
    __builtin_prefetch(to, 1, 2);
    __builtin_prefetch(to + kPanelOutputs / 2, 1, 2);
  }
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET

#endif  // WEFT_PANEL_SUMS_INL_H
