#include "device/executor_limits.h"

#include <fmt/format.h>

#include <cstdint>

namespace weft {

Status check_limits(const ExecutorLimits& limits, double block_bytes) {
  struct Limit {
    const char* name;
    int value;
    int max;
  };
  const Limit all[] = {
      {"slots", limits.slots, 1 << 16},
      {"passes", limits.passes, 1 << 16},
      {"rows", limits.rows, 1 << 20},
      {"output rows", limits.output_rows, 1 << 20},
      {"context positions", limits.context, 1 << 24},
      {"KV blocks", limits.blocks, INT32_MAX / kBlockPositions},
      {"rows in a tile", limits.tile_rows, 1 << 10},
  };
  for (const Limit& limit : all) {
    if (limit.value >= 1 && limit.value <= limit.max) continue;
    return Error{ErrorKind::kInvalidArgument, fmt::format("{} {}: it has to be from 1 to {}",
                                                          limit.value, limit.name, limit.max)};
  }
  if (limits.rows < limits.slots + limits.tile_rows) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("{} rows: a row of each of {} sequences and a tile of {} of a prompt "
                    "need at least {}",
                    limits.rows, limits.slots, limits.tile_rows, limits.slots + limits.tile_rows)};
  }
  if (block_bytes * limits.blocks > 0x1p46) {
    return Error{ErrorKind::kExhausted,
                 fmt::format("{} KV blocks of {:.0f} bytes are more than a device can address",
                             limits.blocks, block_bytes)};
  }
  return {};
}

}  // namespace weft
