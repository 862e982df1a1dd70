#pragma once
// What the host and the attention kernels agree on: segments, and the memory that they need. Plain
// C++: both include this file.

#include <cstdint>

#include "shapes.h"

namespace weft_ascend {

// Rows of queries in a tile of attention, tokens times the query heads that share a key head: as
// many as L0C holds weighted values of, beside two tiles of scores.
constexpr int32_t kAttentionRows = 128;
WEFT_SHARED constexpr int32_t AttentionTileRows(int32_t head_dim) {
  return head_dim <= 128 ? kAttentionRows : kAttentionRows / 2;
}

// Tiles of keys in a segment.
constexpr int32_t kSegmentTiles = kSegmentKeys / kBlockPositions;

// Segments by which the scores are ahead of the weighted values: so long a block's vector cores
// have for the weights between them.
constexpr int32_t kAttentionLag = 2;
// Places for segments in the workspace.
constexpr int32_t kAttentionRing = kAttentionLag + 1;

// Consecutive rows of one sequence, the last of which sees all keys up to its own.
struct AttentionSegment {
  int32_t first_row;           // in queries and out
  int32_t rows;                // at least 1
  int32_t first_position;      // of first_row in its sequence; its keys are [0, first_position]
  int32_t block_table_offset;  // of the sequence's first block, in entries of block_tables
};

// Bytes of `workspace` for each block of the team: scores, weights and weighted values of a tile of
// rows over some segments.
WEFT_SHARED constexpr int64_t AttentionWorkspaceBytes(int32_t head_dim) {
  const int64_t rows = static_cast<int64_t>(kAttentionRing) * AttentionTileRows(head_dim);
  return rows * (kSegmentKeys * 4 + kSegmentKeys * 2 + head_dim * 4);
}

// Floats of a row's partial result over one segment of keys: for each head its weighted values,
// then for each the maximum, then for each the sum, these two eight times over.
WEFT_SHARED constexpr int64_t AttentionPartialFloats(int32_t heads, int32_t head_dim) {
  return static_cast<int64_t>(heads) * (head_dim + 16);
}

WEFT_SHARED constexpr int32_t KeySegments(int32_t positions) {
  return CeilDiv(positions, kSegmentKeys);
}

// Bytes of `partials` that DecodeAttention needs for the segments.
WEFT_SHARED inline int64_t AttentionPartialBytes(const AttentionSegment* segments, int32_t count,
                                                 int32_t heads, int32_t head_dim) {
  int64_t partials = 0;
  for (int32_t i = 0; i < count; ++i) {
    partials += static_cast<int64_t>(segments[i].rows) *
                KeySegments(segments[i].first_position + segments[i].rows);
  }
  return partials * AttentionPartialFloats(heads, head_dim) * 4;
}

}  // namespace weft_ascend
