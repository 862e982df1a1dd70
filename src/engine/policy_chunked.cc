#include <algorithm>

#include "base/check.h"
#include "cache/block_pool.h"
#include "engine/scheduler.h"

namespace weft {
namespace {

// One planning: what is left to give while the plan grows.
class ChunkedPlanner {
 public:
  ChunkedPlanner(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan)
      : sequences_(state.sequences),
        limits_(limits),
        plan_(plan),
        end_(static_cast<int>(sequences_.size())),
        free_blocks_(state.free_blocks),
        free_slots_(state.free_slots) {}

  void run() {
    plan_.layer_end = limits_.layers;
    for (int i = 0; i < end_; ++i) {
      if (at(i).stage == Stage::kDecoding) plan_decode(i);
    }
    rows_ = std::min(limits_.chunk_rows, limits_.rows - static_cast<int>(plan_.decode.size()));
    // Blocks that a preemption has just freed are for those that run.
    bool admitting = plan_.preempt.empty();
    for (int i = 0; i < end_ && rows_ > 0; ++i) {
      if (at(i).stage == Stage::kQueued) {
        admitting = admitting && admit(i);
        if (admitting) plan_chunk(i);
      } else if (at(i).stage == Stage::kPrefilling) {
        plan_chunk(i);
      }
    }
  }

 private:
  const SequenceState& at(int i) const { return sequences_[static_cast<size_t>(i)]; }

  void plan_decode(int i) {
    const int missing = BlockPool::blocks_for(at(i).computed + 1) - at(i).blocks;
    while (free_blocks_ < missing && i < end_) preempt_newest();
    if (i >= end_) return;  // it was the newest itself
    free_blocks_ -= std::max(missing, 0);
    plan_.decode.push_back({i, at(i).computed, 1});
  }

  // Sequences are planned from the oldest on, so whatever is preempted has no rows in the plan yet.
  void preempt_newest() {
    do {
      --end_;
      WEFT_CHECK(end_ > 0, "the pool of {} blocks does not hold its oldest sequence",
                 limits_.blocks);
    } while (at(end_).stage == Stage::kQueued);
    free_blocks_ += at(end_).blocks;
    plan_.preempt.push_back(end_);
  }

  bool admit(int i) {
    const int blocks = BlockPool::blocks_for(at(i).length);
    // One more, so that its first outputs preempt nobody; a sequence as large as the pool does
    // without.
    const int wanted = std::min(blocks + 1, limits_.blocks);
    if (free_slots_ == 0 || free_blocks_ < wanted) return false;
    --free_slots_;
    free_blocks_ -= blocks;
    plan_.admit.push_back(i);
    return true;
  }

  void plan_chunk(int i) {
    const int rows = std::min(rows_, at(i).length - at(i).computed);
    rows_ -= rows;
    plan_.prefill.push_back({i, at(i).computed, rows});
  }

  const std::vector<SequenceState>& sequences_;
  const SchedulerLimits& limits_;
  StepPlan& plan_;
  int end_;  // running sequences from here on are preempted
  int free_blocks_;
  int free_slots_;
  int rows_ = 0;  // prompt rows left
};

}  // namespace

void plan_chunked(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan) {
  plan.clear();
  ChunkedPlanner(state, limits, plan).run();
}

}  // namespace weft
