#pragma once
// CoreUsage: what the cores did while work waited.

#include <optional>

#include "base/clock.h"
#include "device/executor.h"

namespace weft {

inline CoreTime operator+(const CoreTime& a, const CoreTime& b) {
  return {a.operators + b.operators, a.barriers + b.barriers, a.idle + b.idle};
}
inline CoreTime operator-(const CoreTime& a, const CoreTime& b) {
  return {a.operators - b.operators, a.barriers - b.barriers, a.idle - b.idle};
}

// Engine thread only. Times of cores are the device's, as of now.
class CoreUsage {
 public:
  // Work waits from now on, or no longer; repeated calls change nothing.
  void work_waits(bool waits, TimePoint now, const CoreTime& cores) {
    if (waits == since_.has_value()) return;
    if (waits) {
      since_ = now;
      cores_since_ = cores;
    } else {
      wall_ += now - *since_;
      cores_ = cores_ + (cores - cores_since_);
      since_.reset();
      last_end_.reset();
    }
  }
  // A quantum starts while no other runs: what lies between it and the last one was the host's.
  void quantum_starts(TimePoint now) {
    if (last_end_) host_ += now - *last_end_;
    last_end_.reset();
  }
  void nothing_runs(TimePoint now) { last_end_ = now; }
  void stalled(Duration time) { stall_ += time; }
  void could_have_taken(double core_seconds) { roofline_ = roofline_.value_or(0) + core_seconds; }

  Duration wall(TimePoint now) const { return since_ ? wall_ + (now - *since_) : wall_; }
  CoreTime cores(const CoreTime& now) const {
    return since_ ? cores_ + (now - cores_since_) : cores_;
  }
  Duration host() const { return host_; }
  Duration stall() const { return stall_; }
  // Core-seconds, at the machine's limits; none where these are not known.
  std::optional<double> roofline() const { return roofline_; }

 private:
  std::optional<TimePoint> since_;
  CoreTime cores_since_;
  std::optional<TimePoint> last_end_;
  Duration wall_{};
  CoreTime cores_;
  Duration host_{};
  Duration stall_{};
  std::optional<double> roofline_;
};

}  // namespace weft
