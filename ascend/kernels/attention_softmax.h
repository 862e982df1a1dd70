#pragma once
// The softmax of some rows over one segment of keys, on a vector core: scores in, and out the
// weights for the cube core, the rows' maximum and the sum of their weights.

#include <cstdint>

#include "attention_merge.h"
#include "attention_work.h"
#include "kernel_operator.h"

namespace weft_ascend {

// Which of a tile's rows one vector core has: some tokens with all heads, or some heads of a lone
// token. Row t * heads + h of the core is token t's head h.
struct AttentionRows {
  int32_t first;  // row of the tile
  int32_t token;  // of the item, likewise head
  int32_t tokens;
  int32_t head;
  int32_t heads;

  __aicore__ inline int32_t Count() const { return tokens * heads; }
};

__aicore__ inline AttentionRows RowsOfVectorCore(const AttentionItem& item, int32_t core) {
  AttentionRows rows = {0, 0, item.tokens, 0, item.heads};
  if (item.tokens > 1) {
    const int32_t half = CeilDiv(item.tokens, kVectorCores);
    rows.token = core * half;
    rows.tokens = core == 0 ? half : item.tokens - half;
  } else {
    const int32_t half = CeilDiv(item.heads, kVectorCores);
    rows.head = core * half;
    rows.heads = core == 0 ? half : item.heads - half;
  }
  rows.first = rows.token * item.heads + rows.head;
  return rows;
}

// Rows of a vector core that fit UB with a segment's scores.
struct AttentionChunk {
  int32_t first;  // of the core's rows
  int32_t count;
};
constexpr int32_t kSoftmaxRows = 16;

// Each row's greatest score first, then exp(score - this) and the sum: of each tile of keys for
// itself, tiles being added in pairs (t, t + 4), then (t, t + 2), then (t, t + 1). A tile that is
// not there adds 0, as does a key that is not seen; so it makes no difference to a row how many
// tiles its neighbours need.
class AttentionSoftmax {
 public:
  __aicore__ inline void Init(AscendC::TPipe& pipe, const AttentionArgs& args,
                              const AttentionHandover& handover) {
    pipe.InitBuffer(scores_, 2 * kScoresSize * sizeof(float));
    pipe.InitBuffer(weights_, 2 * kScoresSize * sizeof(half));
    pipe.InitBuffer(blocks_, kSegmentTiles * kBlocksSize * sizeof(float));
    pipe.InitBuffer(tiles_, kSegmentTiles * kSoftmaxRows * sizeof(float));
    pipe.InitBuffer(copies_, kSoftmaxRows * kRowCopies * sizeof(float));
    handover_ = handover;
    scale_ = args.scale;
    fetched_ = chunks_ = 0;
    // Whole vectors are computed, whatever the count of rows: all must be numbers.
    AscendC::Duplicate(blocks_.Get<float>(), 0.0f, kSegmentTiles * kBlocksSize);
    AscendC::PipeBarrier<PIPE_V>();
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(slot);
      AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(slot);
    }
  }

