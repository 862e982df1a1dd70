#pragma once
// A counter that threads wait on.

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace weft {

// Waiting threads spin for a while, soon leaving the core to whoever else wants it, then park. What
// happened before the value changed is visible to those who see the new one. Takes no lock and no
// memory; a system call is made only to park and to wake.
class WaitCounter {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  void advance();
  // Requires that nobody waits.
  void reset() { value_.store(0); }
  // Returns once value() != seen, true, or at the deadline, false.
  bool wait_past(uint32_t seen, Duration spin, TimePoint deadline = TimePoint::max());

 private:
  bool spin_past(uint32_t seen, Duration spin, TimePoint deadline) const;

  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> parked_{0};
};

}  // namespace weft
