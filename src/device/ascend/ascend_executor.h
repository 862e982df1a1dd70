#pragma once
// The executor on an Ascend NPU through AscendCL, or on the twin that stands for one. Never yet run
// on a card.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "device/ascend/device_weights.h"
#include "device/executor.h"
#include "kernels/kernel_table.h"
#include "model/model.h"

namespace weft {

struct AscendOptions {
  std::string name = "ascend";  // in the description: what the device is
  int ordinal = 0;
  std::string kernels = "weft_kernels.o";  // the file that the kernels were compiled to
  int cores = 1;                           // cube cores, each with two vector cores
  // Cores of Group::kPrefill and Group::kDecode: both 0, there are no such groups, or together all.
  int prefill_cores = 0;
  int decode_cores = 0;
  AscendWeights weights = AscendWeights::kAuto;
  const KernelTable* host_kernels = nullptr;  // draws the tokens that the device does not draw
  ExecutorLimits limits;                      // all set; tile_rows is the device's
  int64_t spin_cap = 1 << 26;  // looks at another core's flag before the launch counts as lost
  int64_t epoch_quanta = 1 << 20;
  // Sees the logits [vocab] of each output row of a quantum: for tests.
  std::function<void(int64_t output, std::span<const float> logits)> on_logits;
};

// Bytes of one KV block over all layers, and of the weights; errors as make_ascend_executor's.
int64_t ascend_kv_block_bytes(const Model& model);
Result<uint64_t> ascend_weight_bytes(const Model& model, AscendWeights weights);

// Converts the weights and allocates what every step needs. progress(share done, 0 ... 1) is called
// from this thread. Model and checkpoint must outlive the executor only as far as Model's config
// goes.
Result<std::unique_ptr<Executor>> make_ascend_executor(
    const Model& model, const Checkpoint& checkpoint, const AscendOptions& options,
    const std::function<void(double)>& progress = {});

}  // namespace weft
