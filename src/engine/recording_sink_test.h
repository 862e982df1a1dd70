#pragma once
// What one request heard, for tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/request.h"

namespace weft {

// Thread-safe. Holds the engine to the order of events.
class RecordingSink : public EventSink {
 public:
  void on_event(EngineEvent event) override EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    EXPECT_FALSE(finished_) << "an event after kFinished";
    switch (event.kind) {
      case EngineEvent::Kind::kPromptLogprob:
        EXPECT_TRUE(tokens_.empty()) << "a prompt logprob after an output";
        prompt_.push_back(std::move(event));
        break;
      case EngineEvent::Kind::kToken:
        tokens_.push_back(std::move(event));
        break;
      case EngineEvent::Kind::kFinished:
        EXPECT_EQ(event.output_tokens, static_cast<int>(tokens_.size()));
        EXPECT_EQ(event.message.empty(), event.reason != FinishReason::kError);
        EXPECT_EQ(event.message.find('\n'), std::string::npos);
        end_ = std::move(event);
        finished_ = true;
        break;
    }
    changed_.notify_all();
  }

  bool finished() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return finished_;
  }
  void wait_finished() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!finished_) changed_.wait(mutex_);
  }
  void wait_tokens(size_t n) const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (!finished_ && tokens_.size() < n) changed_.wait(mutex_);
  }

  std::vector<EngineEvent> prompt() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return prompt_;
  }
  std::vector<EngineEvent> events() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return tokens_;
  }
  std::vector<TokenId> tokens() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::vector<TokenId> ids;
    ids.reserve(tokens_.size());
    for (const EngineEvent& event : tokens_) ids.push_back(event.token);
    return ids;
  }
  EngineEvent end() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    EXPECT_TRUE(finished_);
    return end_;
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::vector<EngineEvent> prompt_ GUARDED_BY(mutex_);
  std::vector<EngineEvent> tokens_ GUARDED_BY(mutex_);
  EngineEvent end_ GUARDED_BY(mutex_);
  bool finished_ GUARDED_BY(mutex_) = false;
};

// Two events that a client could not tell apart.
inline bool same_event(const EngineEvent& a, const EngineEvent& b) {
  const auto same_top = [](const TokenLogprob& x, const TokenLogprob& y) {
    return x.token == y.token && x.logprob == y.logprob;
  };
  return a.kind == b.kind && a.token == b.token && a.logprob == b.logprob && a.reason == b.reason &&
         a.message == b.message &&
         std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(), same_top);
}

inline bool same_events(const std::vector<EngineEvent>& a, const std::vector<EngineEvent>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_event);
}

}  // namespace weft
