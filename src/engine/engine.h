#pragma once
// Engine: continuous batching of requests on one executor.

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "device/executor.h"
#include "engine/request.h"
#include "metrics/registry.h"

namespace weft {

struct EngineOptions {
  int chunk_rows = 256;  // prompt rows in a step at most; a running sequence's row always has its
                         // place beside them
};

// A look from outside; each number is current to within a step.
struct EngineStats {
  int running = 0;
  int waiting = 0;
  int blocks_used = 0;
  int blocks_total = 0;
  uint64_t steps = 0;
  double seconds_since_progress =
      0;  // while work waits: how long no quantum has finished; 0 when idle
};

// Owns the engine thread, which alone talks to the executor. submit, finish and stats may be called
// by any thread.
class Engine {
 public:
  // The executor, the registry and the clock must outlive the engine.
  Engine(Executor& executor, MetricsRegistry& metrics, const Clock& clock, EngineOptions options);
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
