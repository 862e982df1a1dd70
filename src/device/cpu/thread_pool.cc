#include "device/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <cstring>
#include <system_error>

#include "base/check.h"

namespace weft {
namespace {

constexpr Duration kYieldAfter = std::chrono::microseconds(20);

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // unlike yield it takes long enough to leave the core's shared parts alone
#endif
}

Status pin(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool in_range = cpu >= 0 && cpu < CPU_SETSIZE;
  if (in_range) CPU_SET(cpu, &set);
  const int error = in_range ? pthread_setaffinity_np(thread, sizeof set, &set) : EINVAL;
  if (error == 0) return {};
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("cannot pin a thread to CPU {}: {}", cpu, strerror(error))};
}

}  // namespace

void WaitCounter::advance() {
  // Both sides are sequentially consistent: either the waiter sees the new value, or this sees the
  // waiter.
  value_.fetch_add(1);
  if (parked_.load() != 0) value_.notify_all();
}

void WaitCounter::wait_past(uint32_t seen, Duration spin) {
  if (value() != seen) return;
  const TimePoint start = std::chrono::steady_clock::now();
  for (Duration waited{0}; waited < spin; waited = std::chrono::steady_clock::now() - start) {
    // What takes so long may be waiting for this very core.
    if (waited > kYieldAfter) sched_yield();
    for (int i = 0; i < 32; ++i) {
      if (value() != seen) return;
      pause_briefly();
    }
  }
  parked_.fetch_add(1);
  while (value_.load() == seen) value_.wait(seen);
  parked_.fetch_sub(1);
}

Status pin_this_thread(int cpu) { return pin(pthread_self(), cpu); }

ThreadPool::ThreadPool(int threads) {
  // A thread that spins on a core another one needs only delays what it waits for.
  const bool crowded = threads > static_cast<int>(std::thread::hardware_concurrency());
  idle_spin_ = std::chrono::microseconds(crowded ? 2 : 80);
  barrier_spin_ = std::chrono::microseconds(crowded ? 2 : 500);
  workers_.reserve(threads);
  for (int i = 0; i < threads; ++i) workers_.push_back(std::make_unique<Worker>(*this, i));
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int threads, std::span<const int> cpus) {
  if (threads < 1) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("{} threads: at least 1 is needed", threads)};
  }
  WEFT_CHECK(cpus.empty() || cpus.size() == static_cast<size_t>(threads), "{} CPUs for {} threads",
             cpus.size(), threads);
  std::unique_ptr<ThreadPool> pool(new ThreadPool(threads));
  pool->threads_.reserve(threads - 1);
  for (int i = 1; i < threads; ++i) {
    try {
      pool->threads_.emplace_back(
          [&worker = *pool->workers_[i], p = pool.get()] { p->serve(worker); });
    } catch (const std::system_error& error) {
      return Error{ErrorKind::kExhausted,
                   fmt::format("cannot start thread {} of {}: {}", i + 1, threads, error.what())};
    }
    if (!cpus.empty()) {
      WEFT_RETURN_IF_ERROR(pin(pool->threads_.back().native_handle(), cpus[i]));
    }
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  WEFT_CHECK(!running_, "a thread pool ends while its job is not joined");
  publish(nullptr, nullptr);
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::publish(Entry entry, void* context) {
  WEFT_CHECK(!running_, "start() before the last job was joined");
  running_ = true;
  entry_ = entry;
  context_ = context;
  jobs_.advance();
}

void ThreadPool::join() {
  WEFT_CHECK(running_, "join() without start()");
  entry_(context_, *workers_[0]);
  barrier();
  running_ = false;
}

Duration ThreadPool::busy(int i) const {
  WEFT_CHECK(!running_, "busy() while a job runs");
  return workers_[i]->busy_;
}

void ThreadPool::serve(Worker& worker) {
  // The first job may have been published before this thread ran, so what counts is the number of
  // those it has done.
  for (uint32_t done = 0;; ++done) {
    jobs_.wait_past(done, idle_spin_);
    if (entry_ == nullptr) return;
    entry_(context_, worker);
    barrier();
  }
}

void ThreadPool::barrier() {
  const uint32_t seen = barriers_.value();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads()) {
    arrived_.store(0, std::memory_order_relaxed);
    barriers_.advance();
  } else {
    barriers_.wait_past(seen, barrier_spin_);
  }
}

}  // namespace weft
