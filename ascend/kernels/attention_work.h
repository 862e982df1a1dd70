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

// Block tables, which the host or another core writes between uses: a line of them is dropped from
// the scalar cache before it is read.
class BlockTables {
 public:
  __aicore__ inline void Init(GM_ADDR tables) {
    words_.SetGlobalBuffer(reinterpret_cast<__gm__ uint32_t*>(tables));
    first_ = static_cast<int64_t>(reinterpret_cast<uint64_t>(tables) / sizeof(int32_t));
    line_ = -1;
  }
  __aicore__ inline int32_t Get(int64_t index) {
    const int64_t line = (first_ + index) / kLineWords;
    if (line != line_) {
      RefreshLine(words_[index]);
      line_ = line;
    }
    return static_cast<int32_t>(words_.GetValue(index));
  }

 private:
  AscendC::GlobalTensor<uint32_t> words_;
  int64_t first_ = 0;
  int64_t line_ = -1;
};

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
    const int32_t rows = AttentionTileRows(args.head_dim);
    tile_heads_ = group_ < rows ? group_ : rows;
    head_tiles_ = args.kv_heads * CeilDiv(group_, tile_heads_);
    const int32_t half = rows / kVectorCores;
    // An even number of tokens fills both vector cores alike.
    tile_tokens_ = tile_heads_ > half ? 1 : kVectorCores * (half / tile_heads_);
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
    item.first_tile = split * kSegmentTiles;
    item.end_tile = tiles;
    if (split_keys_ && item.first_tile + kSegmentTiles < tiles) {
      item.end_tile = item.first_tile + kSegmentTiles;
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

// One segment of keys for one tile of query rows.
struct AttentionStep {
  AttentionItem item;
  int32_t tile;   // the segment's first, of the keys [tile * 64, tile * 64 + 64)
  int32_t tiles;  // of the segment that the item sees
  int32_t index;  // steps and items that this block has had before this one
  int32_t item_index;
  bool opens_item;
  bool closes_item;
};

class AttentionSteps {
 public:
  __aicore__ inline void Init(const AttentionArgs& args, Team team, bool split_keys) {
    items_.Init(args, team, split_keys);
    step_.index = -1;
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
      step_.tile += kSegmentTiles;
    }
    ++step_.index;
    const int32_t left = step_.item.end_tile - step_.tile;
    step_.tiles = left < kSegmentTiles ? left : kSegmentTiles;
    step_.closes_item = left <= kSegmentTiles;
    step = step_;
    return true;
  }

 private:
  AttentionItems items_;
  AttentionStep step_ = {};
};

// The latest steps of a program that works on several at a time.
template <int32_t kSize>
class AttentionWindow {
 public:
  __aicore__ inline void Init(const AttentionArgs& args, Team team, bool split_keys) {
    steps_.Init(args, team, split_keys);
  }
  // Step `index`: the next one, or one of the kSize - 1 before it. Null: there is none.
  __aicore__ inline const AttentionStep* At(int32_t index) {
    if (index == count_ && !ended_) {
      ended_ = !steps_.Next(latest_[index % kSize]);
      if (!ended_) ++count_;
    }
    return index >= 0 && index < count_ ? &latest_[index % kSize] : nullptr;
  }
  // No step from `index` on exists.
  __aicore__ inline bool Ended(int32_t index) const { return ended_ && index >= count_; }

 private:
  AttentionSteps steps_;
  AttentionStep latest_[kSize] = {};
  int32_t count_ = 0;
  bool ended_ = false;
};

// Fractals of the keys in a tile. Within it keys stand in the order 0, 4, 8 ... 60, 1, 5 ... 63, as
// columns of scores and weights and as rows of values: column c is key c / 16 + c % 16 * 4.
constexpr int32_t kTileFractals = kBlockPositions / kFractal;

// A bit for each column whose key is not one of the tile's first `seen`.
__aicore__ inline uint64_t UnseenColumns(int32_t seen) {
  uint64_t unseen = 0;
  for (int32_t i = 0; i < kTileFractals; ++i) {
    const int32_t columns = CeilDiv(seen > i ? seen - i : 0, kTileFractals);
    unseen |= (0xffffULL << columns & 0xffffULL) << (i * kFractal);
  }
  return unseen;
}

// Flags between a block's cube core and its vector cores, each set once a step.
constexpr uint16_t kScoresReady = 0;   // cube to vector: queries times keys
constexpr uint16_t kWeightsReady = 1;  // vector to cube: exp(scores - maximum)
constexpr uint16_t kValuesReady = 2;   // cube to vector: weights times values

// A block's own part of the workspace, through which its cores hand numbers to each other: this
// chip has no way from L0C to UB, nor from UB to L1, but through global memory (which for so little
// is its L2). A ring of places, by step.
//
// No flag says that a place was used up, since it follows from those that say that one is ready.
// The cube core makes step k's scores after it has waited for the weights of step k - 1 - lag,
// which come after the scores of that step were read. The vector cores make step k's weights after
// they have waited for the weighted values of step k - 1 - lag, thus after that step's weights were
// read; and these weights come after they have added up those values, whose place step k's will
// take.
class AttentionHandover {
 public:
  __aicore__ inline void Init(const AttentionArgs& args, Team team) {
    rows_ = AttentionTileRows(args.head_dim);
    head_dim_ = args.head_dim;
    const int64_t size = static_cast<int64_t>(kAttentionRing) * rows_ * kSegmentKeys;
    GM_ADDR own = args.workspace + team.rank * AttentionWorkspaceBytes(args.head_dim);
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(own));
    own += size * static_cast<int64_t>(sizeof(float));
    weights_.SetGlobalBuffer(reinterpret_cast<__gm__ half*>(own));
    own += size * static_cast<int64_t>(sizeof(half));
    values_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(own));
  }
  // Rows that a place has room for.
  __aicore__ inline int32_t Rows() const { return rows_; }
  // Of a tile of keys, from row `row` on: float [rows, 64].
  __aicore__ inline AscendC::GlobalTensor<float> Scores(const AttentionStep& step, int32_t tile,
                                                        int32_t row = 0) const {
    return scores_[((Place(step) * kSegmentTiles + tile) * rows_ + row) * kBlockPositions];
  }
  // Likewise, as the cube core's fractals lie: half [4][Rows()][16].
  __aicore__ inline AscendC::GlobalTensor<half> Weights(const AttentionStep& step, int32_t tile,
                                                        int32_t row = 0) const {
    return weights_[(Place(step) * kSegmentTiles + tile) * rows_ * kBlockPositions +
                    row * kFractal];
  }
  // float [rows, head_dim].
  __aicore__ inline AscendC::GlobalTensor<float> Values(const AttentionStep& step,
                                                        int32_t row = 0) const {
    return values_[(Place(step) * rows_ + row) * head_dim_];
  }

 private:
  __aicore__ inline static int32_t Place(const AttentionStep& step) {
    return step.index % kAttentionRing;
  }

  AscendC::GlobalTensor<float> scores_;
  AscendC::GlobalTensor<half> weights_;
  AscendC::GlobalTensor<float> values_;
  int32_t rows_ = 0;
  int32_t head_dim_ = 0;
};

}  // namespace weft_ascend
