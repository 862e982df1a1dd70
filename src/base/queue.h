#pragma once
// Queue<T>: unbounded, any number of producers and consumers.

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"

namespace weft {

template <class T>
class Queue {
 public:
  void push(T item) EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
  }

  // Blocks until an item is there.
  T pop() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (items_.empty()) ready_.wait(mutex_);
    return take_front();
  }

  // Blocks until an item is there or the deadline has passed.
  std::optional<T> pop_until(TimePoint deadline) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (items_.empty()) {
      if (!ready_.wait_until(mutex_, deadline) && items_.empty()) return std::nullopt;
    }
    return take_front();
  }

  // Moves everything queued to the end of `out` without waiting.
  void drain(std::vector<T>& out) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    for (T& item : items_) out.push_back(std::move(item));
    items_.clear();
  }

 private:
  T take_front() REQUIRES(mutex_) {
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

  Mutex mutex_;
  CondVar ready_;
  std::deque<T> items_ GUARDED_BY(mutex_);
};

}  // namespace weft
