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
  const int64_t tiles = std::max<int64_t>(rows / tiling.most, 1);
  TileGroup group;
  group.begin = begin;
  group.end = std::min(begin + tiles, tiling.count());
  group.row_begin = tiling.tile(begin).row_begin;
  const TileRange last = tiling.tile(group.end - 1);
  group.rows = last.row_begin + last.rows - group.row_begin;
  return group;
}

// Writes the sums [rows][kPanelOutputs] of one panel.
void write_panel(const float* sums, const TileGroup& group, const PackedMatrix& matrix,
                 int64_t panel, const MatmulOutput& out) {
  const int64_t first = panel * kPanelOutputs;
  const int64_t count = std::min<int64_t>(kPanelOutputs, matrix.outputs - first);
  for (int64_t r = 0; r < group.rows; ++r, sums += kPanelOutputs) {
    float* to = out.out + (group.row_begin + r) * out.stride + first;
    for (int64_t o = 0; o < count; ++o) {
      float value = sums[o];
      if (out.bias != nullptr) value += out.bias[first + o];
      to[o] = out.accumulate ? to[o] + value : value;
    }
  }
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET

#endif  // WEFT_PANEL_SUMS_INL_H
