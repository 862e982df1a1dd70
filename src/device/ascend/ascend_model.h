#pragma once
// AscendModel: a model in device memory with all that its quanta read and write: weights, rope
// tables, the KV pool, the slots' tokens, passes between quanta, and the groups' workspaces.

#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "device/ascend/acl_device.h"
#include "device/ascend/device_weights.h"
#include "device/ascend/group_memory.h"
#include "device/ascend/layer_roles.h"
#include "device/executor.h"
#include "model/model.h"

namespace weft {

// Bytes of one KV block over all layers.
int64_t ascend_kv_block_bytes(const Model& model);

class AscendModel {
 public:
  struct Sizes {
    ExecutorLimits limits;
    int cores = 1;       // that may run a quantum together
    int workspaces = 1;  // groups that run at the same time: 1 or 2
  };
  // progress(share done, 0 ... 1).
  static Result<std::unique_ptr<AscendModel>> create(const Model& model,
                                                     const std::vector<LayerRoles>& layers,
                                                     const Checkpoint& checkpoint,
                                                     AscendWeights weights, const Sizes& sizes,
                                                     const std::function<void(double)>& progress);

  // Of a weft_ascend::DeviceModel, and of a weft_ascend::Workspace for each ring.
  uint64_t address() const { return model_.address(); }
  uint64_t workspaces() const { return workspaces_.address(); }

  // Of the workspace's current quantum: row i of those that reached the head at once.
  Status read_logits(int workspace, int row, std::span<float> logits) const;
  // Room for attention's partial results, before a quantum of the workspace.
  Status ensure_partials(int workspace, int64_t bytes);
  // Of a pass of `rows` rows between quanta: those behind [first, first + count) move up.
  Status drop_rows(PassId pass, int64_t rows, int64_t first, int64_t count);

 private:
  AscendModel(const ModelConfig& config, const Sizes& sizes) : config_(config), sizes_(sizes) {}

  Status allocate(const Model& model);
  Status load_rope(const Model& model);
  Status describe(int64_t block_bytes);
  Status write_workspaces();

  const ModelConfig config_;
  const Sizes sizes_;
  DeviceWeights weights_;
  DeviceMemory layer_weights_;
  DeviceMemory rope_cos_;
  DeviceMemory rope_sin_;
  DeviceMemory kv_;
  DeviceMemory slot_tokens_;
  DeviceMemory passes_;  // [passes, rows, hidden]
  DeviceMemory model_;
  DeviceMemory workspaces_;
  std::vector<GroupMemory> memory_;
};

}  // namespace weft
