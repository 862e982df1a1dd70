#pragma once
// QuantumRunner: takes the rows of one quantum through its layers, on all workers of a pool.

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/cpu/attention.h"
#include "device/cpu/batch.h"
#include "device/cpu/cpu_executor.h"
#include "device/cpu/experts.h"
#include "device/cpu/packed_weights.h"
#include "device/cpu/plan.h"
#include "device/cpu/rope_angles.h"
#include "device/cpu/thread_pool.h"
#include "device/cpu/workspace.h"
#include "device/executor.h"
#include "device/sampler.h"
#include "kernels/kernel_table.h"
#include "model/model.h"

namespace weft {

// The engine thread prepares a quantum and reads its samples afterwards; in between every worker
// runs it once. Workers do the same loops in the same order, and each ends with the pool's barrier,
// so a stream that one loop wrote is whole in the next.
class QuantumRunner {
 public:
  QuantumRunner(const Model& model, const CpuOptions& options, PackedWeights weights);
  // Takes all memory that any quantum within the limits needs.
  Status allocate(const CpuOptions& options);

  // `slots` [limits.slots]: their last samples now, their parameters while it runs.
  void prepare(const Quantum& quantum, std::span<const SamplerState> slots);
  void operator()(ThreadPool::Worker& worker);

  // The pass's rows lie where they were left, `rows` of them.
  void drop_rows(PassId pass, int64_t first, int64_t count, int64_t rows);
  TimePoint last_layer_end() const {
    return TimePoint(Duration(last_layer_end_.load(std::memory_order_relaxed)));
  }

  const Quantum& quantum() const { return quantum_; }
  bool ends_at_head() const { return quantum_.layer_end == model_.config.layers; }
  std::span<const Batch::Output> outputs() const { return batch_.outputs(); }
  const Sample& sample(size_t output) const { return workspace_.samples[output]; }

 private:
  // The rows that a layer works on; each worker walks through the same ones.
  struct Rows {
    int64_t count = 0;
    float* hidden = nullptr;  // [count, hidden]
    bool last_layer = false;
  };

  void begin_rows(ThreadPool::Worker& worker);
  void move_rows(ThreadPool::Worker& worker, bool save);
  void run_step(ThreadPool::Worker& worker, const Step& step, int layer, Rows& rows);
  RowSource source(const MultiplyStep& step, const Rows& rows);
  void pack_together(ThreadPool::Worker& worker, const MultiplyStep& step, const Rows& rows);
  void multiply(ThreadPool::Worker& worker, const MultiplyStep& step, const Rows& rows, float* out);
  void row_step(ThreadPool::Worker& worker, const RowStep& step, int layer);
  void keep_outputs_only(ThreadPool::Worker& worker, Rows& rows);
  void attention(ThreadPool::Worker& worker, int layer, const Rows& rows);
  void experts(ThreadPool::Worker& worker, const ExpertsStep& step, const Rows& rows);
  void head(ThreadPool::Worker& worker, const Rows& rows);
  float* stream_rows(Stream stream, const Rows& rows) {
    return stream == Stream::kHidden ? rows.hidden : workspace_.stream(stream);
  }
  KvLayerView kv(int layer);

  const Model& model_;
  const ExecutorLimits limits_;
  const KernelTable& kernels_;
  const KvLayout layout_;
  const LogitsObserver on_logits_;

  PackedWeights weights_;
  Plan plan_;
  RopeAngles angles_;
  Workspace workspace_;
  AttentionPlan attention_;         // of all rows
  AttentionPlan output_attention_;  // of output rows, for the last layer
  Experts experts_;
  Batch batch_;

  std::atomic<Duration::rep> last_layer_end_{0};
  Quantum quantum_;
  std::span<const SamplerState> slots_;
};

}  // namespace weft
