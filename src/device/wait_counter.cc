#include "device/wait_counter.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <ctime>

namespace weft {
namespace {

constexpr Duration kYieldAfter = std::chrono::microseconds(20);

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
              std::atomic<uint32_t>::is_always_lock_free);

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // unlike yield it takes long enough to leave the core's shared parts alone
#endif
}

// Sleeps while *word == seen, at the longest until the deadline; may return at any time before.
// std::atomic has no wait with a deadline.
void park(const std::atomic<uint32_t>* word, uint32_t seen, TimePoint deadline) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(deadline.time_since_epoch());
  const timespec until = {.tv_sec = whole.count(),
                          .tv_nsec = (deadline.time_since_epoch() - whole).count()};
  // An absolute time of the monotonic clock, which is what steady_clock reads.
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen,
          deadline == TimePoint::max() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void wake_all(const std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void WaitCounter::advance() {
  // Both sides are sequentially consistent: either the waiter sees the new value, or this sees the
  // waiter.
  value_.fetch_add(1);
  if (parked_.load() != 0) wake_all(&value_);
}

bool WaitCounter::spin_past(uint32_t seen, Duration spin, TimePoint deadline) const {
  const TimePoint start = std::chrono::steady_clock::now();
  for (TimePoint now = start; now - start < spin && now < deadline;
       now = std::chrono::steady_clock::now()) {
    // What takes so long may be waiting for this very core.
    if (now - start > kYieldAfter) sched_yield();
    for (int i = 0; i < 32; ++i) {
      if (value() != seen) return true;
      pause_briefly();
    }
  }
  return false;
}

bool WaitCounter::wait_past(uint32_t seen, Duration spin, TimePoint deadline) {
  if (value() != seen || spin_past(seen, spin, deadline)) return true;
  parked_.fetch_add(1);
  while (value_.load() == seen && std::chrono::steady_clock::now() < deadline) {
    park(&value_, seen, deadline);
  }
  parked_.fetch_sub(1);
  return value() != seen;
}

}  // namespace weft
