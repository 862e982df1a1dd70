#pragma once
// EngineCore: the engine without a thread. At each quantum boundary requests come and go, what runs
// next is planned and started, and what has ended is committed.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cache/block_pool.h"
#include "device/executor.h"
#include "engine/core_usage.h"
#include "engine/engine.h"
#include "engine/engine_metrics.h"
#include "engine/engine_options.h"
#include "engine/open_pass.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/slot_pool.h"

namespace weft {

// One thread at a time.
class EngineCore {
 public:
  // The executor, the registry, the clock and the trace must outlive it.
  EngineCore(Executor& executor, MetricsRegistry& metrics, const Clock& clock,
             const EngineOptions& options);
  ~EngineCore();  // cancels what is left; requires that nothing runs

  // Longest sequence that the device and the pool hold, prompt and output together.
  int context() const { return context_; }

  void add(std::unique_ptr<Sequence> sequence);
  // Ids that are unknown or finished are ignored. A request with rows in a running quantum ends
  // when that has ended.
  void finish(RequestId id, FinishReason reason);
  void cancel_all();

  bool idle() const { return live_.empty(); }
  int running() const { return running_; }
  int waiting() const { return static_cast<int>(live_.size()) - running_; }
  const BlockPool& blocks() const { return blocks_; }
  uint64_t missed_steps() const { return missed_steps_; }
  uint64_t preemptions() const { return preemptions_; }
  // All but seconds_since_progress.
  EngineStats stats() const;

  // In this order, again and again. start() ends requests whose time is up, plans, and starts what
  // idle groups run next; deliver() hands out events, while other cores already work; wait() and
  // commit() take in a finished quantum, if one was started: started().
  void start();
  void deliver();
  bool started() const { return running_quanta_ > 0; }
  void wait();
  void commit();

 private:
  // A started quantum of a group.
  struct Running {
    Quantum quantum;
    std::vector<OpenPass*> passes;
    Work work;
    int prompt_rows = 0;  // of its rows
    Duration predicted{};
    Duration decode_only{};  // of it, what the streams' rows would have taken alone
  };
  // A row that the device reported, and whose it is.
  struct Reported {
    Sequence* sequence;
    const OutputRow* row;
    int position;
    Outputs outputs;
  };

  void end_late(TimePoint now);
  void plan_and_start(TimePoint now);
  void read_state(TimePoint now);
  bool preempts_running() const;
  void apply_admission(TimePoint now);
  void open_passes();
  void start_quantum(const QuantumPlan& plan);
  OpenPass* pass_of(int index, OpenPass* opened) const;

  Running& completed();
  void commit_quantum(Running& running);
  void account(const Running& running);
  void pay_floor(const Running& running, Duration took);
  void trace(const Running& running, Group group);
  void end_passes(Running& running);
  void commit_output(const Reported& reported, TimePoint now);
  void commit_prompt_row(Sequence& sequence, const Reported& reported);
  void commit_sample(Sequence& sequence, const OutputRow& row, TimePoint now);
  void fail(const Running& running, const std::string& reason);
  void end(Sequence& sequence, Sequence::End how);
  void leave_passes(Sequence& sequence);
  void sweep();  // sets the finished apart
  void report();

  Executor& executor_;
  const Clock& clock_;
  EngineOptions options_;  // the costs as learned so far
  const Policy policy_;
  const SchedulerLimits limits_;
  const int context_;
  EngineMetrics metrics_;
  BlockPool blocks_;
  SlotPool slots_;
  PassTable passes_;
  std::vector<std::unique_ptr<Sequence>> live_;   // in order of arrival
  std::vector<std::unique_ptr<Sequence>> ended_;  // until their last events are delivered
  int running_ = 0;
  uint64_t quanta_ = 0;
  uint64_t steps_ = 0;
  uint64_t missed_steps_ = 0;
  uint64_t preemptions_ = 0;
  uint64_t prompt_quanta_ = 0;
  Duration prefill_debt_{};  // of prompts' floor of the time, while streams run as well
  CoreUsage usage_;

  std::array<Running, kGroups> groups_;
  int running_quanta_ = 0;

  // Of the current boundary; kept for their storage.
  SchedulerState state_;
  AdmissionPlan admission_;
  StepPlan plan_;
  OpenPass* opened_decode_ = nullptr;
  OpenPass* opened_prefill_ = nullptr;
  Completion completion_;
  Completion held_completion_;
  std::vector<Reported> reported_;
};

}  // namespace weft
