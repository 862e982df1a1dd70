#pragma once
// Which tiles of attention a block computes, in which order. The cube core and both vector cores of
// a block walk through the same steps.

#include <cstdint>

#include "attention_shapes.h"
#include "kernel_operator.h"
#include "memory.h"
#include "team.h"

namespace weft_ascend {

struct AttentionArgs {
  GM_ADDR queries;       // half [rows, q_stride]: heads * head_dim of each row, heads in order
  GM_ADDR kv;            // the layer's pool: half [block][kv_heads][2][64 positions][head_dim]
  GM_ADDR out;           // half [rows, out_stride]
  GM_ADDR segments;      // AttentionSegment [segment_count]
  GM_ADDR block_tables;  // int32
  GM_ADDR partials;      // of decode: AttentionPartialBytes
  GM_ADDR workspace;     // AttentionWorkspaceBytes for each block of the team
  int32_t segment_count;
  int32_t heads;
  int32_t kv_heads;  // divides heads
  int32_t head_dim;  // a multiple of 16, at most 256
  int32_t q_stride;  // in elements, multiples of 16 below 65,536
  int32_t out_stride;
  float scale;
};

__aicore__ inline AttentionSegment ReadSegment(GM_ADDR segments, int32_t index) {
  AttentionSegment segment = {};
  ReadStruct(segments + index * sizeof(AttentionSegment), segment);
  return segment;
}

// A tile of query rows and the tiles of keys that it sees: all of them in prefill, those of one
// segment of keys in decode. Row t * heads + h of the tile is token t's head h.
struct AttentionItem {
  int32_t row;  // of the first token, in queries and out
  int32_t tokens;
  int32_t position;  // of the first token
  int32_t table;     // the sequence's first entry in the block tables
  int32_t kv_head;
  int32_t head;  // the first query head
  int32_t heads;
  int32_t first_tile;
  int32_t end_tile;
  int64_t partial;  // of the first token: its place among the partial results
};

// Deals the items out to the team's blocks in turn. Long ones of a segment come first.
class AttentionItems {
 public:
  __aicore__ inline void Init(const AttentionArgs& args, Team team, bool split_keys) {
    segments_ = args.segments;
    segment_count_ = args.segment_count;
    group_ = args.heads / args.kv_heads;
    tile_heads_ = group_ < kAttentionRows ? group_ : kAttentionRows;
    head_tiles_ = args.kv_heads * CeilDiv(group_, tile_heads_);
    // An even number of tokens fills both vector cores alike.
    tile_tokens_ =
        tile_heads_ > kAttentionVectorRows ? 1 : 2 * (kAttentionVectorRows / tile_heads_);
    stride_ = team.size;
    split_keys_ = split_keys;
    place_ = team.rank;
    if (segment_count_ > 0) Enter(0);
  }

  __aicore__ inline bool Next(AttentionItem& item) {
    for (;;) {
      while (index_ < segment_count_ && place_ >= items_) {
        place_ -= items_;
        partials_ += static_cast<int64_t>(segment_.rows) * key_segments_;
        if (index_ + 1 == segment_count_) return false;
        Enter(index_ + 1);
      }
      if (index_ >= segment_count_) return false;
      const bool found = Describe(place_, item);
      place_ += stride_;
      if (found) return true;
    }
  }

 private:
  __aicore__ inline void Enter(int32_t index) {
    index_ = index;
    segment_ = ReadSegment(segments_, index);
    key_segments_ = KeySegments(segment_.first_position + segment_.rows);
    splits_ = split_keys_ ? key_segments_ : 1;
    token_tiles_ = CeilDiv(segment_.rows, tile_tokens_);
    items_ = token_tiles_ * head_tiles_ * splits_;
  }

