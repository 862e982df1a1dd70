#pragma once
// One client call while the engine works on it: its answers, fed by the engine thread, read by the
// server's.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "engine/engine.h"
#include "server/answer.h"
#include "server/response.h"

namespace weft {

// What the end of a request means for its client: nothing where the answer is complete, else the
// error to tell.
std::optional<ApiError> end_error(const EngineEvent& finished);

// The way from the engine thread to the server's. Bounded: what a client does not fetch may not
// fill the memory.
class EventInbox {
 public:
  struct Item {
    int answer = 0;
    EngineEvent event;
  };
  inline static constexpr size_t kMaxPendingBytes = 4U << 20U;  // some 20,000 tokens

  // wake: called on the pushing thread when the inbox stops being empty, and once when it
  // overflows; never after close() has returned. It must not block or throw.
  explicit EventInbox(std::function<void()> wake);

  void push(int answer, EngineEvent event) EXCLUDES(mutex_);
  std::vector<Item> take() EXCLUDES(mutex_);
  bool overflowed() const EXCLUDES(mutex_);
  void close() EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::function<void()> wake_ GUARDED_BY(mutex_);
  std::vector<Item> items_ GUARDED_BY(mutex_);
  size_t pending_bytes_ GUARDED_BY(mutex_) = 0;
  bool overflowed_ GUARDED_BY(mutex_) = false;
};

// Used by one thread at a time. Destroying it cancels what still runs.
class RunningCall {
 public:
  // Submits every answer, or none. `wake`: see EventInbox. The engine and the tokenizer must
  // outlive the call.
  static ApiResult<std::unique_ptr<RunningCall>> start(Engine& engine, PreparedCall prepared,
                                                       const Tokenizer& tokenizer,
                                                       ResponseIdentity identity,
                                                       std::function<void()> wake);
  ~RunningCall();
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

  // Takes in what the engine has sent. True if there was something.
  bool poll();
  // Every answer is complete, or the call failed.
  bool finished() const;
  // Set once the call failed; it holds for all answers.
  const std::optional<ApiError>& error() const { return error_; }
  bool overflowed() const { return inbox_->overflowed(); }
  // Fails the call with `error`, unless it has finished.
  void fail(ApiError error);

  // Events for what poll() brought; with the last ones once finished.
  std::string take_events();
  // The whole body; requires finished() without an error.
  std::string take_whole();

  bool stream() const { return prepared_.call.stream; }
  const std::string& id() const { return writer_.identity().id; }
  int prompt_tokens() const { return writer_.prompt_tokens(); }
  int output_tokens() const;

 private:
  RunningCall(Engine& engine, PreparedCall prepared, const Tokenizer& tokenizer,
              ResponseIdentity identity, std::function<void()> wake);
  std::optional<ApiError> submit_all();
  void on_item(const EventInbox::Item& item);
  void end_rest();

  Engine& engine_;
  const PreparedCall prepared_;
  ResponseWriter writer_;
  std::shared_ptr<EventInbox> inbox_;
  std::vector<Answer> answers_;
  std::vector<RequestId> requests_;  // [answers]
  std::vector<bool> engine_done_;    // [answers]: the engine has ended it, or was told to
  std::optional<ApiError> error_;
};

}  // namespace weft
