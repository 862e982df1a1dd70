#pragma once
// The executor on CPU cores.

#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "device/executor.h"
#include "kernels/kernel_table.h"
#include "model/model.h"

namespace weft {

// Sees the logits [vocab] of each output row of a quantum before its token is drawn, on any worker:
// for tests.
using LogitsObserver = std::function<void(int64_t output, std::span<const float> logits)>;

struct CpuOptions {
  const KernelTable* kernels = nullptr;
  int threads = 1;
  // Cores of Group::kPrefill and Group::kDecode: both 0, there are no such groups, or both at least
  // 1 and together at most `threads`. They have threads of their own, parked while all cores run as
  // one group. Each needs the memory of a quantum, but for kPrefill, which shares it with kAll.
  int prefill_threads = 0;
  int decode_threads = 0;
  // One worker on each of the first physical cores. kDecode has the first of kAll's cores, and so
  // the engine thread's, which plans while streams wait for it; kPrefill has those that follow.
  bool pin = false;
  KvType kv_type = KvType::kF16;
  ExecutorLimits limits;  // all set
  LogitsObserver on_logits;
};

// Bytes of one KV block over all layers, and of the packed weights.
int64_t kv_block_bytes(const Model& model, const KernelTable& kernels, KvType type);
int64_t packed_weight_bytes(const Model& model, const KernelTable& kernels);

// Packs the weights (all threads; the file's pages are dropped as they are packed) and allocates
// everything that a step needs. progress(share done, 0 ... 1) is called from this thread. Model and
// checkpoint must outlive the executor only as far as Model's config, names and operations go: no
// weight byte is read after this returns.
Result<std::unique_ptr<Executor>> make_cpu_executor(
    const Model& model, const Checkpoint& checkpoint, const CpuOptions& options,
    const std::function<void(double)>& progress = {});

}  // namespace weft
