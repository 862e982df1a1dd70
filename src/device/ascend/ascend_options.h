#pragma once
// What an Ascend executor is made with.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "device/ascend/device_weights.h"
#include "device/executor.h"
#include "kernels/kernel_table.h"

namespace weft {

struct ResidentOptions;

struct AscendOptions {
  std::string name = "ascend";  // in the description: what the device is
  int ordinal = 0;
  std::string kernels = "weft_kernels_npu.o";  // the file that the kernels were compiled to
  int cores = 1;                               // cube cores, each with two vector cores
  // Cores of Group::kPrefill and Group::kDecode: both 0, there are no such groups, or together all.
  int prefill_cores = 0;
  int decode_cores = 0;
  AscendWeights weights = AscendWeights::kAuto;
  const KernelTable* host_kernels = nullptr;  // draws the tokens that the device does not draw
  ExecutorLimits limits;                      // all set, but for tile_rows: device_limits()
  int64_t spin_cap = 1 << 26;  // looks at another core's flag before the launch counts as lost
  int64_t epoch_quanta = 1 << 20;
  // Sees the logits [vocab] of each output row of a quantum: for tests.
  std::function<void(int64_t output, std::span<const float> logits)> on_logits;

  bool split() const { return prefill_cores > 0; }
  int cores_of(Group group) const;  // 0: there is no such group
  // The limits that the device keeps.
  ExecutorLimits device_limits() const;
  // Holds cores and limits to what can be; `block_bytes` of a KV block over all layers.
  Status check(int64_t block_bytes) const;
  std::string describe() const;
};

// How the resident kernel is launched on a device that ends kernels after `time_limit`.
ResidentOptions resident_options(const AscendOptions& options, Duration time_limit);

}  // namespace weft
