// Attention over the paged cache, tile by tile with a running maximum. One walk serves prompts and
// generated tokens: its rows are the query heads of one KV head at consecutive positions, many
// positions or one.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cc"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/kernel_table.h"
#include "kernels/simd.h"

#include "kernels/attention_block-inl.h"
#include "kernels/attention_cache-inl.h"
#include "kernels/tails-inl.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kTilePositions = 64;          // of queries worked on at once
constexpr int kChunkRows = 8 * kBlockRows;  // whose scores stay in the first cache beside the tile
// So few rows read halves from the cache themselves; more share a copy.
constexpr int kFewRows = 2 * kBlockRows;

// The caller's scratch taken apart, or with none its size. Rows are ordered by position, then by
// query head of the group.
struct Scratch {
  uint32_t* q = nullptr;        // elements [rows, head_dim]
  float* max = nullptr;         // [rows], of the segment, as are the next two
  float* sums = nullptr;        // [rows, kLanes]
  float* acc = nullptr;         // [rows, padded dims]
  float* merged_max = nullptr;  // [rows], of the segments before
  float* merged_sum = nullptr;  // [rows]
  float* scores = nullptr;      // [kChunkRows, kKeys]
  float* correction = nullptr;  // [kChunkRows]
  int* seen = nullptr;          // [kChunkRows]
  float* tiles[2] = {};         // [padded dims, kKeys]: what is not stored as floats, read
  int64_t bytes = 0;

  Scratch(std::byte* memory, const KvLayout& layout, int group) {
    const int64_t rows = int64_t{kTilePositions} * group;
    const int padded = padded_dims(layout.head_dim);
    int64_t at = 0;
    const auto take = [&]<class T>(T*& part, int64_t elements) {
      if (memory != nullptr) part = reinterpret_cast<T*>(memory + at);
      at += (elements * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    };
    take(q, rows * layout.head_dim);
    take(max, rows);
    take(sums, rows * kLanes);
    take(acc, rows * padded);
    take(merged_max, rows);
    take(merged_sum, rows);
    take(scores, int64_t{kChunkRows} * kKeys);
    take(correction, kChunkRows);
    take(seen, kChunkRows);
    for (float*& tile : tiles) take(tile, int64_t{padded} * kKeys);
    bytes = at;
  }
};

// The first n values of v to places i ... of an array of elements.
HWY_INLINE void store_query(V v, uint32_t* elements, int i, int n) {
#if WEFT_BF16_DOTS
  const hn::Rebind<uint16_t, F32> half;
  HWY_ALIGN uint16_t rounded[kLanes];
  hn::Store(to_bf16(v), half, rounded);
  std::memcpy(reinterpret_cast<uint16_t*>(elements) + i, rounded,
              static_cast<size_t>(n) * sizeof(uint16_t));
#else
  store_first(v, kTag, reinterpret_cast<float*>(elements) + i, n);
#endif
}

// The rows of one call: query heads of one KV head at positions `first` ... `first + rows / group -
// 1`.
struct Walk {
  const AttentionArgs& args;
  int kv_head;
  int group;
  int rows;
  int first;
  int end;  // of the keys it reads
  HeadLayout at;
  Scratch scratch;

  Walk(const AttentionArgs& a, int kv_head_index, int row_begin, int row_end, std::byte* memory)
      : args(a),
        kv_head(kv_head_index),
        group(a.heads / a.layout.kv_heads),
        rows((row_end - row_begin) * group),
        first(a.first_position + row_begin),
        end(a.first_position + row_end),
        at(a.layout),
        scratch(memory, a.layout, group) {
    const int head_dim = args.layout.head_dim;
    const V scale = hn::Set(kTag, args.scale * kLog2E);
    uint32_t* q = scratch.q;
    for (int row = row_begin; row < row_end; ++row) {
      const float* from = args.q + row * args.q_stride + int64_t{kv_head} * group * head_dim;
      const int width = group * head_dim;
      for (int i = 0; i < width; i += kLanes) {
        const int n = std::min(kLanes, width - i);
        store_query(hn::Mul(load_first(kTag, from + i, n), scale), q, i, n);
      }
      q += width / kElementInputs;
    }
  }

