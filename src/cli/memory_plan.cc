#include "cli/memory_plan.h"

#include <algorithm>
#include <limits>

#include "base/types.h"
#include "cli/byte_size.h"

namespace weft {
namespace {

Error exhausted(std::string message) { return {ErrorKind::kExhausted, std::move(message)}; }

uint64_t blocks_for(int positions) {
  return (static_cast<uint64_t>(positions) + kBlockPositions - 1) / kBlockPositions;
}

}  // namespace

Result<MemoryPlan> plan_memory(const MemoryRequest& request) {
  WEFT_CHECK(request.block_bytes > 0 && request.trained_context > 0 && request.max_sequences > 0);
  if (request.context > request.trained_context) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("--context {} is longer than the {} positions that the model was trained for",
                    request.context, request.trained_context)};
  }
  if (request.weight_bytes >= request.available) {
    return exhausted(
        fmt::format("the weights need {}, but only {} of memory are free: use a smaller "
                    "model or weight type",
                    format_bytes(request.weight_bytes), format_bytes(request.available)));
  }
  const uint64_t free = request.available - request.weight_bytes;
  if (request.kv_memory > free) {
    return exhausted(
        fmt::format("--kv-memory {} is more than the {} that are free after the weights",
                    format_bytes(request.kv_memory), format_bytes(free)));
  }
  const int longest = request.context > 0 ? request.context : request.trained_context;
  const uint64_t useful = blocks_for(longest) * static_cast<uint64_t>(request.max_sequences);
  const uint64_t pool = request.kv_memory > 0 ? request.kv_memory : free / 2;
  const uint64_t most = std::numeric_limits<BlockId>::max();
  const uint64_t blocks = std::min({pool / request.block_bytes, useful, most});
  if (blocks == 0) {
    return exhausted(fmt::format(
        "a KV pool of {} holds no block of {} positions, which needs {}: set --kv-memory",
        format_bytes(pool), kBlockPositions, format_bytes(request.block_bytes)));
  }
  if (request.context > 0 && blocks < blocks_for(request.context)) {
    return exhausted(fmt::format(
        "--context {} needs a KV pool of {}, but it is {}: set --context to {} or less, "
        "--kv-memory higher "
        "or a smaller --kv-type",
        request.context, format_bytes(blocks_for(request.context) * request.block_bytes),
        format_bytes(pool), blocks * kBlockPositions));
  }
  MemoryPlan plan;
  plan.blocks = static_cast<int>(blocks);
  plan.context = static_cast<int>(
      std::min<uint64_t>(static_cast<uint64_t>(longest), blocks * kBlockPositions));
  return plan;
}

}  // namespace weft
