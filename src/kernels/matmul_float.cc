// Matrix multiplication with float weights: in fused multiply-adds of floats for every target, and
// in dot products of bf16 pairs (BF16 and F16 weights) in the variants that have them; see
// kernels/simd.h.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul_float.cc"
#include "kernels/simd.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

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

// Elements multiplied at a time: the weights, with a tile's activations and sums, stay in L1.
constexpr int64_t kChunkElements = 128;
// Panels that share one pass over activations too long for L2.
constexpr int64_t kBatchPanels = 8;

// Vectors of outputs beside each other in a kernel of `rows` rows.
constexpr int vectors_of(int rows) {
  if (HWY_TARGET == HWY_AVX2) return rows <= 2 ? 4 : 2;
  return HWY_TARGET == HWY_NEON ? 4 : 2;
}

// Adds to sums [kRows][kPanelOutputs], columns of the reader's outputs, the product over `elements`
// elements, a multiple of the reader's step. activations: [elements][kRows]. For each row and
// output one chain of additions in ascending order, whatever kRows and the kind of reader.
template <class Reader, int kRows>
HWY_INLINE void multiply_elements(Reader reader, int64_t elements, Ahead ahead,
                                  const uint32_t* HWY_RESTRICT activations,
                                  float* HWY_RESTRICT sums) {
  constexpr int kVectors = Reader::kVectors;
  F32 kept[kRows][kVectors];
  load_sums<kRows, kVectors>(sums, kept);
  for (int64_t k = 0; k < elements; k += Reader::kElements) {
    ahead.fetch<Reader::kBytes>();
    unroll<Reader::kElements>([&](auto step) WEFT_INLINE_LAMBDA {
      Elements w[kVectors];
      WEFT_UNROLL for (int v = 0; v < kVectors; ++v) w[v] = reader.template weights<step>(v);
      WEFT_UNROLL for (int r = 0; r < kRows; ++r) {
        const Elements a = broadcast_element(activations + r);
        WEFT_UNROLL for (int v = 0; v < kVectors; ++v) kept[r][v] =
            add_product(kept[r][v], w[v], a);
      }
      activations += kRows;
    });
    reader.next();
  }
  store_sums<kRows, kVectors>(kept, sums);
}

using FloatKernel = void (*)(const std::byte* weights, int64_t elements, Ahead ahead,
                             const uint32_t* activations, float* sums);

template <class Reader, int kRows>
void float_kernel(const std::byte* weights, int64_t elements, Ahead ahead,
                  const uint32_t* activations, float* sums) {
  for (int first = 0; first < kPanelOutputs; first += Reader::kVectors * kLanes) {
    multiply_elements<Reader, kRows>({weights, first}, elements, first == 0 ? ahead : Ahead(),
                                     activations, sums + first);
  }
}

// Kernels for tiles of 1 ... sizeof...(I) rows; the place of 0 rows stays empty.
template <template <int> class ReaderOf, int... I>
constexpr std::array<FloatKernel, sizeof...(I) + 1> kernels_of(std::integer_sequence<int, I...>) {
  return {nullptr, float_kernel<ReaderOf<vectors_of(I + 1)>, I + 1>...};
}
template <template <int> class ReaderOf>
constexpr auto kFloatKernels =
    kernels_of<ReaderOf>(std::make_integer_sequence<int, kFloatTileRows>());

// The rows of one group, as the tiles of their matrix multiplication hold them.
struct GroupRows {
  const Tiling& tiling;
  TileGroup group;
  const uint32_t* activations = nullptr;  // of all rows
  int64_t row_elements = 0;

  const uint32_t* at(TileRange tile, int64_t element) const {
    return activations + tile.row_begin * row_elements + element * tile.rows;
  }
};

// Adds elements [begin, end) of a panel's products to sums [group rows][kPanelOutputs].
template <template <int> class ReaderOf>
void multiply_run(const std::byte* panel, int64_t begin, int64_t end, const GroupRows& rows,
                  float* sums) {
  using Packed = ReaderOf<1>;
  constexpr int64_t kStep = Packed::kElements;
  const int64_t tiles = rows.group.end - rows.group.begin;
  const bool expands = !std::is_same_v<Packed, ExpandedReader<1>> && tiles > 1;
  const auto& kernels = expands ? kFloatKernels<ExpandedReader> : kFloatKernels<ReaderOf>;
  HWY_ALIGN std::byte expanded[kChunkElements * kPanelOutputs * sizeof(uint32_t)];
  for (int64_t i = begin; i < end; i += kChunkElements) {
    const int64_t count = (std::min(kChunkElements, end - i) + kStep - 1) / kStep * kStep;
    const std::byte* weights = panel + i / kStep * Packed::kBytes;
    // One tile reads a stream from memory; several share what they fetch of the next chunk.
    const std::byte* next =
        weights + (tiles == 1 ? kPrefetchBytes : count / kStep * Packed::kBytes);
    const int64_t share = (count / kStep + tiles - 1) / tiles * Packed::kBytes;
    if (expands) {
      expand_floats<ReaderOf>(weights, count, expanded);
      weights = expanded;
    }
    for (int64_t t = rows.group.begin; t < rows.group.end; ++t, next += share) {
      const TileRange tile = rows.tiling.tile(t);
      kernels[static_cast<size_t>(tile.rows)](
          weights, count, {next, next + share}, rows.at(tile, i),
          sums + (tile.row_begin - rows.group.row_begin) * kPanelOutputs);
    }
  }
}

