#pragma once
// QuantumRunner: takes the rows of one quantum through its layers, on all workers of a pool.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/cpu/attention.h"
#include "device/cpu/batch.h"
#include "device/cpu/experts.h"
#include "device/cpu/plan.h"
#include "device/cpu/shared_state.h"
#include "device/cpu/thread_pool.h"
#include "device/cpu/workspace.h"
#include "device/executor.h"
#include "kernels/kernel_table.h"

namespace weft {

// The engine thread prepares a quantum and reads its samples afterwards; in between every worker
// runs it once. Workers do the same loops in the same order, and each ends with the pool's barrier,
// so a stream that one loop wrote is whole in the next. Runners that share their state may run at
// the same time, each its own passes.
class QuantumRunner {
 public:
  // Takes all memory that a quantum within the limits needs on at most `threads` workers.
  static Result<std::unique_ptr<QuantumRunner>> create(SharedState& shared, int threads);

  explicit QuantumRunner(SharedState& shared);

  // For a pool of so many workers.
  void prepare(const Quantum& quantum, int threads);
  void operator()(ThreadPool::Worker& worker);

  const Quantum& quantum() const { return quantum_; }
  bool ends_at_head() const { return quantum_.layer_end == shared_.model.config.layers; }
  std::span<const Batch::Output> outputs() const { return batch_.outputs(); }
  const Sample& sample(size_t output) const { return workspace_.samples[output]; }

 private:
  // The rows that a layer works on; each worker walks through the same ones.
  struct Rows {
    int64_t count = 0;
    float* hidden = nullptr;    // [count, hidden]
    bool outputs_only = false;  // from somewhere in the last layer on: those that reach the head
  };

  const std::vector<Step>& steps(int layer) const;
  void begin_rows(ThreadPool::Worker& worker);
  void move_rows(ThreadPool::Worker& worker, bool save);
  void run_step(ThreadPool::Worker& worker, const Step& step, int layer, Rows& rows);
  RowSource source(const MultiplyStep& step, const Rows& rows);
  void pack_together(ThreadPool::Worker& worker, const MultiplyStep& step, const Rows& rows);
  void multiply(ThreadPool::Worker& worker, const MultiplyStep& step, const Rows& rows, float* out);
  void row_step(ThreadPool::Worker& worker, const RowStep& step, int layer, const Rows& rows);
  void send(ThreadPool::Worker& worker, int layer);
  void wait_for_senders(ThreadPool::Worker& worker, int layer);
  void keep_outputs(ThreadPool::Worker& worker, Rows& rows);
  void attention(ThreadPool::Worker& worker, int layer, const Rows& rows);
  void experts(ThreadPool::Worker& worker, const ExpertsStep& step, const Rows& rows);
  void head(ThreadPool::Worker& worker, const Rows& rows);
  float* stream_rows(Stream stream, const Rows& rows) {
    return stream == Stream::kHidden ? rows.hidden : workspace_.stream(stream);
  }

  SharedState& shared_;
  const KernelTable& kernels_;

  Workspace workspace_;
  AttentionPlan attention_;         // of all rows
  AttentionPlan output_attention_;  // of the rows that reach the head, where not all do
  Experts experts_;
  Batch batch_;
  Quantum quantum_;
  bool all_reach_head_ = false;
};

}  // namespace weft
