// Matrix multiplication with float weights (F32, F16, BF16) in fused multiply-adds of floats; the
// part of matmul.cc that needs none of its integer kernels.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_float.cc"
#include "kernels/simd.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/activations.h"
#include "kernels/float_weights-inl.h"
#include "kernels/kernel_table.h"
#include "kernels/matmul_float-inl.h"
#include "kernels/panel.h"
#include "kernels/panel_sums-inl.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {

// Inputs expanded at a time: with the sums of a tile they stay in L1.
constexpr int kChunkInputs = 128;

// Vectors of outputs beside each other in a kernel of `rows` rows.
constexpr int vectors_of(int rows) {
  if (HWY_TARGET == HWY_AVX2) return rows <= 2 ? 4 : 2;
  return HWY_TARGET == HWY_NEON ? 4 : 2;
}

// Adds to sums [kRows][kPanelOutputs], columns of the reader's outputs, the product over `inputs`
// inputs, a multiple of the reader's step. activations: [inputs][kRows].
template <class Reader, int kRows>
HWY_INLINE void multiply_f32(Reader reader, int64_t inputs, int64_t ahead,
                             const float* HWY_RESTRICT activations, float* HWY_RESTRICT sums) {
  constexpr int kVectors = Reader::kVectors;
  const F32Tag df;
  F32 kept[kRows][kVectors];
  load_sums<kRows, kVectors>(sums, kept);
  for (int64_t k = 0; k < inputs; k += Reader::kStep) {
    reader.fetch(ahead);
    unroll<Reader::kStep>([&](auto step) WEFT_INLINE_LAMBDA {
      F32 w[kVectors];
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) w[v] = reader.template weights<step>(v);
      WEFT_UNROLL for (int r = 0; r < kRows; ++r) {
        const F32 a = hn::Set(df, activations[r]);
        WEFT_UNROLL for (int v = 0; v < kVectors; ++v) kept[r][v] = hn::MulAdd(w[v], a, kept[r][v]);
      }
      activations += kRows;
    });
    reader.next();
  }
  store_sums<kRows, kVectors>(kept, sums);
}

using FloatKernel = void (*)(const std::byte* weights, int64_t inputs, int64_t ahead,
                             const float* activations, float* sums);

template <class Reader, int kRows>
void f32_kernel(const std::byte* weights, int64_t inputs, int64_t ahead, const float* activations,
                float* sums) {
  for (int first = 0; first < kPanelOutputs; first += Reader::kVectors * kLanes) {
    multiply_f32<Reader, kRows>({weights, first}, inputs, first == 0 ? ahead : 0, activations,
                                sums + first);
  }
}

// Kernels for tiles of 1 ... sizeof...(I) rows; the place of 0 rows stays empty.
template <template <int> class ReaderOf, int... I>
constexpr std::array<FloatKernel, sizeof...(I) + 1> f32_kernels(std::integer_sequence<int, I...>) {
  return {nullptr, f32_kernel<ReaderOf<vectors_of(I + 1)>, I + 1>...};
}

template <template <int> class ReaderOf, bool kIsF32>
void panel_f32(DType type, const std::byte* panel, int64_t inputs, const Tiling& tiling,
               const TileGroup& group, std::byte* activations, float* sums) {
  static constexpr auto kPacked =
      f32_kernels<ReaderOf>(std::make_integer_sequence<int, kFloatTileRows>());
  static constexpr auto kExpanded =
      f32_kernels<F32Reader>(std::make_integer_sequence<int, kFloatTileRows>());
  constexpr int kStep = ReaderOf<1>::kStep;
  const bool expands = !kIsF32 && group.rows > kFloatTileRows;
  const int64_t input_bytes = kPanelOutputs * dtype_info(type).block_bytes;
  HWY_ALIGN std::byte expanded[kChunkInputs * kPanelOutputs * sizeof(float)];
  for (int64_t i = 0; i < inputs; i += kChunkInputs) {
    const int64_t count = (std::min<int64_t>(kChunkInputs, inputs - i) + kStep - 1) / kStep * kStep;
    const std::byte* weights = panel + i * input_bytes;
    if (expands) {
      expand_floats<ReaderOf>(weights, count, expanded);
      weights = expanded;
    }
    for (int64_t t = group.begin; t < group.end; ++t) {
      const TileRange range = tiling.tile(t);
      const float* rows = f32_tile(activations, range, inputs) + i * range.rows;
      float* tile_sums = sums + (range.row_begin - group.row_begin) * kPanelOutputs;
      const int64_t ahead = expands || t > group.begin ? 0 : kPrefetchBytes;
      const auto index = static_cast<size_t>(range.rows);
      (expands ? kExpanded[index] : kPacked[index])(weights, count, ahead, rows, tile_sums);
    }
  }
}

void multiply_panel(const PackedMatrix& matrix, int64_t panel, const Tiling& tiling,
                    const TileGroup& group, std::byte* activations, float* sums) {
  const std::byte* data = matrix.data + panel * panel_bytes(matrix.type, matrix.inputs);
  switch (matrix.type) {
    case DType::kF16:
      return panel_f32<F16Reader, false>(matrix.type, data, matrix.inputs, tiling, group,
                                         activations, sums);
    case DType::kBF16:
      return panel_f32<BF16Reader, false>(matrix.type, data, matrix.inputs, tiling, group,
                                          activations, sums);
    default:
      return panel_f32<F32Reader, true>(matrix.type, data, matrix.inputs, tiling, group,
                                        activations, sums);
  }
}

}  // namespace

void multiply_float_panels(const PackedMatrix& matrix, const std::byte* activations, int64_t rows,
                           int64_t panel_begin, int64_t panel_end, const MatmulOutput& out) {
  const Tiling tiling = {rows, kFloatTileRows};
  const int64_t row_bytes = packed_activation_bytes(ActivationFormat::kF32, 1, matrix.inputs) / 2;
  HWY_ALIGN float sums[kGroupRows * kPanelOutputs];
  for (int64_t tile = 0; tile < tiling.count();) {
    const TileGroup group = group_from(tiling, tile, row_bytes);
    for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
      std::memset(sums, 0, static_cast<size_t>(group.rows) * kPanelOutputs * sizeof(float));
      multiply_panel(matrix, panel, tiling, group, const_cast<std::byte*>(activations), sums);
      write_panel(sums, group, matrix, panel, out);
    }
    tile = group.end;
  }
}

}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET
