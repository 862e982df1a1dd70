// Attention as the formula says, in double: the oracle of the SIMD tables. A block holds
// [kv_heads][keys, values] [kBlockPositions] vectors of one head.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/ref/kv_values.h"

namespace weft::ref {
namespace {

int64_t vector_offset(const KvLayout& layout, int kv_head, int which, int offset) {
  const int64_t index = (int64_t{kv_head} * 2 + which) * kBlockPositions + offset;
  return index * kv_values_bytes(layout.type, layout.head_dim);
}

int64_t kv_block_bytes(const KvLayout& layout) {
  const int64_t bytes = vector_offset(layout, layout.kv_heads, 0, 0);
  return (bytes + 63) / 64 * 64;
}

void store_kv(const KvLayout& layout, std::byte* block, int offset, const float* k,
              const float* v) {
  for (int head = 0; head < layout.kv_heads; ++head) {
    const int64_t from = int64_t{head} * layout.head_dim;
    encode_kv_values(layout.type, layout.head_dim, k + from,
                     block + vector_offset(layout, head, 0, offset));
    encode_kv_values(layout.type, layout.head_dim, v + from,
                     block + vector_offset(layout, head, 1, offset));
  }
}

// which: 0 the key, 1 the value.
void load(const AttentionArgs& args, int kv_head, int which, int position, float* values) {
  const std::byte* block =
      args.kv.base + args.blocks[position / kBlockPositions] * args.kv.block_stride;
  decode_kv_values(args.layout.type, args.layout.head_dim,
                   block + vector_offset(args.layout, kv_head, which, position % kBlockPositions),
                   values);
}

// One query head over keys [begin, end): partial = maximum, sum, accumulator.
void attend(const AttentionArgs& args, int kv_head, const float* q, int begin, int end,
            float* partial) {
  const int head_dim = args.layout.head_dim;
  std::vector<float> values(head_dim);
  std::vector<double> scores;
  double max = -std::numeric_limits<double>::infinity();
  for (int position = begin; position < end; ++position) {
    load(args, kv_head, 0, position, values.data());
    double score = 0;
    for (int i = 0; i < head_dim; ++i) score += static_cast<double>(q[i]) * values[i];
    scores.push_back(score * args.scale);
    max = std::max(max, scores.back());
  }
  max = static_cast<float>(max);  // as the partial carries it
  double sum = 0;
  std::vector<double> accumulator(head_dim, 0.0);
  for (int position = begin; position < end; ++position) {
    load(args, kv_head, 1, position, values.data());
    const double p = std::exp(scores[position - begin] - max);
    sum += p;
    for (int i = 0; i < head_dim; ++i) accumulator[i] += p * values[i];
  }
  partial[0] = static_cast<float>(max);
  partial[1] = static_cast<float>(sum);
  for (int i = 0; i < head_dim; ++i) partial[2 + i] = static_cast<float>(accumulator[i]);
}

void attention_segment(const AttentionArgs& args, int kv_head, int row, int segment, float* partial,
                       std::byte* /*scratch*/) {
  const int head_dim = args.layout.head_dim;
  const int group = args.heads / args.layout.kv_heads;
  const int begin = segment * kSegmentKeys;
  const int end = std::min(begin + kSegmentKeys, args.first_position + row + 1);
  for (int g = 0; g < group; ++g) {
    const float* q = args.q + row * args.q_stride + int64_t{kv_head * group + g} * head_dim;
    attend(args, kv_head, q, begin, end, partial + int64_t{g} * (2 + head_dim));
  }
}

void attention_merge(const AttentionArgs& args, int kv_head, int row, int segments,
                     const float* partials) {
  const int head_dim = args.layout.head_dim;
  const int group = args.heads / args.layout.kv_heads;
  const int64_t stride = int64_t{group} * (2 + head_dim);
  for (int g = 0; g < group; ++g) {
    const float* first = partials + int64_t{g} * (2 + head_dim);
    float max = first[0];
    for (int s = 1; s < segments; ++s) max = std::max(max, first[s * stride]);
    double sum = 0;
    std::vector<double> accumulator(head_dim, 0.0);
    for (int s = 0; s < segments; ++s) {
      const float* partial = first + s * stride;
      const double weight = std::exp(static_cast<double>(partial[0]) - max);
      sum += weight * partial[1];
      for (int i = 0; i < head_dim; ++i) accumulator[i] += weight * partial[2 + i];
    }
    float* out = args.out + row * args.out_stride + int64_t{kv_head * group + g} * head_dim;
    for (int i = 0; i < head_dim; ++i) out[i] = static_cast<float>(accumulator[i] / sum);
  }
}

void attention_tile(const AttentionArgs& args, int kv_head, int row_begin, int row_end,
                    std::byte* scratch) {
  const int group = args.heads / args.layout.kv_heads;
  const int64_t stride = int64_t{group} * (2 + args.layout.head_dim);
  for (int row = row_begin; row < row_end; ++row) {
    const int segments = (args.first_position + row) / kSegmentKeys + 1;
    std::vector<float> partials(segments * stride);
    for (int s = 0; s < segments; ++s) {
      attention_segment(args, kv_head, row, s, partials.data() + s * stride, scratch);
    }
    attention_merge(args, kv_head, row, segments, partials.data());
  }
}

int64_t attention_scratch(const KvLayout& /*layout*/, int /*heads*/) { return 0; }

}  // namespace

void fill_attention(KernelTable& table) {
  table.kv_block_bytes = kv_block_bytes;
  table.store_kv = store_kv;
  table.attention_tile_rows = 1;
  table.attention_scratch = attention_scratch;
  table.attention_tile = attention_tile;
  table.attention_segment = attention_segment;
  table.attention_merge = attention_merge;
}

}  // namespace weft::ref