  __aicore__ inline void TakeBackFlags() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(slot);
      AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(slot);
    }
  }

  // Chunks are fetched in the order in which Weigh takes them, at most one ahead of it.
  __aicore__ inline void Fetch(const AttentionStep& step, const AttentionRows& rows,
                               AttentionChunk chunk) {
    const int32_t slot = fetched_++ & 1;
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(slot);
    AscendC::DataCopy(scores_.Get<float>()[slot * kScoresSize],
                      handover_.Scores(step, 0, rows.first + chunk.first),
                      AscendC::DataCopyParams(step.tiles, chunk.count * kRowBlocks,
                                              (handover_.Rows() - chunk.count) * kRowBlocks, 0));
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(slot);
  }

  // Writes the weights; `maximum` and `sum` get 16 floats each, for the chunk's rows.
  __aicore__ inline void Weigh(const AttentionStep& step, const AttentionRows& rows,
                               AttentionChunk chunk, const AscendC::LocalTensor<float>& maximum,
                               const AscendC::LocalTensor<float>& sum) {
    const int32_t slot = chunks_++ & 1;
    const auto scores = scores_.Get<float>()[slot * kScoresSize];
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(slot);
    HideLaterKeys(step, rows, chunk, scores);
    Maximum(step, chunk, scores, maximum);
    Exponentials(step, chunk, scores);
    const auto blocks = blocks_.Get<float>();
    for (int32_t tile = 0; tile < step.tiles; ++tile) {
      AscendC::BlockReduceSum(blocks[tile * kBlocksSize], OfTile(scores, chunk, tile), chunk.count,
                              kLanes, 1, 1, kRowBlocks);
    }
    Store(step, rows, chunk, scores, slot);
    AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(slot);
    AscendC::PipeBarrier<PIPE_V>();
    Sum(step, sum);
  }

 private:
  static constexpr int32_t kScoresSize = kSoftmaxRows * kSegmentKeys;
  static constexpr int32_t kBlocksSize = kSoftmaxRows * kRowCopies;
  static constexpr int32_t kRowBlocks = kBlockPositions / kBlockFloats;  // of a tile's row
  // Stands for a score that is not seen: exp(this - any maximum) is 0, yet no infinity meets
  // another.
  static constexpr float kUnseen = -1.0e30f;

  // Scores in UB: [tiles][rows][64].
  __aicore__ inline static AscendC::LocalTensor<float> OfTile(
      const AscendC::LocalTensor<float>& scores, AttentionChunk chunk, int32_t tile) {
    return scores[tile * chunk.count * kBlockPositions];
  }

  // A token sees its own position and those before.
  __aicore__ inline void HideLaterKeys(const AttentionStep& step, const AttentionRows& rows,
                                       AttentionChunk chunk,
                                       const AscendC::LocalTensor<float>& scores) {
    const int32_t first_token = chunk.first / rows.heads;
    const int32_t seen_by_first =
        step.item.position + rows.token + first_token + 1 - step.tile * kBlockPositions;
    bool hidden = false;
    for (int32_t tile = 0; tile < step.tiles; ++tile) {
      const auto of_tile = OfTile(scores, chunk, tile);
      int32_t seen = seen_by_first - tile * kBlockPositions;
      int32_t end = (first_token + 1) * rows.heads - chunk.first;  // of a token's rows
      for (int32_t row = 0; row < chunk.count && seen < kBlockPositions; ++seen) {
        // Tokens that see nothing of the tile are one run.
        if (seen < 0) end -= seen * rows.heads, seen = 0;
        end = end < chunk.count ? end : chunk.count;
        uint64_t unseen[2] = {UnseenColumns(seen), 0};
        AscendC::Duplicate(of_tile[row * kBlockPositions], kUnseen, unseen, end - row, 1,
                           kRowBlocks);
        row = end;
        end += rows.heads;
        hidden = true;
      }
    }
    if (hidden) AscendC::PipeBarrier<PIPE_V>();
  }

  // scores *= scale, and the rows' greatest, which is copied along them too.
  __aicore__ inline void Maximum(const AttentionStep& step, AttentionChunk chunk,
                                 const AscendC::LocalTensor<float>& scores,
                                 const AscendC::LocalTensor<float>& maximum) {
    const auto blocks = blocks_.Get<float>();
    const auto tiles = tiles_.Get<float>();
    for (int32_t tile = 0; tile < step.tiles; ++tile) {
      AscendC::BlockReduceMax(blocks[tile * kBlocksSize], OfTile(scores, chunk, tile), chunk.count,
                              kLanes, 1, 1, kRowBlocks);
    }
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::BlockReduceMax(tiles, blocks, step.tiles * kBlocksSize / kLanes, kLanes, 1, 1,
                            kRowBlocks);
    AscendC::Muls(scores, scores, scale_, step.tiles * chunk.count * kBlockPositions);
    AscendC::PipeBarrier<PIPE_V>();
    for (int32_t width = PadTiles(step, kUnseen); width > 0; width /= 2) {
      AscendC::Max(tiles, tiles, tiles[width * kSoftmaxRows], width * kSoftmaxRows);
      AscendC::PipeBarrier<PIPE_V>();
    }
    // The scale is positive, and rounding keeps the order: this is the greatest scaled score.
    AscendC::Muls(maximum, tiles, scale_, kSoftmaxRows);
    AscendC::PipeBarrier<PIPE_V>();
    CopyAlongRows(copies_.Get<float>(), maximum, kSoftmaxRows);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // scores = exp(scores - the rows' maximum).
  __aicore__ inline void Exponentials(const AttentionStep& step, AttentionChunk chunk,
                                      const AscendC::LocalTensor<float>& scores) {
    for (int32_t tile = 0; tile < step.tiles; ++tile) {
      const auto of_tile = OfTile(scores, chunk, tile);
      AscendC::Sub(of_tile, of_tile, copies_.Get<float>(), static_cast<uint64_t>(kLanes),
                   chunk.count, AscendC::BinaryRepeatParams(1, 1, 0, kRowBlocks, kRowBlocks, 1));
    }
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Exp(scores, scores, step.tiles * chunk.count * kBlockPositions);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // To half, in the order of the cube core's fractals: 16 keys of all rows, then the next 16.
  __aicore__ inline void Store(const AttentionStep& step, const AttentionRows& rows,
                               AttentionChunk chunk, const AscendC::LocalTensor<float>& scores,
                               int32_t slot) {
    const auto weights = weights_.Get<half>()[slot * kScoresSize];
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_V>(slot);
    for (int32_t tile = 0; tile < step.tiles; ++tile) {
      AscendC::Cast(weights[tile * chunk.count * kBlockPositions], OfTile(scores, chunk, tile),
                    AscendC::RoundMode::CAST_RINT, static_cast<uint64_t>(kLanes), chunk.count,
                    AscendC::UnaryRepeatParams(chunk.count, 1, 1, kRowBlocks));
    }
    AscendC::SetFlag<AscendC::HardEvent::V_MTE3>(slot);
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(slot);
    AscendC::DataCopy(handover_.Weights(step, 0, rows.first + chunk.first), weights,
                      AscendC::DataCopyParams(step.tiles * kTileFractals, chunk.count, 0,
                                              handover_.Rows() - chunk.count));
    AscendC::SetFlag<AscendC::HardEvent::MTE3_V>(slot);
  }

  __aicore__ inline void Sum(const AttentionStep& step, const AscendC::LocalTensor<float>& sum) {
    const auto tiles = tiles_.Get<float>();
    AscendC::BlockReduceSum(tiles, blocks_.Get<float>(), step.tiles * kBlocksSize / kLanes, kLanes,
                            1, 1, kRowBlocks);
    AscendC::PipeBarrier<PIPE_V>();
    for (int32_t width = PadTiles(step, 0.0f); width > 0; width /= 2) {
      AscendC::Add(tiles, tiles, tiles[width * kSoftmaxRows], width * kSoftmaxRows);
      AscendC::PipeBarrier<PIPE_V>();
    }
    AscendC::Adds(sum, tiles, 0.0f, kSoftmaxRows);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Fills the rows' numbers of tiles up to a power of two, and returns half of it.
  __aicore__ inline int32_t PadTiles(const AttentionStep& step, float value) {
    int32_t padded = 1;
    while (padded < step.tiles) padded *= 2;
    if (padded > step.tiles) {
      AscendC::Duplicate(tiles_.Get<float>()[step.tiles * kSoftmaxRows], value,
                         (padded - step.tiles) * kSoftmaxRows);
      AscendC::PipeBarrier<PIPE_V>();
    }
    return padded / 2;
  }

  AscendC::TBuf<AscendC::TPosition::VECIN> scores_;
  AscendC::TBuf<AscendC::TPosition::VECOUT> weights_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> blocks_;  // [tiles][16 rows][8] of 8 keys each
  AscendC::TBuf<AscendC::TPosition::VECCALC> tiles_;   // [tiles][16 rows]
  AscendC::TBuf<AscendC::TPosition::VECCALC> copies_;  // [16 rows][8] of the maximum
  AttentionHandover handover_;
  float scale_ = 0.0f;
  int32_t fetched_ = 0;
  int32_t chunks_ = 0;
};

}  // namespace weft_ascend
