#pragma once
// ThreadPool: the persistent threads of one core group.
//
// A job is one function that every worker runs. Inside it the workers meet in parallel_for, which
// splits items into static shares, lets whoever is done first take what is left in the shares of
// others, and ends with the only barrier. Nothing here allocates or locks after construction; a
// system call is made only to park and to wake a thread.
//
// Who starts jobs may be worker 0 himself, inside join(): then a job may be under way, and even all
// but finished, before its worker 0 comes. Or all workers are threads of the pool, and the starter
// sleeps on a counter that the last of them advances.

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
#include "device/wait_counter.h"

namespace weft {

// Binds the calling thread to one logical CPU.
Status pin_this_thread(int cpu);

class ThreadPool {
 public:
  class Worker;

  // Where workers' time went. What is none of these is the way from one to the next.
  struct Time {
    Duration operators{};  // on items
    Duration barriers{};   // within a job, for each other or for what wait() was told to wait for
    Duration idle{};       // between jobs

    Time& operator+=(const Time& t) {
      operators += t.operators;
      barriers += t.barriers;
      idle += t.idle;
      return *this;
    }
  };

  // With `cpus` (empty, or one for each worker) worker i runs on cpus[i] only. Without `finished`
  // the caller of join() is worker 0 and is not touched: it calls pin_this_thread(cpus[0]) if it is
  // to stay. With it (alive as long as the pool) all workers are threads of the pool, and it is
  // advanced after every job.
  static Result<std::unique_ptr<ThreadPool>> create(int threads, std::span<const int> cpus = {},
                                                    WaitCounter* finished = nullptr);
  ~ThreadPool();  // requires that no job is unjoined
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()); }

  // start() publishes job(Worker&) and returns at once. `job` is only referred to, and must live
  // until join(), which returns when every worker has left the job: at once if done(). One thread
  // at a time calls them, alternately.
  template <class Job>
  void start(Job& job) {
    publish([](void* context, Worker& worker) { (*static_cast<Job*>(context))(worker); }, &job);
  }
  bool done() const { return done_.load(std::memory_order_acquire); }
  void join();
  template <class Job>
  void run(Job&& job) {
    start(job);
    join();
  }

  // The rest requires that no job is unjoined.
  // When the last worker left the last job.
  TimePoint end() const { return end_; }
  // Of all workers since the pool was made, with the idle time up to `now`. Idle time does not
  // count between pause() and resume(): others use the cores.
  Time time(TimePoint now) const;
  void pause(TimePoint now);
  void resume(TimePoint now);

 private:
  using Entry = void (*)(void* context, Worker& worker);

  ThreadPool(int threads, WaitCounter* finished);
  void publish(Entry entry, void* context);
  void serve(Worker& worker);
  void work(Worker& worker);
  void barrier();
  bool arrive_last() { return arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads(); }

  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::thread> threads_;
  Duration idle_spin_;     // between jobs
  Duration barrier_spin_;  // inside one

  Entry entry_ = nullptr;  // null ends the threads
  void* context_ = nullptr;
  bool running_ = false;
  bool paused_ = false;
  TimePoint end_{};
  TimePoint idle_since_{};
  Duration idle_at_pauses_{};

  WaitCounter own_finished_;
  WaitCounter* const finished_;
  alignas(64) WaitCounter jobs_;
  alignas(64) WaitCounter barriers_;
  alignas(64) std::atomic<int> arrived_{0};
  std::atomic<bool> done_{true};
};

// What a job sees of the pool: its own place in it.
class alignas(64) ThreadPool::Worker {
 public:
  Worker(ThreadPool& pool, int index) : pool_(pool), index_(index) {}

  int index() const { return index_; }
  int count() const { return pool_.threads(); }

  // A grain for parallel_for: so many pieces a worker that they end together.
  int64_t grain(int64_t items, int pieces = 8) const {
    return std::max<int64_t>(1, items / (int64_t{pieces} * count()));
  }

  // Calls f(begin, end) for [0, grain), [grain, 2 grain) ... up to `items`, each exactly once and
  // on any worker; returns when all are done. Every worker of a job must make the same calls in the
  // same order; f makes none.
  template <class F>
  void parallel_for(int64_t items, int64_t grain, const F& f);

  // Work that each worker does for itself, without a barrier.
  template <class F>
  void alone(const F& f) {
    timed(time_.operators, f);
  }
  // Calls f(), which waits for something outside the pool.
  template <class F>
  void wait(const F& f) {
    timed(time_.barriers, f);
  }

 private:
  friend class ThreadPool;

  template <class F>
  static void timed(Duration& total, const F& f) {
    const TimePoint begin = std::chrono::steady_clock::now();
    f();
    total += std::chrono::steady_clock::now() - begin;
  }
  template <class F>
  void take_items(int64_t items, int64_t grain, const F& f);

  ThreadPool& pool_;
  const int index_;
  uint32_t generation_ = 0;  // parallel_for calls so far; the same on all workers that are in one
  Time time_;
  TimePoint left_{};  // the last job
  // Chunks taken of this worker's share, in even and in odd generations. While one is in use the
  // owner clears the other, which nobody has touched since the barrier before and nobody will until
  // the barrier to come.
  alignas(64) std::atomic<int64_t> taken_[2] = {0, 0};
};

template <class F>
void ThreadPool::Worker::take_items(int64_t items, int64_t grain, const F& f) {
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
}

template <class F>
void ThreadPool::Worker::parallel_for(int64_t items, int64_t grain, const F& f) {
  const TimePoint begin = std::chrono::steady_clock::now();
  take_items(items, grain, f);
  const TimePoint done = std::chrono::steady_clock::now();
  pool_.barrier();
  time_.operators += done - begin;
  time_.barriers += std::chrono::steady_clock::now() - done;
}

}  // namespace weft
