// Matrix multiplication of the SIMD tables: rows are packed into tiles (activations.h), weights
// into panels (panel.h); here the two are blocked for the caches and joined by the kernels of
// tiles-inl.h.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul.cc"
#include "kernels/simd.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/activations-inl.h"
#include "kernels/activations.h"
#include "kernels/kernel_table.h"
#include "kernels/matmul_float-inl.h"
#include "kernels/panel.h"
#include "kernels/panel_sums-inl.h"
#include "kernels/tiles-inl.h"
#include "kernels/weights-inl.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {

// Most rows of a tile, by the registers there are. With byte dot products on AVX-512, seven rows
// keep all sums in registers, which many tiles need; of one or two tiles eight rows are faster,
// since they read the weights once less.
constexpr int kQ8TileRows = HWY_TARGET == HWY_AVX3_DL ? 7
                            : HWY_TARGET == HWY_AVX2  ? 8
                            : HWY_TARGET == HWY_NEON  ? 4
                                                      : 12;
constexpr int kQ8FewRows = HWY_TARGET == HWY_AVX3_DL ? 8 : kQ8TileRows;
// Up to so many rows the weights are taken apart in registers; more than that share an expanded
// copy in L1.
constexpr int kDirectRows = HWY_TARGET == HWY_AVX3_DL ? 8 : 4;
// Two tiles of rows do so too where a copy would cost more than taking them apart twice.
constexpr bool kTwoDirectTiles = HWY_TARGET == HWY_AVX3_DL;
// Inputs expanded at a time: with the sums of a tile they stay in L1.
constexpr int kChunkBlocks = 8;

// Vectors of outputs beside each other in a kernel of `rows` rows. AVX2 has registers for one
// vector of many rows, or for the weights of several.
constexpr int vectors_of(int rows) {
  if (HWY_TARGET == HWY_AVX2) return rows <= 2 ? 4 : 1;
  return HWY_TARGET == HWY_NEON ? 4 : 2;
}

using Q8Kernel = void (*)(const std::byte* weights, int64_t supers, const Q8Cursor& at,
                          float* sums);

template <class Reader, int kRows>
void q8_kernel(const std::byte* weights, int64_t supers, const Q8Cursor& at, float* sums) {
  for (int first = 0; first < kPanelOutputs; first += Reader::kVectors * kLanes) {
    multiply_q8<Reader, kRows>(Reader(weights, first), supers, at, sums + first);
  }
}

// Kernels for tiles of 1 ... sizeof...(I) rows; the place of 0 rows stays empty.
template <template <int> class ReaderOf, int... I>
constexpr std::array<Q8Kernel, sizeof...(I) + 1> q8_kernels(std::integer_sequence<int, I...>) {
  return {nullptr, q8_kernel<ReaderOf<vectors_of(I + 1)>, I + 1>...};
}

template <DType kType>
struct QuantizedKernels {
  template <int kVectors>
  using Packed = PackedReader<kType, kVectors>;
  // Of two tiles each fetches half of the lines.
  template <int kVectors>
  using Half = PackedReader<kType, kVectors, 2>;
  template <int kVectors>
  using Expanded = ExpandedReaderOf<kType, kVectors>;
  static constexpr auto kPacked =
      q8_kernels<Packed>(std::make_integer_sequence<int, std::min(kDirectRows, kQ8FewRows)>());
  static constexpr auto kHalf =
      q8_kernels<Half>(std::make_integer_sequence<int, kTwoDirectTiles ? kDirectRows : 0>());
  static constexpr auto kExpanded =
      q8_kernels<Expanded>(std::make_integer_sequence<int, kQ8FewRows>());
};

// One panel of a matrix and where its products go.
struct PanelTask {
  const PackedMatrix& matrix;
  int64_t panel;
  const MatmulOutput& out;

  const std::byte* weights() const {
    return matrix.data + panel * panel_bytes(matrix.type, matrix.inputs);
  }
  int64_t blocks() const { return matrix.inputs / kBlockInputs; }
};

// A single tile of few rows reads the panel as it is.
template <DType kType>
void multiply_directly(const PanelTask& task, const Q8Tile& tile, int64_t row_begin, float* sums) {
  using Type = Quantized<kType>;
  constexpr int64_t kBlockBytes = Type::kLayout.super_bytes() / Type::kLayout.blocks;
  Q8Cursor at(tile, 0, Type::kOffset, Type::kGroups);
  at.ahead = {task.weights() + kPrefetchBytes, kBlockBytes};
  QuantizedKernels<kType>::kPacked[static_cast<size_t>(tile.rows)](
      task.weights(), task.blocks() / Type::kLayout.blocks, at, sums);
  write_panel(sums, row_begin, tile.rows, task.matrix, task.panel, task.out);
}

// Several tiles share each chunk of the panel, expanded once if kExpand, and fetch an equal part
// each of what comes kPrefetchBytes later.
template <DType kType, bool kExpand>
void multiply_chunks(const PanelTask& task, const Tiling& tiling, const TileGroup& group,
                     std::byte* activations, float* sums) {
  using Type = Quantized<kType>;
  using Kernels = QuantizedKernels<kType>;
  const Q8Kernel* kernels = kExpand ? Kernels::kExpanded.data() : Kernels::kHalf.data();
  constexpr int64_t kSuperBlocks = Type::kLayout.blocks;
  constexpr int64_t kSuperBytes = Type::kLayout.super_bytes();
  constexpr int64_t kChunkBytes = kChunkBlocks / kSuperBlocks * kSuperBytes;
  const int64_t blocks = task.blocks();
  const int64_t share = kChunkBytes / (group.end - group.begin);
  HWY_ALIGN std::byte expanded[kExpand ? kChunkBlocks * kMaxExpandedBlockBytes : 1];
  for (int64_t block = 0; block < blocks; block += kChunkBlocks) {
    const int64_t count = std::min<int64_t>(kChunkBlocks, blocks - block);
    const std::byte* chunk = task.weights() + block / kSuperBlocks * kSuperBytes;
    if constexpr (kExpand) expand<kType>(chunk, count / kSuperBlocks, expanded);
    for (int64_t t = group.begin; t < group.end; ++t) {
      const TileRange range = tiling.tile(t);
      if (block == 0) fetch_output(range.row_begin, range.rows, task.panel, task.out);
      Q8Cursor at(Q8Tile(activations, range, blocks), block, Type::kOffset, Type::kGroups);
      at.ahead = {chunk + kChunkBytes + kPrefetchBytes + (t - group.begin) * share,
                  share / kChunkBlocks};
      float* tile_sums = sums + (range.row_begin - group.row_begin) * kPanelOutputs;
      if constexpr (kExpand) {
        kernels[range.rows](expanded, count, at, tile_sums);
      } else {
        kernels[range.rows](chunk, count / kSuperBlocks, at, tile_sums);
      }
      // At once, so that the next tile's arithmetic hides the writing.
      if (block + count == blocks) {
        write_panel(tile_sums, range.row_begin, range.rows, task.matrix, task.panel, task.out);
      }
    }
  }
}

void multiply_panel(const PanelTask& task, const Tiling& tiling, const TileGroup& group,
                    std::byte* activations, float* sums) {
  const auto q8 = [&]<DType kType>(std::integral_constant<DType, kType>) {
    if (group.rows <= kDirectRows && group.end == group.begin + 1) {
      const Q8Tile tile(activations, tiling.tile(group.begin), task.blocks());
      multiply_directly<kType>(task, tile, group.row_begin, sums);
    } else if (kTwoDirectTiles && group.rows <= 2 * kDirectRows && group.end == group.begin + 2) {
      multiply_chunks<kType, false>(task, tiling, group, activations, sums);
    } else {
      multiply_chunks<kType, true>(task, tiling, group, activations, sums);
    }
  };
#define WEFT_Q8_CASE(type) \
  case type:               \
    return q8(std::integral_constant<DType, type>())
  switch (task.matrix.type) {
    WEFT_Q8_CASE(DType::kQ4_0);
    WEFT_Q8_CASE(DType::kQ4_1);
    WEFT_Q8_CASE(DType::kQ5_0);
    WEFT_Q8_CASE(DType::kQ5_1);
    WEFT_Q8_CASE(DType::kQ8_0);
    WEFT_Q8_CASE(DType::kQ2_K);
    WEFT_Q8_CASE(DType::kQ3_K);
    WEFT_Q8_CASE(DType::kQ4_K);
    WEFT_Q8_CASE(DType::kQ5_K);
    WEFT_Q8_CASE(DType::kQ6_K);
    WEFT_Q8_CASE(DType::kIQ4_NL);
    WEFT_Q8_CASE(DType::kIQ4_XS);
    WEFT_Q8_CASE(DType::kMXFP4);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
#undef WEFT_Q8_CASE
}

ActivationFormat activation_format(DType type) {
  return is_quantized(type) ? ActivationFormat::kQ8 : ActivationFormat::kF32;
}

Tiling tiling_of(ActivationFormat format, int64_t rows) {
  if (format != ActivationFormat::kQ8) return {rows, kFloatTileRows};
  return {rows, rows <= 2 * kQ8FewRows ? kQ8FewRows : kQ8TileRows};
}

int64_t activation_pieces(ActivationFormat format, int64_t rows) {
  return tiling_of(format, rows).count();
}

void pack_activations(ActivationFormat format, const RowSource& source, int64_t rows,
                      int64_t inputs, int64_t piece_begin, int64_t piece_end, std::byte* packed) {
  const Tiling tiling = tiling_of(format, rows);
  for (int64_t t = piece_begin; t < piece_end; ++t) {
    pack_tile(format, source, tiling.tile(t), inputs, packed);
  }
}

void matmul(const PackedMatrix& matrix, const std::byte* activations, int64_t rows,
            int64_t panel_begin, int64_t panel_end, const MatmulOutput& out) {
  if (rows == 0) return;
  if (!is_quantized(matrix.type)) {
    return multiply_float_panels(matrix, activations, rows, panel_begin, panel_end, out);
  }
  const Tiling tiling = tiling_of(ActivationFormat::kQ8, rows);
  // Of the starts and sums that a row keeps for all types, one kind is read.
  const int64_t row_bytes =
      packed_activation_bytes(ActivationFormat::kQ8, 1, matrix.inputs) * 3 / 5;
  HWY_ALIGN float sums[kGroupRows * kPanelOutputs];
  for (int64_t tile = 0; tile < tiling.count();) {
    const TileGroup group = group_from(tiling, tile, row_bytes);
    for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
      std::memset(sums, 0, static_cast<size_t>(group.rows) * kPanelOutputs * sizeof(float));
      const PanelTask task{matrix, panel, out};
      multiply_panel(task, tiling, group, const_cast<std::byte*>(activations), sums);
    }
    tile = group.end;
  }
}

void unpack_row(const PackedMatrix& matrix, int64_t row, float* out) {
  unpack_panel_row(matrix.type, matrix.data, matrix.inputs, row, out);
}

}  // namespace

void WEFT_FILL(matmul)(KernelTable& table) {
  table.panel_outputs = kPanelOutputs;
  table.packed_bytes = packed_panels_bytes;
  table.pack = pack_panels;
  table.unpack_row = unpack_row;
  table.activation_format = activation_format;
  table.activation_bytes = packed_activation_bytes;
  table.activation_pieces = activation_pieces;
  table.pack_activations = pack_activations;
  table.matmul = matmul;
}

}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET
