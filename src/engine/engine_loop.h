#pragma once
// The engine's thread: an inbox in front of an EngineCore.

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "base/queue.h"
#include "engine/engine.h"
#include "engine/engine_core.h"

namespace weft {

class Engine::Loop {
 public:
  Loop(Executor& executor, MetricsRegistry& metrics, const Clock& clock,
       const EngineOptions& options);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Any thread:
  Result<RequestId> submit(Request request, std::shared_ptr<EventSink> sink);
  void finish(RequestId id, FinishReason reason) { inbox_.push(Finish{id, reason}); }
  void drain() { draining_.store(true); }
  bool draining() const { return draining_.load(); }
  EngineStats stats() const EXCLUDES(mutex_);
  int context() const { return context_; }

 private:
  struct Submit {
    std::unique_ptr<Sequence> sequence;
  };
  struct Finish {
    RequestId id = 0;
    FinishReason reason = FinishReason::kCancelled;
  };
  struct Stop {};
  using Message = std::variant<Submit, Finish, Stop>;

  // Engine thread:
  void run();
  void read_inbox();
  void handle(Message message);
  void publish() EXCLUDES(mutex_);

  Executor& executor_;
  const Clock& clock_;
  const int vocab_;
  EngineCore core_;
  const int context_;
  Queue<Message> inbox_;
  std::vector<Message> messages_;  // of one look at the inbox; kept for its storage
  bool stopping_ = false;
  std::atomic<bool> draining_{false};
  std::atomic<RequestId> next_id_{1};

  mutable Mutex mutex_;
  EngineStats stats_ GUARDED_BY(mutex_);
  std::optional<TimePoint> busy_since_ GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace weft
