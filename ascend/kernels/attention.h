#pragma once
// Attention over the paged KV cache, causal, with grouped heads: one arithmetic for prompts and for
// streams.
//
// A row's keys are taken in segments of 512 at absolute positions. Within one the softmax has one
// maximum, and the weighted values are added up over its tiles of 64 keys, the cache's blocks, in
// ascending order. Segments are merged in ascending order, online: with each the rows' maximum may
// grow, and what was summed before is rescaled to it. Which rows lie in a tile together, on which
// core, how many keys they see, and who merges makes no difference to a row's bits: each row has
// its own lane of every instruction, and keys that it does not see add zeros.
//
// A tile's rows are tokens times the query heads that share a key head, up to 128, so a group's
// keys are read once for all its heads, and one token alone is a tile as well. The cube core
// multiplies, its two vector cores do the softmax of half the rows each.
//
// Requirements: addresses on 512 bytes; the rest of a block whose first position is written holds
// numbers (it is multiplied by weights of 0). Other blocks are not read.

#include "attention_cube.h"
#include "attention_merge.h"
#include "attention_vector.h"
#include "attention_work.h"

namespace weft_ascend {

// Of segments with many rows: a block walks through all keys of its query rows and writes `out`.
__aicore__ inline void PrefillAttention(AscendC::TPipe& pipe, Team team,
                                        const AttentionArgs& args) {
  if ASCEND_IS_AIC {
    AttentionCube cube;
    cube.Run(pipe, team, args, false);
  }
  if ASCEND_IS_AIV {
    AttentionVector vector;
    vector.Run(pipe, team, args, false);
  }
}

// Of segments with few rows: a block has one segment of keys, and writes partial results.
__aicore__ inline void DecodeAttention(AscendC::TPipe& pipe, Team team, const AttentionArgs& args) {
  if ASCEND_IS_AIC {
    AttentionCube cube;
    cube.Run(pipe, team, args, true);
  }
  if ASCEND_IS_AIV {
    AttentionVector vector;
    vector.Run(pipe, team, args, true);
  }
}

// Merges them into `out`, once every block has ended DecodeAttention.
__aicore__ inline void DecodeAttentionMerge(AscendC::TPipe& pipe, Team team,
                                            const AttentionArgs& args) {
  if ASCEND_IS_AIV {
    AttentionMergeVector merge;
    merge.Run(pipe, team, args);
  }
}

}  // namespace weft_ascend