void multiply_run(const PackedMatrix& matrix, int64_t panel, int64_t begin, int64_t end,
                  const GroupRows& rows, float* sums) {
  const std::byte* data = matrix.data + panel * panel_bytes(matrix.type, matrix.inputs);
#if !WEFT_BF16_DOTS
  if (matrix.type == DType::kF32) return multiply_run<F32Reader>(data, begin, end, rows, sums);
#endif
  if (matrix.type == DType::kF16) return multiply_run<F16Reader>(data, begin, end, rows, sums);
  return multiply_run<BF16Reader>(data, begin, end, rows, sums);
}

// Panels of all rows of a group. Rows too long for the cache are taken in runs of elements, each
// for a batch of panels.
void multiply_group(const PackedMatrix& matrix, const GroupRows& rows, int64_t panel_begin,
                    int64_t panel_end, const MatmulOutput& out) {
  constexpr int64_t kSums = int64_t{kGroupRows} * kPanelOutputs;
  HWY_ALIGN float sums[kBatchPanels * kSums];
  const int64_t fitting = kGroupBytes / static_cast<int64_t>(sizeof(uint32_t)) / rows.group.rows;
  const int64_t run = std::max<int64_t>(fitting / kChunkElements, 1) * kChunkElements;
  const int64_t batch = run >= rows.row_elements ? 1 : kBatchPanels;
  const int64_t elements = (matrix.inputs + kElementInputs - 1) / kElementInputs;
  for (int64_t first = panel_begin; first < panel_end; first += batch) {
    const int64_t panels = std::min(batch, panel_end - first);
    for (int64_t p = 0; p < panels; ++p) {
      std::fill_n(sums + p * kSums, rows.group.rows * kPanelOutputs, 0.0F);
    }
    for (int64_t begin = 0; begin < elements; begin += run) {
      const int64_t end = std::min(begin + run, elements);
      for (int64_t p = 0; p < panels; ++p) {
        multiply_run(matrix, first + p, begin, end, rows, sums + p * kSums);
      }
    }
    for (int64_t p = 0; p < panels; ++p) {
      write_panel(sums + p * kSums, rows.group.row_begin, rows.group.rows, matrix, first + p, out);
    }
  }
}

void multiply_rows(const PackedMatrix& matrix, const std::byte* activations, int64_t rows,
                   int64_t panel_begin, int64_t panel_end, const MatmulOutput& out) {
  const Tiling tiling = {rows, kFloatTileRows};
  const int64_t row_elements = (matrix.inputs + 1) / 2 * 2 / kElementInputs;
  for (int64_t tile = 0; tile < tiling.count();) {
    const TileGroup group = group_from(tiling, tile, kGroupBytes / kGroupRows);
    multiply_group(matrix,
                   {tiling, group, reinterpret_cast<const uint32_t*>(activations), row_elements},
                   panel_begin, panel_end, out);
    tile = group.end;
  }
}

#if WEFT_BF16_DOTS

KernelTable base;  // for all other types

ActivationFormat activation_format(DType type) {
  return type == DType::kF16 || type == DType::kBF16 ? ActivationFormat::kBF16
                                                     : base.activation_format(type);
}

void matmul(const PackedMatrix& matrix, const std::byte* activations, int64_t rows,
            int64_t panel_begin, int64_t panel_end, const MatmulOutput& out) {
  const bool pairs = activation_format(matrix.type) == ActivationFormat::kBF16;
  (pairs ? multiply_rows : base.matmul)(matrix, activations, rows, panel_begin, panel_end, out);
}

#endif

}  // namespace

#if WEFT_BF16_DOTS

void WEFT_FILL(matmul)(KernelTable& table) {
  base = table;
  table.activation_format = activation_format;
  table.matmul = matmul;
}

#else

void multiply_float_panels(const PackedMatrix& matrix, const std::byte* activations, int64_t rows,
                           int64_t panel_begin, int64_t panel_end, const MatmulOutput& out) {
  multiply_rows(matrix, activations, rows, panel_begin, panel_end, out);
}

#endif

}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET
