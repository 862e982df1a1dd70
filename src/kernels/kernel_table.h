#pragma once
// KernelTable: the arithmetic of one instruction set. A table is chosen once, by name, when the
// program starts; `ref` is scalar and the oracle for every other.
//
// Rules that hold for every function of every table:
//  - One call works on one thread, owns whole outputs and takes no lock; callers split the work and
//  join.
//  - A row's result is the same bits whatever the other rows are, however many there are and
//  however the caller
//    splits the work. SIMD lanes are outputs; a reduction runs in one order that depends on the row
//    alone.
//  - F32 weights and an F32 cache compute in float; ragged sizes take the same vector code as whole
//  ones.
//  - Buffers do not overlap unless a function says so. Float buffers are 4-byte aligned, packed
//  ones 64-byte.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/types.h"
#include "tensor/dtype.h"

namespace weft {

// A weight matrix [outputs, inputs] in the layout that one table reads; made by that table's
// pack().
struct PackedMatrix {
  DType type = DType::kF32;
  int64_t outputs = 0;
  int64_t inputs = 0;
  const std::byte* data = nullptr;
};

// What a matrix multiplication reads on its activation side.
enum class ActivationFormat : uint8_t {
  kF32,
  kQ8,    // int8 with one float scale per 32 values of a row
  kBF16,  // pairs of inputs; products are summed as floats
};

// Rows of float activations [rows, inputs] and what is done to each before it is multiplied.
struct RowSource {
  enum class Op : uint8_t {
    kPlain,    // x
    kRmsNorm,  // x / sqrt(mean(x^2) + eps) * weight
    kSwiGlu,   // silu(gate) * up, where a row of x is gate [inputs] followed by up [inputs]
  };
  Op op = Op::kPlain;
  const float* x = nullptr;       // [rows, stride]
  int64_t stride = 0;             // floats from one row to the next
  const int32_t* rows = nullptr;  // which rows of x, in this order; null: all as they lie
  const float* weight = nullptr;  // [inputs], kRmsNorm
  float eps = 0;                  // kRmsNorm

  const float* row(int64_t index) const {
    return x + (rows == nullptr ? index : int64_t{rows[index]}) * stride;
  }
};

// Where a product goes: out[r, o] = product (+ bias[o]) (+ out[r, o]).
struct MatmulOutput {
  float* out = nullptr;  // [rows, stride], the matrix's first output at column 0
  int64_t stride = 0;
  const float* bias = nullptr;  // [outputs] or null
  bool accumulate = false;
};

// --- Attention over a paged cache
// -------------------------------------------------------------------------------

enum class KvType : uint8_t { kF32, kF16, kBF16, kQ8_0 };
std::string_view kv_type_name(KvType type);  // "f16"

struct KvLayout {
  KvType type = KvType::kF16;
  int kv_heads = 0;
  int head_dim = 0;
};

// One layer's part of the KV pool. A block holds kBlockPositions positions, all KV heads, keys and
// values; its inner layout belongs to the table.
struct KvLayerView {
  std::byte* base = nullptr;  // block b begins at base + b * block_stride
  int64_t block_stride = 0;
};

// Keys of one attention segment: a row's scores are reduced segment by segment, and the segments
// are merged in ascending order, whichever core computed them.
inline constexpr int kSegmentKeys = 512;

// Consecutive rows of one sequence: row r sits at position first_position + r and sees the keys 0
// ... its own.
struct AttentionArgs {
  KvLayout layout;
  KvLayerView kv;
  const BlockId* blocks = nullptr;  // [ceil((first_position + rows) / kBlockPositions)]
  int heads = 0;                    // query heads; a multiple of layout.kv_heads
  float scale = 0;                  // on the scores: 1 / sqrt(head_dim) as a rule
  int rows = 0;
  int first_position = 0;
  const float* q = nullptr;  // [rows, q_stride], head h at h * head_dim
  int64_t q_stride = 0;
  float* out = nullptr;  // [rows, out_stride], head h at h * head_dim
  int64_t out_stride = 0;
};

// Rotation angles, precomputed: cos and sin of position p and pair i at [p * pairs + i].
struct RopeTable {
  const float* cos = nullptr;
  const float* sin = nullptr;
  int pairs = 0;             // half of the rotated dimensions; the rest of a head passes through
  bool interleaved = false;  // pairs are (2i, 2i + 1); otherwise (i, i + pairs)
};

struct KernelTable {
  // "ref", "avx2", "avx2vnni", "avx512", "avx512vnni", "avx512bf16", "neon", "neondot", "neonbf16"
  std::string_view name;

  // Matrices. Work is split over panels of `panel_outputs` outputs (the last one may be ragged).
  int panel_outputs;
  int64_t (*packed_bytes)(DType type, int64_t outputs, int64_t inputs);
  // Packs panels [panel_begin, panel_end) of `rows`, which lie as in a file, to their places in
  // `packed`.
  void (*pack)(DType type, const std::byte* rows, int64_t outputs, int64_t inputs,
               int64_t panel_begin, int64_t panel_end, std::byte* packed);
  // One row's values, from the packed form: embeddings, and tests.
  void (*unpack_row)(const PackedMatrix& matrix, int64_t row, float* out /*[inputs]*/);
  ActivationFormat (*activation_format)(DType type);
  // At most `rows` times those of one row.
  int64_t (*activation_bytes)(ActivationFormat format, int64_t rows, int64_t inputs);
  // Pieces into which packing `rows` rows may be split, and the packing of pieces [begin, end).
  int64_t (*activation_pieces)(ActivationFormat format, int64_t rows);
  void (*pack_activations)(ActivationFormat format, const RowSource& source, int64_t rows,
                           int64_t inputs, int64_t piece_begin, int64_t piece_end,
                           std::byte* packed);
  // rows x matrix^T for panels [panel_begin, panel_end). `activations`: pack_activations' whole
  // result for these rows in the format that activation_format(matrix.type) names.
  void (*matmul)(const PackedMatrix& matrix, const std::byte* activations, int64_t rows,
                 int64_t panel_begin, int64_t panel_end, const MatmulOutput& out);

  // Row-wise operations, in place, for one row.
  void (*head_norm)(float* x, int heads, int head_dim, const float* weight /*[head_dim]*/,
                    float eps);
  void (*rope)(float* x, int heads, int head_dim, int position, const RopeTable& table);

  // Cache.
  int64_t (*kv_block_bytes)(const KvLayout& layout);  // one layer of one block
  void (*store_kv)(const KvLayout& layout, std::byte* block,
                   int offset /*0 ... kBlockPositions - 1*/,
                   const float* k /*[kv_heads * head_dim]*/, const float* v);

  // Attention. tile() does rows [row_begin, row_end) of all query heads of one KV head; its result
  // for a row has the same bits as segment() over each segment of that row followed by merge().
  // scratch: attention_scratch bytes, 64-byte aligned, one for each thread.
  int attention_tile_rows;  // best multiple for row_begin
  int64_t (*attention_scratch)(const KvLayout& layout, int heads);
  void (*attention_tile)(const AttentionArgs& args, int kv_head, int row_begin, int row_end,
                         std::byte* scratch);
  // One row, keys [segment * kSegmentKeys, ...) that the row sees: for each query head of the KV
  // head the running maximum, the sum and the unscaled accumulator, as [group][2 + head_dim]
  // floats.
  void (*attention_segment)(const AttentionArgs& args, int kv_head, int row, int segment,
                            float* partial, std::byte* scratch);
  // partials: [segments][group][2 + head_dim], ascending; writes the row's output for the KV head's
  // query heads.
  void (*attention_merge)(const AttentionArgs& args, int kv_head, int row, int segments,
                          const float* partials);

  // Over a row of logits, each in one fixed order.
  float (*max_value)(const float* x, int64_t n);  // n >= 1; NaN if any value is NaN
  float (*sum_exp)(const float* x, int64_t n, float max,
                   float inv_temperature);  // sum of exp((x - max) * inv_temperature)

  // Yardsticks of the benchmarks. peak_*: repeats the fastest instruction that multiplies and adds
  // such numbers and returns the operations done, two for each product; 0 without such an
  // instruction. read_memory: reads `bytes` (a multiple of 256) from an 8-byte aligned place on,
  // fetching `ahead` bytes before their use (0: not).
  int64_t (*peak_int8)(int64_t repeats);
  int64_t (*peak_bf16)(int64_t repeats);
  int64_t (*peak_f32)(int64_t repeats);
  void (*read_memory)(const std::byte* from, int64_t bytes, int64_t ahead);
};

// Tables this program holds and this CPU can run, best first; `ref` is always the last.
std::span<const KernelTable* const> available_kernels();
// The table of that name, or the best for "auto". kUnsupported if the CPU lacks it, naming those it
// has.
Result<const KernelTable*> find_kernels(std::string_view name);

}  // namespace weft
