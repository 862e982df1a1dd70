#pragma once
// Sizes that the host and the kernels agree on. Plain C++: both include this file.

#include <cstdint>

// Marks a function that both call. Only the card's compiler, which takes an unmarked one for the
// host's alone, has to be told.
#ifdef __CCE__
// clang-format off
#define WEFT_SHARED [host, aicore]
// clang-format on
#else
#define WEFT_SHARED
#endif

namespace weft_ascend {

// Every address that the host hands to a kernel is a multiple of this; flags are so far apart.
constexpr int32_t kAlign = 512;
// Rows, inputs and outputs of the cube's tiles: strides and dimensions are multiples of it.
constexpr int32_t kFractal = 16;
// Bytes of a UB address and of a DataCopy.
constexpr int32_t kUbAlign = 32;

// Positions in a block of the KV cache, and keys in a tile of attention.
constexpr int32_t kBlockPositions = 64;
// Keys in a segment of attention: partial results are merged over segments in ascending order.
constexpr int32_t kSegmentKeys = 512;
constexpr int32_t kMaxHeadDim = 256;
// Of a row that a vector core keeps whole while it norms it.
constexpr int32_t kMaxHidden = 16384;

// A block is one cube core with its two vector cores.
constexpr int32_t kVectorCores = 2;
constexpr int32_t kPrograms = 1 + kVectorCores;
// Blocks of a launch at the most; a chip has fewer cube cores than that.
constexpr int32_t kMaxBlocks = 64;

// Flags between a block's cube core and its vector cores, by CrossCoreSetFlag: 0 to 9 belong to
// whichever operator runs, which leaves them all taken back; 10 is the barrier's. 11 to 15 are not
// to be used: some are SyncAll's.
constexpr int32_t kBarrierFlag = 10;

// Bytes that a multiplication with int8 weights needs for each block of its team.
constexpr int64_t kInt8BlockBytes = 320 * 1024;

WEFT_SHARED constexpr int32_t CeilDiv(int32_t a, int32_t b) { return (a + b - 1) / b; }
WEFT_SHARED constexpr int32_t RoundUp(int32_t a, int32_t b) { return CeilDiv(a, b) * b; }
WEFT_SHARED constexpr int64_t RoundUp64(int64_t a, int64_t b) { return (a + b - 1) / b * b; }

}  // namespace weft_ascend