  // False: these rows see none of these keys.
  __aicore__ inline bool Describe(int32_t place, AttentionItem& item) const {
    const int32_t head_tile = place % head_tiles_;
    const int32_t split = place / head_tiles_ % splits_;
    const int32_t token_tile = token_tiles_ - 1 - place / head_tiles_ / splits_;

    const int32_t token = token_tile * tile_tokens_;
    const int32_t left = segment_.rows - token;
    item.tokens = left < tile_tokens_ ? left : tile_tokens_;
    item.row = segment_.first_row + token;
    item.position = segment_.first_position + token;
    item.table = segment_.block_table_offset;

    const int32_t group_tiles = CeilDiv(group_, tile_heads_);
    const int32_t first_head = head_tile % group_tiles * tile_heads_;
    item.kv_head = head_tile / group_tiles;
    item.head = item.kv_head * group_ + first_head;
    item.heads = group_ - first_head < tile_heads_ ? group_ - first_head : tile_heads_;

    const int32_t tiles = CeilDiv(item.position + item.tokens, kBlockPositions);
    const int32_t segment_tiles = kSegmentKeys / kBlockPositions;
    item.first_tile = split * segment_tiles;
    item.end_tile = tiles;
    if (split_keys_ && item.first_tile + segment_tiles < tiles) {
      item.end_tile = item.first_tile + segment_tiles;
    }
    item.partial = partials_ + static_cast<int64_t>(split) * segment_.rows + token;
    return item.first_tile < tiles;
  }

  GM_ADDR segments_ = nullptr;
  AttentionSegment segment_ = {};
  int64_t partials_ = 0;  // of the segments before
  int32_t segment_count_ = 0;
  int32_t group_ = 1;
  int32_t tile_heads_ = 1;
  int32_t head_tiles_ = 1;
  int32_t tile_tokens_ = 1;
  int32_t stride_ = 1;
  bool split_keys_ = false;
  int32_t index_ = 0;  // of segment_
  int32_t key_segments_ = 0;
  int32_t splits_ = 1;
  int32_t token_tiles_ = 0;
  int32_t items_ = 0;  // of segment_
  int32_t place_ = 0;  // the next item, counted from segment_'s first
};

// One tile of keys for one tile of query rows.
struct AttentionStep {
  AttentionItem item;
  int32_t tile;   // of the keys [tile * 64, tile * 64 + 64)
  int32_t index;  // steps, segments of keys and items that this block has had before this one
  int32_t segment;
  int32_t item_index;
  bool opens_item;
  bool opens_segment;
  bool closes_segment;
  bool closes_item;
};

class AttentionSteps {
 public:
  __aicore__ inline void Init(const AttentionArgs& args, Team team, bool split_keys) {
    items_.Init(args, team, split_keys);
    step_.index = -1;
    step_.segment = -1;
    step_.item_index = -1;
    step_.closes_item = true;
  }

  __aicore__ inline bool Next(AttentionStep& step) {
    step_.opens_item = step_.closes_item;
    if (step_.opens_item) {
      if (!items_.Next(step_.item)) return false;
      step_.tile = step_.item.first_tile;
      ++step_.item_index;
    } else {
      ++step_.tile;
    }
    ++step_.index;
    const int32_t in_segment = step_.tile % (kSegmentKeys / kBlockPositions);
    step_.opens_segment = in_segment == 0;
    if (step_.opens_segment) ++step_.segment;
    step_.closes_item = step_.tile + 1 == step_.item.end_tile;
    step_.closes_segment = step_.closes_item || in_segment + 1 == kSegmentKeys / kBlockPositions;
    step = step_;
    return true;
  }

 private:
  AttentionItems items_;
  AttentionStep step_ = {};
};

// Flags between a block's cube core and its vector cores. Each counts at most two tiles.
constexpr uint16_t kScoresReady = 0;   // cube to vector: queries times keys
constexpr uint16_t kWeightsReady = 1;  // vector to cube: exp(scores - maximum)
constexpr uint16_t kValuesReady = 2;   // cube to vector: weights times values

// A block's own part of the workspace, through which its cores hand tiles to each other: this chip
// has no way from L0C to UB, nor from UB to L1, but through global memory (which for so little is
// its L2). Two tiles of each kind, so that one is made while the other is used.
struct AttentionHandover {
  AscendC::GlobalTensor<float> scores;  // [2][64 rows][64 keys]
  AscendC::GlobalTensor<half> weights;  // [2][64 rows][64 keys]
  AscendC::GlobalTensor<float> values;  // [2][64 rows][head_dim]

  __aicore__ inline void Init(const AttentionArgs& args, Team team) {
    GM_ADDR own = args.workspace + team.rank * AttentionWorkspaceBytes(args.head_dim);
    constexpr int64_t kTile = kAttentionRows * kBlockPositions;
    scores.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(own));
    own += 2 * kTile * static_cast<int64_t>(sizeof(float));
    weights.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(own));
    own += 2 * kTile * static_cast<int64_t>(sizeof(half));
    values.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(own));
  }
};

}  // namespace weft_ascend
