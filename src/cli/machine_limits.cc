#include "cli/machine_limits.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"

namespace weft {
namespace {

constexpr int64_t kReadBytes = int64_t{64} << 20;  // of a look, by each thread
constexpr int64_t kPeakRepeats = 20000;
// Distances at which memory is fetched ahead: which is best depends on the machine.
constexpr int64_t kAhead[] = {0, 4096, 16384};

// Seconds in which every worker runs f(worker index) once.
template <class F>
double time_of_all(ThreadPool& pool, const F& f) {
  Duration taken{};
  pool.run([&](ThreadPool::Worker& worker) {
    worker.parallel_for(0, 1, [](int64_t, int64_t) {});  // all have come
    const TimePoint begin = std::chrono::steady_clock::now();
    f(worker.index());
    worker.parallel_for(0, 1, [](int64_t, int64_t) {});  // all are done
    if (worker.index() == 0) taken = std::chrono::steady_clock::now() - begin;
  });
  return seconds(taken);
}

double rate_of_all(ThreadPool& pool, int64_t (*peak)(int64_t)) {
  std::atomic<int64_t> done{0};
  const double taken = time_of_all(pool, [&](int) { done += peak(kPeakRepeats); });
  return static_cast<double>(done) / taken;
}

}  // namespace

void LimitProbe::look() {
  best_.int8_ops = std::max(best_.int8_ops, rate_of_all(pool_, kernels_.peak_int8));
  best_.bf16_ops = std::max(best_.bf16_ops, rate_of_all(pool_, kernels_.peak_bf16));
  best_.f32_ops = std::max(best_.f32_ops, rate_of_all(pool_, kernels_.peak_f32));
  read();
}

// Each thread reads its own run of memory, and the next look others, so that nothing is cached.
void LimitProbe::read() {
  const auto threads = static_cast<size_t>(pool_.threads());
  const int64_t run =
      std::min<int64_t>(kReadBytes, static_cast<int64_t>(memory_.size() / threads) / 256 * 256);
  const size_t turns = std::max<size_t>(1, memory_.size() / (static_cast<size_t>(run) * threads));
  for (const int64_t ahead : kAhead) {
    const size_t first = next_++ % turns * threads;
    const double taken = time_of_all(pool_, [&](int worker) {
      const size_t part = first + static_cast<size_t>(worker);
      kernels_.read_memory(memory_.data() + part * static_cast<size_t>(run), run, ahead);
    });
    const double bytes = static_cast<double>(run) * static_cast<double>(threads);
    best_.read_bytes = std::max(best_.read_bytes, bytes / taken);
  }
}

}  // namespace weft
