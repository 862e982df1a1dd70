#pragma once
// Engine: continuous batching of requests on one executor.

#include <cstdint>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/result.h"
#include "device/executor.h"
#include "engine/engine_options.h"
#include "engine/request.h"
#include "metrics/registry.h"

namespace weft {

// A look from outside; each number is current to within a step.
struct EngineStats {
  int running = 0;
  int waiting = 0;
  int blocks_used = 0;    // held by requests
  int blocks_cached = 0;  // kept for their content alone
  int blocks_total = 0;
  uint64_t steps = 0;  // decode steps
  uint64_t quanta = 0;
  Duration itl_target{};  // the one given or found
  // Core-seconds while work waited: in operators, waiting for other cores, and in neither. Their
  // sum is cores x wall.
  double wall_seconds = 0;
  double busy_core_seconds = 0;
  double barrier_core_seconds = 0;
  double idle_core_seconds = 0;
  // The shortest time in which that work could be done, where the machine's limits are known.
  std::optional<double> roofline_core_seconds;
  double host_seconds = 0;   // between quanta while work waited
  double stall_seconds = 0;  // of streams, beyond their own gaps without prompts
  uint64_t preemptions = 0;
  uint64_t missed_steps = 0;  // in which the prompts' floor had to go over a stream's target
  double seconds_since_progress = 0;  // while work waits: how long no layer has ended; 0 when idle
};

// Owns the engine thread, which alone talks to the executor. submit, finish and stats may be called
// by any thread.
class Engine {
 public:
  // The executor, the registry and the clock must outlive the engine.
  Engine(Executor& executor, MetricsRegistry& metrics, const Clock& clock,
         const EngineOptions& options);
  ~Engine();  // cancels what is left and joins the thread
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Checks the request against vocabulary, context and pool; an error names the value and is for
  // the client. After success the sink gets exactly one kFinished.
  Result<RequestId> submit(Request request, std::shared_ptr<EventSink> sink);

  // Ends a request at the next quantum boundary; its kFinished carries `reason`. Unknown and
  // finished ids are ignored.
  void finish(RequestId id, FinishReason reason);

  // No further submit succeeds; what runs goes on.
  void drain();
  bool draining() const;

  EngineStats stats() const;

  // Longest sequence, prompt and output together.
  int context() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace weft
