#pragma once
// SharedState: what the core groups of a CPU executor have in common, owned once.

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "device/cpu/cpu_executor.h"
#include "device/cpu/kv_cache.h"
#include "device/cpu/packed_weights.h"
#include "device/cpu/pass_store.h"
#include "device/cpu/plan.h"
#include "device/cpu/rope_angles.h"
#include "device/cpu/thread_pool.h"
#include "device/progress_board.h"
#include "device/sampler.h"
#include "kernels/kernel_table.h"
#include "model/model.h"

namespace weft {

struct SharedState {
  // Packs the weights with all threads of the pool and takes the memory of the rest.
  static Result<std::unique_ptr<SharedState>> create(const Model& model,
                                                     const Checkpoint& checkpoint,
                                                     const CpuOptions& options, ThreadPool& pool,
                                                     const std::function<void(double)>& progress);

  SharedState(const Model& model, const CpuOptions& options, PackedWeights packed);

  // Never changed once made.
  const Model& model;
  const KernelTable& kernels;
  const ExecutorLimits limits;
  const LogitsObserver on_logits;
  const PackedWeights weights;
  const Plan plan;
  RopeAngles angles;

  // Changed by the groups, each its own passes', slots' and sequences' part.
  KvCache kv;
  PassStore passes;
  ProgressBoard board;
  std::vector<SamplerState> slots;  // by SlotId
  std::atomic<Duration::rep> last_layer_end{0};
};

}  // namespace weft
