#pragma once
// GroupMemory: what the quanta of a group work in.

#include <vector>

#include "ascend/kernels/descriptor.h"
#include "base/result.h"
#include "device/ascend/acl_device.h"
#include "device/executor.h"
#include "model/model.h"

namespace weft {

class GroupMemory {
 public:
  // For quanta within the limits on at most `blocks` cores. `int8`: some weights are.
  static Result<GroupMemory> create(const ModelConfig& config, const ExecutorLimits& limits,
                                    int blocks, bool int8);

  const weft_ascend::Workspace& addresses() const { return addresses_; }
  const DeviceMemory& logits() const { return logits_; }
  // Room for attention's partial results; true if `addresses` has changed.
  Result<bool> ensure_partials(int64_t bytes);

 private:
  Status add(uint64_t& address, int64_t bytes, const char* purpose);

  weft_ascend::Workspace addresses_{};
  std::vector<DeviceMemory> memory_;
  DeviceMemory logits_;
  DeviceMemory partials_;
};

}  // namespace weft
