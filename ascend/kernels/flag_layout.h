#pragma once
// Where flags lie in global memory, and how many there are. Plain C++: host and kernels include
// this file.

#include <cstdint>

#include "shapes.h"

namespace weft_ascend {

// Flags lie so far apart that no two share a line, nor a write-back.
constexpr int32_t kFlagBytes = 512;
// A flag at this value ends every wait: its writer has given up, and so does who reads it.
constexpr int64_t kAborted = INT64_MAX;

// A barrier's flags lie on lines that follow each other, so that one copy brings them all.
constexpr int32_t kBarrierFlagBytes = 64;

// Bytes of the flags of a team of so many blocks.
WEFT_SHARED constexpr int64_t BarrierBytes(int32_t blocks) {
  return static_cast<int64_t>(blocks) * kPrograms * kBarrierFlagBytes;
}

}  // namespace weft_ascend
