#pragma once
// EngineCore: the engine without a thread. A step is plan, start, wait, commit; between steps
// requests come and go.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cache/block_pool.h"
#include "device/executor.h"
#include "engine/engine_metrics.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/slot_pool.h"
#include "engine/step_batch.h"

namespace weft {

// One thread at a time.
class EngineCore {
 public:
  // The executor, the registry and the clock must outlive it.
  EngineCore(Executor& executor, MetricsRegistry& metrics, const Clock& clock, Policy policy,
             int chunk_rows);
  ~EngineCore();  // cancels what is left

  // Longest sequence that the device and the pool hold, prompt and output together.
  int context() const { return context_; }

  // Not between start_step and wait_step: a quantum may name what they give back.
  void add(std::unique_ptr<Sequence> sequence);
  void finish(RequestId id, FinishReason reason);  // ids that are unknown or finished are ignored
  void cancel_all();                               // nor between wait_step and commit_step

  bool idle() const { return live_.empty(); }
  int running() const { return running_; }
  int waiting() const { return static_cast<int>(live_.size()) - running_; }
  const BlockPool& blocks() const { return blocks_; }
  uint64_t steps() const { return steps_; }

  // In this order. A request finished between wait and commit gets nothing of the step.
  [[nodiscard]] bool start_step();  // false: nothing is left to run, and no step was started
  void wait_step();
  void commit_step();
  // What start_step planned, for tests and traces.
  const StepPlan& last_plan() const { return plan_; }

 private:
  void apply_plan(TimePoint now);
  void commit_output(const OutputRow& row, TimePoint now);
  void commit_prompt_row(Sequence& sequence, const OutputRow& row);
  void commit_sample(Sequence& sequence, const OutputRow& row, TimePoint now);
  void fail_step(const std::string& reason);
  void end(Sequence& sequence, FinishReason reason, std::string message = {});
  // False, and the sequence has ended, if its sink failed.
  bool deliver(Sequence& sequence, EngineEvent event);
  // Drops the finished and publishes the load.
  void sweep();

  Executor& executor_;
  const Clock& clock_;
  const Policy policy_;
  const SchedulerLimits limits_;
  const int context_;
  EngineMetrics metrics_;
  BlockPool blocks_;
  SlotPool slots_;
  std::vector<std::unique_ptr<Sequence>> live_;  // in order of arrival
  int running_ = 0;
  uint64_t steps_ = 0;

  // Of the current step; kept for their storage.
  SchedulerState state_;
  StepPlan plan_;
  StepBatch batch_;
  Completion completion_;
};

}  // namespace weft
