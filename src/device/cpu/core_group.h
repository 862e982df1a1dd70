#pragma once
// CoreGroup: cores that run one quantum at a time, and what became of it.

#include <memory>

#include "base/check.h"
#include "base/clock.h"
#include "device/cpu/quantum_runner.h"
#include "device/cpu/shared_state.h"
#include "device/cpu/thread_pool.h"
#include "device/executor.h"

namespace weft {

// Used by the engine thread. Groups that never run at the same time may share a runner.
class CoreGroup {
 public:
  CoreGroup(std::unique_ptr<ThreadPool> pool, SharedState& shared, QuantumRunner& runner)
      : pool_(std::move(pool)), shared_(shared), runner_(runner) {}
  ~CoreGroup() {
    if (running_) pool_->join();
  }
  CoreGroup(const CoreGroup&) = delete;
  CoreGroup& operator=(const CoreGroup&) = delete;

  int cores() const { return pool_->threads(); }

  void start(const Quantum& quantum);
  bool running() const { return running_; }
  // Null if none is running.
  const Quantum* quantum() const { return running_ ? &runner_.quantum() : nullptr; }
  // Whether finish() returns at once.
  bool done() const { return pool_->done(); }
  TimePoint end() const { return pool_->end(); }
  // Ends the running quantum: its passes stand at its last layer, its samples count.
  void finish(Completion& completion);

  // Where the cores' time went, up to the last quantum's start while one is running. A group whose
  // cores another one uses is paused.
  ThreadPool::Time time(TimePoint now) const { return running_ ? before_ : pool_->time(now); }
  void pause(TimePoint now) { pool_->pause(now); }
  void resume(TimePoint now) { pool_->resume(now); }

 private:
  void collect_outputs(Completion& completion);

  std::unique_ptr<ThreadPool> pool_;
  SharedState& shared_;
  QuantumRunner& runner_;
  bool running_ = false;
  TimePoint started_{};
  ThreadPool::Time before_;
};

}  // namespace weft
