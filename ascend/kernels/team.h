#pragma once
// Team: the blocks that run an operator together, and how they share its work.

#include <cstdint>

#include "kernel_operator.h"
#include "shapes.h"

namespace weft_ascend {

// A block's place among them. Every operator is called by the three programs of each. Flags between
// these, by CrossCoreSetFlag, are 0 to 9 and belong to whichever operator runs, which leaves them
// all taken back; 10 is the barrier's, and of 11 to 15 some are SyncAll's.
struct Team {
  int32_t rank;
  int32_t size;
};

// The team of a launch whose blocks all do one thing.
__aicore__ inline Team WholeLaunch() {
  auto block = static_cast<int32_t>(AscendC::GetBlockIdx());
  if ASCEND_IS_AIV {
    block /= kVectorCores;  // its index counts vector cores
  }
  return {block, static_cast<int32_t>(AscendC::GetBlockNum())};
}

// Items [begin, end) of what is shared out.
struct Share {
  int32_t begin;
  int32_t end;
};

// The rank-th of `size` parts of `items` as equal as multiples of `grain` allow; the last part ends
// at `items`, grain or not.
__aicore__ inline Share ShareOf(int32_t items, int32_t rank, int32_t size, int32_t grain = 1) {
  const int64_t grains = CeilDiv(items, grain);
  const int32_t begin = static_cast<int32_t>(grains * rank / size) * grain;
  const int32_t end = static_cast<int32_t>(grains * (rank + 1) / size) * grain;
  return {begin, end < items ? end : items};
}

// A vector core's share, two to a block.
__aicore__ inline Share VectorShare(Team team, int32_t items, int32_t grain = 1) {
  const int32_t rank = team.rank * kVectorCores + static_cast<int32_t>(AscendC::GetSubBlockIdx());
  return ShareOf(items, rank, team.size * kVectorCores, grain);
}

}  // namespace weft_ascend
