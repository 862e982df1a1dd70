#include "device/ascend/group_memory.h"

#include <algorithm>
#include <utility>

#include "ascend/kernels/attention_shapes.h"

namespace weft {
namespace {

constexpr int64_t kHalf = 2;
constexpr int64_t kFloat = 4;

}  // namespace

Status GroupMemory::add(uint64_t& address, int64_t bytes, const char* purpose) {
  WEFT_ASSIGN(DeviceMemory memory, DeviceMemory::allocate(static_cast<uint64_t>(bytes), purpose));
  address = memory.address();
  memory_.push_back(std::move(memory));
  return {};
}

Result<GroupMemory> GroupMemory::create(const ModelConfig& config, const ExecutorLimits& limits,
                                        int blocks, bool int8) {
  GroupMemory group;
  weft_ascend::Workspace& to = group.addresses_;
  const int64_t rows = limits.rows;
  const int64_t queries = int64_t{config.heads} * config.head_dim;
  const int64_t qkv = queries + 2LL * config.kv_heads * config.head_dim;
  struct Stream {
    uint64_t& address;
    int64_t width;
    int64_t element;
  };
  for (const Stream& stream :
       {Stream{to.hidden, config.hidden, kFloat}, Stream{to.output_hidden, config.hidden, kFloat},
        Stream{to.update, config.hidden, kFloat}, Stream{to.normed, config.hidden, kHalf},
        Stream{to.output_normed, config.hidden, kHalf}, Stream{to.qkv, qkv, kFloat},
        Stream{to.queries, queries, kHalf}, Stream{to.attention, queries, kHalf},
        Stream{to.gate_up, 2LL * config.ffn, kHalf}, Stream{to.ffn, config.ffn, kHalf}}) {
    WEFT_RETURN_IF_ERROR(
        group.add(stream.address, rows * stream.width * stream.element, "a quantum's rows"));
  }
  const int64_t output_rows = std::min(limits.rows, limits.output_rows);
  WEFT_ASSIGN(
      group.logits_,
      DeviceMemory::allocate(static_cast<uint64_t>(output_rows * config.vocab * kFloat), "logits"));
  to.logits = group.logits_.address();
  if (int8) {
    WEFT_RETURN_IF_ERROR(
        group.add(to.matmul, blocks * weft_ascend::kInt8BlockBytes, "int8 weights' tiles"));
  }
  WEFT_RETURN_IF_ERROR(group.add(
      to.scratch, blocks * weft_ascend::AttentionWorkspaceBytes(config.head_dim), "attention"));
  // Most often every slot has one row at once.
  const int64_t longest = weft_ascend::KeySegments(limits.context);
  WEFT_RETURN_IF_ERROR(group.ensure_partials(
      limits.slots * longest * weft_ascend::AttentionPartialFloats(config.heads, config.head_dim) *
      kFloat));
  return group;
}

Result<bool> GroupMemory::ensure_partials(int64_t bytes) {
  if (partials_.size() >= static_cast<uint64_t>(bytes)) return false;
  WEFT_ASSIGN(partials_, DeviceMemory::allocate(static_cast<uint64_t>(bytes), "attention"));
  addresses_.partials = partials_.address();
  return true;
}

}  // namespace weft
