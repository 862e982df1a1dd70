#pragma once
// ThreadPool: the persistent threads of one core group.
//
// A job is one function that every worker runs (worker 0 is the thread that calls join()). Inside
// it the workers meet in parallel_for, which splits items into static shares, lets whoever is done
// first take what is left in the shares of others, and ends with the only barrier. So a job may be
// under way, and even all but finished, before its worker 0 comes. Nothing here allocates or locks
// after construction; a system call is made only to park and to wake a thread.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace weft {

// A counter that threads wait on: they spin for a while, soon leaving the core to whoever else
// wants it, then park.
class WaitCounter {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  void advance();
  // Returns once value() != seen; what happened before the advance() is visible then.
  void wait_past(uint32_t seen, Duration spin);

 private:
  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> parked_{0};
};

// Binds the calling thread to one logical CPU.
Status pin_this_thread(int cpu);

class ThreadPool {
 public:
  class Worker;

  // `threads` counts the caller of join() as well. With `cpus` (empty, or one for each worker)
  // worker i runs on cpus[i] only; the thread that will call join() is not touched: it calls
  // pin_this_thread(cpus[0]) if it is to stay.
  static Result<std::unique_ptr<ThreadPool>> create(int threads, std::span<const int> cpus = {});
  ~ThreadPool();  // requires that no job is unjoined
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()); }

  // start() publishes job(Worker&) and returns at once: workers 1 ... n-1 begin. `job` is only
  // referred to, and must live until join(). join() works as worker 0 and returns when every worker
  // has left the job. One thread at a time calls them, alternately.
  template <class Job>
  void start(Job& job) {
    publish([](void* context, Worker& worker) { (*static_cast<Job*>(context))(worker); }, &job);
  }
  void join();
  template <class Job>
  void run(Job&& job) {
    start(job);
    join();
  }

  // Time that worker i has spent on items, over all jobs so far. Requires that no job is unjoined.
  Duration busy(int i) const;

 private:
  using Entry = void (*)(void* context, Worker& worker);

  explicit ThreadPool(int threads);
  void publish(Entry entry, void* context);
  void serve(Worker& worker);
  void barrier();

  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::thread> threads_;
  Duration idle_spin_;     // between jobs
  Duration barrier_spin_;  // inside one

  Entry entry_ = nullptr;  // null ends the threads
  void* context_ = nullptr;
  bool running_ = false;
  alignas(64) WaitCounter jobs_;
  alignas(64) WaitCounter barriers_;
  alignas(64) std::atomic<int> arrived_{0};
};

// What a job sees of the pool: its own place in it.
class alignas(64) ThreadPool::Worker {
 public:
  Worker(ThreadPool& pool, int index) : pool_(pool), index_(index) {}

  int index() const { return index_; }
  int count() const { return pool_.threads(); }

  // A grain for parallel_for: few enough items that the workers end together.
  int64_t grain(int64_t items) const {
    return std::max<int64_t>(1, items / (int64_t{8} * count()));
  }

  // Calls f(begin, end) for [0, grain), [grain, 2 grain) ... up to `items`, each exactly once and
  // on any worker; returns when all are done. Every worker of a job must make the same calls in the
  // same order; f makes none.
  template <class F>
  void parallel_for(int64_t items, int64_t grain, const F& f);

 private:
  friend class ThreadPool;

  ThreadPool& pool_;
  const int index_;
  uint32_t generation_ = 0;  // parallel_for calls so far; the same on all workers that are in one
  Duration busy_{};
  // Chunks taken of this worker's share, in even and in odd generations. While one is in use the
  // owner clears the other, which nobody has touched since the barrier before and nobody will until
  // the barrier to come.
  alignas(64) std::atomic<int64_t> taken_[2] = {0, 0};
};

template <class F>
void ThreadPool::Worker::parallel_for(int64_t items, int64_t grain, const F& f) {
  const TimePoint begin = std::chrono::steady_clock::now();
  const unsigned side = generation_ & 1;
  taken_[side ^ 1].store(0, std::memory_order_relaxed);
  const int workers = count();
  const int64_t chunks = (items + grain - 1) / grain;
  for (int i = 0; i < workers; ++i) {
    Worker& owner = *pool_.workers_[(index_ + i) % workers];
    std::atomic<int64_t>& taken = owner.taken_[side];
    const int64_t first = chunks * owner.index_ / workers;
    const int64_t share = chunks * (owner.index_ + 1) / workers - first;
    while (taken.load(std::memory_order_relaxed) < share) {
      const int64_t at = taken.fetch_add(1, std::memory_order_relaxed);
      if (at >= share) break;
      f((first + at) * grain, std::min((first + at + 1) * grain, items));
    }
  }
  ++generation_;
  busy_ += std::chrono::steady_clock::now() - begin;
  pool_.barrier();
}

}  // namespace weft
