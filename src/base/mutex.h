#pragma once
// std::mutex and std::condition_variable with clang's thread-safety annotations: a member marked
// GUARDED_BY(mutex_) that is touched without the lock does not compile under clang.

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define WEFT_ANNOTATION(x) __attribute__((x))
#else
#define WEFT_ANNOTATION(x)
#endif
#define CAPABILITY(x) WEFT_ANNOTATION(capability(x))
#define SCOPED_CAPABILITY WEFT_ANNOTATION(scoped_lockable)
#define GUARDED_BY(x) WEFT_ANNOTATION(guarded_by(x))
#define REQUIRES(...) WEFT_ANNOTATION(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) WEFT_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) WEFT_ANNOTATION(release_capability(__VA_ARGS__))
#define EXCLUDES(...) WEFT_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace weft {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) { cv_.wait(mutex); }
  template <class Clock, class Dur>
  bool wait_until(Mutex& mutex, std::chrono::time_point<Clock, Dur> deadline) REQUIRES(mutex) {
    return cv_.wait_until(mutex, deadline) == std::cv_status::no_timeout;
  }
  void notify_one() { cv_.notify_one(); }
  void notify_all() { cv_.notify_all(); }

 private:
  std::condition_variable_any cv_;
};

}  // namespace weft