  // What the cache holds of the head in the block of position `key`.
  const std::byte* tile(int key) const {
    return args.kv.base + args.blocks[key / kKeys] * args.kv.block_stride + kv_head * at.bytes;
  }
};

// Splits `count` rows into blocks of nearly the same size and calls f(first, rows) for each.
template <class F>
HWY_INLINE void each_block(int count, F f) {
  int begin = 0;
  for (int blocks = (count + kBlockRows - 1) / kBlockRows; blocks > 0; --blocks) {
    const int n = (count - begin) / blocks;
    f(begin, n);
    begin += n;
  }
}

// How many of the keys [key, key + kKeys) rows [row, row + count) see.
void count_seen(const Walk& walk, int key, int row, int count) {
  int position = walk.first + row / walk.group;
  int heads_left = walk.group - row % walk.group;
  for (int r = 0; r < count; ++r) {
    walk.scratch.seen[r] = std::min(kKeys, position + 1 - key);
    if (--heads_left == 0) {
      heads_left = walk.group;
      ++position;
    }
  }
}

// Rows from `first` on at their places in the scratch, their scores at the begin of its chunk.
BlockRows rows_at(const Walk& walk, int first, int of_chunk) {
  const Scratch& s = walk.scratch;
  const int64_t row = int64_t{first} + of_chunk;
  const int head_dim = walk.args.layout.head_dim;
  return {s.q + row * (head_dim / kElementInputs),
          s.scores + of_chunk * kKeys,
          s.max + row,
          s.sums + row * kLanes,
          s.acc + row * padded_dims(head_dim),
          s.correction + of_chunk,
          s.seen + of_chunk};
}

// The keys' weights of the rows [chunk, chunk + count), at most kChunkRows.
template <class Tile>
void weigh_keys(const Walk& walk, Tile keys, const float* scales, int key, int chunk, int count) {
  count_seen(walk, key, chunk, count);
  each_block(count, [&](int r, int n) {
    with_rows(n, [&](auto rows) {
      score_block<rows()>(keys, walk.args.layout.head_dim, rows_at(walk, chunk, r));
    });
  });
  softmax(count, scales, rows_at(walk, chunk, 0));
}

template <class Tile>
void sum_values(const Walk& walk, Tile values, int chunk, int count) {
  const int padded = padded_dims(walk.args.layout.head_dim);
  each_block(count, [&](int r, int n) {
    with_rows(n, [&](auto rows) { value_blocks<rows()>(values, padded, rows_at(walk, chunk, r)); });
  });
}

// The tile of keys [key, key + kKeys), for all rows that see any of them.
void attend_tile(const Walk& walk, int key) {
  const KvLayout& layout = walk.args.layout;
  const Scratch& s = walk.scratch;
  const int padded = padded_dims(layout.head_dim);
  const std::byte* head = walk.tile(key);
  const ptrdiff_t to_next = walk.tile(std::min(key + kKeys, walk.end - 1)) - head;
  const int first = std::max(0, key - walk.first) * walk.group;
#if !WEFT_BF16_DOTS
  if (layout.type == KvType::kF16 && walk.rows <= kFewRows) {
    const auto* halves = reinterpret_cast<const hwy::float16_t*>(head);
    weigh_keys(walk, HalfTile{halves, to_next}, nullptr, key, first, walk.rows - first);
    sum_values(walk, HalfTile{halves + walk.at.values / 2, to_next}, first, walk.rows - first);
    return;
  }
#endif
  const auto* scales = layout.type == KvType::kQ8_0
                           ? reinterpret_cast<const float*>(head + walk.at.scales)
                           : nullptr;
  const uint32_t* keys = read_tile(layout.type, head, layout.head_dim, kKeys, to_next, s.tiles[0]);
  const uint32_t* values = nullptr;
  for (int chunk = first; chunk < walk.rows; chunk += kChunkRows) {
    const int count = std::min(kChunkRows, walk.rows - chunk);
    weigh_keys(walk, ElementTile{keys}, scales, key, chunk, count);
    if (values == nullptr) {  // if no more scores are to be made, in the keys' place
      float* place = s.tiles[chunk + count < walk.rows ? 1 : 0];
      values = read_tile(layout.type, head + walk.at.values, kKeys, padded, to_next, place);
    }
    sum_values(walk, ElementTile{values}, chunk, count);
  }
}

void attend_segment(const Walk& walk, int segment) {
  const Scratch& s = walk.scratch;
  std::fill_n(s.max, walk.rows, -std::numeric_limits<float>::infinity());
  std::fill_n(s.sums, walk.rows * kLanes, 0.0F);
  std::fill_n(s.acc, walk.rows * padded_dims(walk.args.layout.head_dim), 0.0F);
  const int end = std::min((segment + 1) * kSegmentKeys, walk.end);
  for (int key = segment * kSegmentKeys; key < end; key += kKeys) {
    attend_tile(walk, key);
  }
}

// What a row knows after one or more segments.
struct Running {
  float max;
  float sum;
};

// Adds a segment to those before it, of which there are none if `first`. acc, segment_acc:
// [head_dim].
void add_segment(bool first, Running& running, float* acc, Running segment,
                 const float* segment_acc, int head_dim) {
  HWY_ALIGN float factors[std::max(2, kLanes)] = {0, 1};
  if (first) {
    running = segment;
  } else {
    const float max = std::max(running.max, segment.max);
    factors[0] = running.max - max;
    factors[1] = segment.max - max;
    hn::Store(exp2_nonpositive(kTag, hn::Load(kTag, factors)), kTag, factors);
    running = {max, running.sum * factors[0] + segment.sum * factors[1]};
  }
  for (int i = 0; i < head_dim; i += kLanes) {
    const int n = std::min(kLanes, head_dim - i);
    V v = hn::Mul(load_first(kTag, segment_acc + i, n), hn::Set(kTag, factors[1]));
    if (!first) v = hn::MulAdd(load_first(kTag, acc + i, n), hn::Set(kTag, factors[0]), v);
    store_first(v, kTag, acc + i, n);
  }
}

void divide(float* acc, float sum, int head_dim) {
  for (int i = 0; i < head_dim; i += kLanes) {
    const int n = std::min(kLanes, head_dim - i);
    store_first(hn::Div(load_first(kTag, acc + i, n), hn::Set(kTag, sum)), kTag, acc + i, n);
  }
}

float sum_of(const float* lanes) {
  return hn::GetLane(hn::SumOfLanes(kTag, hn::Load(kTag, lanes)));
}

float* output(const AttentionArgs& args, int kv_head, int row, int head_of_group) {
  const int group = args.heads / args.layout.kv_heads;
  return args.out + row * args.out_stride +
         (int64_t{kv_head} * group + head_of_group) * args.layout.head_dim;
}

void attend_positions(const AttentionArgs& args, int kv_head, int row_begin, int row_end,
                      std::byte* memory) {
  const Walk walk(args, kv_head, row_begin, row_end, memory);
  const Scratch& s = walk.scratch;
  const int head_dim = args.layout.head_dim;
  const int segments = (walk.end - 1) / kSegmentKeys + 1;
  const auto out = [&](int row) {
    return output(args, kv_head, row_begin + row / walk.group, row % walk.group);
  };
  for (int segment = 0; segment < segments; ++segment) {
    attend_segment(walk, segment);
    const int skipped = std::max(0, segment * kSegmentKeys - walk.first) * walk.group;
    for (int row = skipped; row < walk.rows; ++row) {
      Running running = {s.merged_max[row], s.merged_sum[row]};
      add_segment(segment == 0, running, out(row), {s.max[row], sum_of(s.sums + row * kLanes)},
                  s.acc + int64_t{row} * padded_dims(head_dim), head_dim);
      s.merged_max[row] = running.max;
      s.merged_sum[row] = running.sum;
    }
  }
  for (int row = 0; row < walk.rows; ++row) divide(out(row), s.merged_sum[row], head_dim);
}

void attention_tile(const AttentionArgs& args, int kv_head, int row_begin, int row_end,
                    std::byte* scratch) {
  for (int row = row_begin; row < row_end; row += kTilePositions) {
    attend_positions(args, kv_head, row, std::min(row + kTilePositions, row_end), scratch);
  }
}

void attention_segment(const AttentionArgs& args, int kv_head, int row, int segment, float* partial,
                       std::byte* scratch) {
  Walk walk(args, kv_head, row, row + 1, scratch);
  walk.end = std::min((segment + 1) * kSegmentKeys, walk.end);
  attend_segment(walk, segment);
  const int head_dim = args.layout.head_dim;
  for (int r = 0; r < walk.rows; ++r, partial += 2 + head_dim) {
    partial[0] = walk.scratch.max[r];
    partial[1] = sum_of(walk.scratch.sums + r * kLanes);
    std::copy_n(walk.scratch.acc + int64_t{r} * padded_dims(head_dim), head_dim, partial + 2);
  }
}

void attention_merge(const AttentionArgs& args, int kv_head, int row, int segments,
                     const float* partials) {
  const int head_dim = args.layout.head_dim;
  const int group = args.heads / args.layout.kv_heads;
  for (int g = 0; g < group; ++g) {
    float* out = output(args, kv_head, row, g);
    Running running{};
    for (int segment = 0; segment < segments; ++segment) {
      const float* partial = partials + (int64_t{segment} * group + g) * (2 + head_dim);
      add_segment(segment == 0, running, out, {partial[0], partial[1]}, partial + 2, head_dim);
    }
    divide(out, running.sum, head_dim);
  }
}

int64_t attention_scratch(const KvLayout& layout, int heads) {
  return Scratch(nullptr, layout, heads / layout.kv_heads).bytes;
}

#if WEFT_BF16_DOTS

KernelTable base;  // for caches of other types

void tile_of_any_type(const AttentionArgs& args, int kv_head, int row_begin, int row_end,
                      std::byte* scratch) {
  const bool pairs = args.layout.type == KvType::kBF16;
  (pairs ? attention_tile : base.attention_tile)(args, kv_head, row_begin, row_end, scratch);
}

void segment_of_any_type(const AttentionArgs& args, int kv_head, int row, int segment,
                         float* partial, std::byte* scratch) {
  const bool pairs = args.layout.type == KvType::kBF16;
  (pairs ? attention_segment : base.attention_segment)(args, kv_head, row, segment, partial,
                                                       scratch);
}

#endif

}  // namespace

void WEFT_FILL(attention)(KernelTable& table) {
#if WEFT_BF16_DOTS
  base = table;
  table.attention_tile = tile_of_any_type;
  table.attention_segment = segment_of_any_type;
#else
  table.attention_tile = attention_tile;
  table.attention_segment = attention_segment;
#endif
  table.kv_block_bytes = kv_block_bytes;
  table.store_kv = store_kv;
  table.attention_tile_rows = kTilePositions;
  table.attention_scratch = attention_scratch;
  table.attention_merge = attention_merge;
}

}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif
