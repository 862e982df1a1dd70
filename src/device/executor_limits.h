#pragma once
// What every executor holds its limits to.

#include "base/result.h"
#include "device/executor.h"

namespace weft {

// To ranges in which no size of a buffer overflows, and a position's place in the pool fits into 32
// bits, and to rows enough for a step of every sequence and a tile of a prompt at once;
// `block_bytes`: of a KV block over all layers. An error names the value.
Status check_limits(const ExecutorLimits& limits, double block_bytes);

}  // namespace weft
