#include "device/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <cstring>
#include <system_error>

#include "base/check.h"

namespace weft {
namespace {

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

Status pin_this_thread(int cpu) { return pin(pthread_self(), cpu); }

ThreadPool::ThreadPool(int threads, WaitCounter* finished)
    : finished_(finished != nullptr ? finished : &own_finished_) {
  // A thread that spins on a core another one needs only delays what it waits for.
  const bool crowded = threads > static_cast<int>(std::thread::hardware_concurrency());
  idle_spin_ = std::chrono::microseconds(crowded ? 2 : 80);
  barrier_spin_ = std::chrono::microseconds(crowded ? 2 : 500);
  idle_since_ = std::chrono::steady_clock::now();
  workers_.reserve(threads);
  for (int i = 0; i < threads; ++i) workers_.push_back(std::make_unique<Worker>(*this, i));
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int threads, std::span<const int> cpus,
                                                       WaitCounter* finished) {
  if (threads < 1) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("{} threads: at least 1 is needed", threads)};
  }
  WEFT_CHECK(cpus.empty() || cpus.size() == static_cast<size_t>(threads), "{} CPUs for {} threads",
             cpus.size(), threads);
  std::unique_ptr<ThreadPool> pool(new ThreadPool(threads, finished));
  pool->threads_.reserve(threads);
  for (int i = finished == nullptr ? 1 : 0; i < threads; ++i) {
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
  entry_ = nullptr;
  jobs_.advance();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::publish(Entry entry, void* context) {
  WEFT_CHECK(!running_ && !paused_, "start() before the last job was joined, or at a pause");
  running_ = true;
  entry_ = entry;
  context_ = context;
  done_.store(false, std::memory_order_relaxed);
  jobs_.advance();
}

void ThreadPool::join() {
  WEFT_CHECK(running_, "join() without start()");
  if (threads_.size() < workers_.size()) work(*workers_[0]);
  for (uint32_t seen = finished_->value(); !done(); seen = finished_->value()) {
    finished_->wait_past(seen, barrier_spin_);
  }
  running_ = false;
  for (const auto& worker : workers_) worker->time_.barriers += end_ - worker->left_;
  idle_since_ = end_;
}

ThreadPool::Time ThreadPool::time(TimePoint now) const {
  WEFT_CHECK(!running_, "time() while a job runs");
  Time total;
  for (const auto& worker : workers_) total += worker->time_;
  total.idle += idle_at_pauses_;
  if (!paused_) total.idle += threads() * (now - idle_since_);
  return total;
}

void ThreadPool::pause(TimePoint now) {
  WEFT_CHECK(!running_ && !paused_, "pause() while a job runs, or twice");
  paused_ = true;
  idle_at_pauses_ += threads() * (now - idle_since_);
}

void ThreadPool::resume(TimePoint now) {
  WEFT_CHECK(paused_, "resume() without pause()");
  paused_ = false;
  idle_since_ = now;
}

void ThreadPool::serve(Worker& worker) {
  // The first job may have been published before this thread ran, so what counts is the number of
  // those it has done.
  for (uint32_t done = 0;; ++done) {
    jobs_.wait_past(done, idle_spin_);
    if (entry_ == nullptr) return;
    work(worker);
  }
}

void ThreadPool::work(Worker& worker) {
  worker.time_.idle += std::chrono::steady_clock::now() - idle_since_;
  entry_(context_, worker);
  worker.left_ = std::chrono::steady_clock::now();
  if (!arrive_last()) return;
  // Everybody's times and results are visible to whoever sees this.
  arrived_.store(0, std::memory_order_relaxed);
  end_ = std::chrono::steady_clock::now();
  done_.store(true, std::memory_order_release);
  finished_->advance();
}

void ThreadPool::barrier() {
  const uint32_t seen = barriers_.value();
  if (arrive_last()) {
    arrived_.store(0, std::memory_order_relaxed);
    barriers_.advance();
  } else {
    barriers_.wait_past(seen, barrier_spin_);
  }
}

}  // namespace weft
