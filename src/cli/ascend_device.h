#pragma once
// The flags of --device ascend and ascend-twin, and what they make of a model.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "device/executor.h"
#include "kernels/kernel_table.h"
#include "model/model.h"

namespace weft {

enum class DeviceKind : uint8_t { kCpu, kAscendTwin, kAscend };

// "cpu", "ascend-twin", "ascend". An error says why this build has no such device.
Result<DeviceKind> find_device(const std::string& name);

struct AscendFlags {
  std::string chip = "910B3";    // of the twin: 910B1 to 910B4, article
  int cores = 0;                 // 0: all of a card, a few of the twin
  uint64_t seed = 1;             // of the order in which the twin's pipes run
  std::string weights = "auto";  // auto: Q8_0 as int8; half
  std::string kernels = "weft_kernels_npu.o";
  int ordinal = 0;  // of the card
};

// Cores that a device of these flags has; an error names the flag.
Result<int> ascend_cores(DeviceKind kind, const AscendFlags& flags);

// Memory that can be shared out among weights and KV blocks, on the card or behind the twin.
Result<uint64_t> ascend_memory(const AscendFlags& flags);
Result<uint64_t> ascend_flags_weight_bytes(const Model& model, const AscendFlags& flags);

// Groups of cores as the executor has them: 0, there are none.
struct CoreSplit {
  int prefill = 0;
  int decode = 0;
};

Result<std::unique_ptr<Executor>> make_ascend_device(DeviceKind kind, const AscendFlags& flags,
                                                     const Model& model,
                                                     const Checkpoint& checkpoint,
                                                     const KernelTable& host_kernels,
                                                     const ExecutorLimits& limits, CoreSplit split,
                                                     const std::function<void(double)>& progress);

}  // namespace weft
