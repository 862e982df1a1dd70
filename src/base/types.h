#pragma once
// The integers that cross folder borders.

#include <cstdint>

namespace weft {

using TokenId = int32_t;
using BlockId = int32_t;  // index of a block of kBlockPositions positions in the KV pool
using SlotId = int32_t;   // index of a sequence's place on the device

// Positions in one KV block, and the width of an attention tile over keys.
inline constexpr int kBlockPositions = 64;

}  // namespace weft
