#include <algorithm>

#include "base/check.h"
#include "cache/block_pool.h"
#include "engine/scheduler.h"

namespace weft {
namespace {

constexpr double kFullStep = 0.8;  // of the target, from which on streams are queued

class Admission {
 public:
  Admission(const SchedulerState& state, const SchedulerLimits& limits, AdmissionPlan& plan)
      : sequences_(state.sequences),
        state_(state),
        limits_(limits),
        plan_(plan),
        end_(static_cast<int>(sequences_.size())),
        blocks_(state.available_blocks),
        slots_(state.free_slots) {}

  void run(bool keep_target) {
    for (int i = 0; i < end_; ++i) {
      if (at(i).stage == Stage::kDecoding && !at(i).in_pass) grow(i);
    }
    // Blocks that a preemption has just freed are for those that run.
    if (!plan_.preempt.empty()) return;
    for (const SequenceState& s : sequences_) add_to_step(s);
    for (int i = 0; i < end_; ++i) {
      if (at(i).stage != Stage::kQueued) continue;
      if (!admit(i, keep_target)) break;
    }
  }

 private:
  const SequenceState& at(int i) const { return sequences_[static_cast<size_t>(i)]; }

  void grow(int i) {
    const int missing = BlockPool::blocks_for(at(i).computed + 1) - at(i).blocks;
    while (blocks_ < missing && i < end_) preempt_newest();
    if (i < end_) blocks_ -= std::max(missing, 0);
  }

  // What it holds counts as available from now on, though blocks that it shares with others are
  // not: then the next planning preempts one more.
  void preempt_newest() {
    do {
      --end_;
      WEFT_CHECK(end_ > 0, "the pool of {} blocks does not hold its oldest sequence",
                 limits_.blocks);
    } while (at(end_).stage == Stage::kQueued);
    blocks_ += at(end_).blocks;
    plan_.preempt.push_back(end_);
  }

  // The streams' step once all that are admitted decode.
  void add_to_step(const SequenceState& s) {
    if (s.stage != Stage::kQueued) step_.add_segment(s.length, 1);
  }

  bool admit(int i, bool keep_target) {
    // One more, so that its first outputs preempt nobody; a sequence as large as the pool does
    // without.
    const int blocks = BlockPool::blocks_for(at(i).length);
    const int more = blocks < limits_.blocks ? 1 : 0;
    if (slots_ == 0 || blocks_ < at(i).new_blocks + more) return false;
    Work step = step_;
    step.add_segment(at(i).length, 1);
    step.head_rows = step.rows;
    if (keep_target && step_.rows > 0 &&
        seconds(state_.costs->predict(Group::kAll, step.through(limits_.layers), true)) >
            kFullStep * seconds(limits_.target)) {
      return false;
    }
    step_ = step;
    --slots_;
    blocks_ -= at(i).new_blocks;
    plan_.admit.push_back(i);
    return true;
  }

  const std::vector<SequenceState>& sequences_;
  const SchedulerState& state_;
  const SchedulerLimits& limits_;
  AdmissionPlan& plan_;
  int end_;  // running sequences from here on are preempted
  int blocks_;
  int slots_;
  Work step_;
};

}  // namespace

void plan_admission(const SchedulerState& state, const SchedulerLimits& limits, bool keep_target,
                    AdmissionPlan& plan) {
  plan.preempt.clear();
  plan.admit.clear();
  Admission(state, limits, plan).run(keep_target);
}

}  // namespace weft
