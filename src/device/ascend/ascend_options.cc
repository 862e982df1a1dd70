#include "device/ascend/ascend_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "ascend/kernels/shapes.h"
#include "device/ascend/resident.h"
#include "device/executor_limits.h"

namespace weft {
namespace {

// A prompt's tokens are counted in tiles of so many, as blocks of the cache hold: attention's tiles
// have as many or fewer where two query heads or more share a key head.
constexpr int kTileRows = weft_ascend::kBlockPositions;

}  // namespace

int AscendOptions::cores_of(Group group) const {
  switch (group) {
    case Group::kAll:
      return cores;
    case Group::kPrefill:
      return prefill_cores;
    case Group::kDecode:
      return decode_cores;
  }
  return 0;
}

ExecutorLimits AscendOptions::device_limits() const {
  ExecutorLimits held = limits;
  held.tile_rows = kTileRows;
  held.output_rows = std::min(held.output_rows, held.rows);
  return held;
}

Status AscendOptions::check(int64_t block_bytes) const {
  WEFT_RETURN_IF_ERROR(check_limits(device_limits(), static_cast<double>(block_bytes)));
  if (cores < 1 || cores > weft_ascend::kMaxBlocks) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("{} cores: an Ascend device runs on 1 to {}", cores, weft_ascend::kMaxBlocks)};
  }
  if (prefill_cores == 0 && decode_cores == 0) return {};
  if (prefill_cores >= 1 && decode_cores >= 1 && prefill_cores + decode_cores == cores) return {};
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("{} prefill and {} decode cores: each needs at least 1, and together "
                           "they have to be all {} cores",
                           prefill_cores, decode_cores, cores)};
}

std::string AscendOptions::describe() const {
  std::string text = fmt::format("{}, {} core{}, kv f16", name, cores, cores == 1 ? "" : "s");
  if (split()) text += fmt::format(", split prefill {} decode {}", prefill_cores, decode_cores);
  return text;
}

ResidentOptions resident_options(const AscendOptions& options, Duration time_limit) {
  ResidentOptions resident;
  resident.blocks = {options.split() ? options.prefill_cores : options.cores, options.decode_cores};
  resident.boards = options.limits.passes;
  resident.epoch_quanta = options.epoch_quanta;
  resident.epoch_time = std::min(resident.epoch_time, time_limit / 2);
  resident.spin_cap = options.spin_cap;
  return resident;
}

}  // namespace weft
