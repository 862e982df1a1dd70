#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cache/block_pool.h"
#include "engine/scheduler.h"

namespace weft {
namespace {

constexpr SchedulerLimits kLimits{.layers = 4, .rows = 108, .chunk_rows = 100, .blocks = 20};

SequenceState queued(int length) { return {.stage = Stage::kQueued, .length = length}; }
SequenceState prefilling(int computed, int length) {
  return {.stage = Stage::kPrefilling,
          .length = length,
          .computed = computed,
          .blocks = BlockPool::blocks_for(length)};
}
SequenceState decoding(int computed) {
  return {.stage = Stage::kDecoding,
          .length = computed + 1,
          .computed = computed,
          .blocks = BlockPool::blocks_for(computed)};
}

// "preempt 2; admit 1; decode 0@5; prefill 1@0+7": all that a plan decides.
std::string text(const StepPlan& plan) {
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : "; ") + part; };
  for (const int i : plan.preempt) add(fmt::format("preempt {}", i));
  for (const int i : plan.admit) add(fmt::format("admit {}", i));
  for (const RowRange& r : plan.decode) {
    EXPECT_EQ(r.rows, 1);
    add(fmt::format("decode {}@{}", r.sequence, r.first));
  }
  for (const RowRange& r : plan.prefill) {
    add(fmt::format("prefill {}@{}+{}", r.sequence, r.first, r.rows));
  }
  return out;
}

struct Case {
  const char* name;
  std::vector<SequenceState> sequences;
  int free_blocks;
  int free_slots;
  SchedulerLimits limits;
  const char* plan;
};

std::string plan_text(const Case& c) {
  StepPlan plan;
  plan.preempt = {9};  // a plan's storage is used again
  plan_chunked({c.sequences, c.free_blocks, c.free_slots}, c.limits, plan);
  EXPECT_EQ(plan.layer_begin, 0);
  EXPECT_EQ(plan.layer_end, c.limits.layers);
  return text(plan);
}

SchedulerLimits with(SchedulerLimits limits, int SchedulerLimits::* field, int value) {
  limits.*field = value;
  return limits;
}

TEST(PolicyChunked, Cases) {
  const SchedulerLimits five_blocks = with(kLimits, &SchedulerLimits::blocks, 5);
  const SchedulerLimits few_rows = with(kLimits, &SchedulerLimits::rows, 3);
  const std::vector<Case> cases = {
      {"a first prompt", {queued(7)}, 20, 8, kLimits, "admit 0; prefill 0@0+7"},
      {"a long prompt in chunks", {queued(250)}, 20, 8, kLimits, "admit 0; prefill 0@0+100"},
      {"its next chunk", {prefilling(100, 250)}, 16, 7, kLimits, "prefill 0@100+100"},
      {"its last chunk", {prefilling(200, 250)}, 16, 7, kLimits, "prefill 0@200+50"},
      {"a running row", {decoding(10)}, 19, 7, kLimits, "decode 0@10"},
      {"rows before chunks",
       {prefilling(0, 130), decoding(10), decoding(20)},
       14,
       5,
       kLimits,
       "decode 1@10; decode 2@20; prefill 0@0+100"},
      {"short prompts share a step",
       {queued(30), queued(40), queued(50)},
       20,
       8,
       kLimits,
       "admit 0; admit 1; admit 2; prefill 0@0+30; prefill 1@0+40; prefill 2@0+30"},
      {"no admission without rows left",
       {queued(100), queued(5)},
       20,
       8,
       kLimits,
       "admit 0; prefill 0@0+100"},
      {"the older prompt first",
       {prefilling(60, 150), prefilling(0, 10)},
       10,
       6,
       kLimits,
       "prefill 0@60+90; prefill 1@0+10"},
      {"rows of the quantum",
       {prefilling(0, 50), decoding(3), decoding(4)},
       9,
       5,
       few_rows,
       "decode 1@3; decode 2@4; prefill 0@0+1"},
      {"no slot", {decoding(9), queued(5)}, 19, 0, kLimits, "decode 0@9"},
      {"one block more than the prompt",
       {decoding(9), queued(64)},
       2,
       7,
       kLimits,
       "admit 1; decode 0@9; prefill 1@0+64"},
      {"not one block more", {decoding(9), queued(65)}, 2, 7, kLimits, "decode 0@9"},
      {"first come, first served: nobody overtakes",
       {decoding(9), queued(65), queued(1)},
       2,
       7,
       kLimits,
       "decode 0@9"},
      {"admission counts what it gave",
       {queued(64), queued(64)},
       3,
       7,
       kLimits,
       "admit 0; admit 1; prefill 0@0+64; prefill 1@0+36"},
      {"and stops there", {queued(65), queued(64)}, 3, 7, kLimits, "admit 0; prefill 0@0+65"},
      {"as large as the pool", {queued(5 * 64)}, 5, 7, five_blocks, "admit 0; prefill 0@0+100"},
      {"growth takes a free block", {decoding(64)}, 1, 7, kLimits, "decode 0@64"},
      {"growth is before admission", {decoding(64), queued(64)}, 2, 7, kLimits, "decode 0@64"},
      {"growth preempts the newest",
       {decoding(64), decoding(5), decoding(7)},
       0,
       5,
       kLimits,
       "preempt 2; decode 0@64; decode 1@5"},
      {"as many as it takes: each gives one, two grow",
       {decoding(64), decoding(128), decoding(7), decoding(7)},
       0,
       4,
       kLimits,
       "preempt 3; preempt 2; decode 0@64; decode 1@128"},
      {"the newest preempts itself",
       {decoding(5), decoding(64)},
       0,
       6,
       kLimits,
       "preempt 1; decode 0@5"},
      {"a prefilling one is the newest",
       {decoding(64), prefilling(10, 200)},
       0,
       6,
       kLimits,
       "preempt 1; decode 0@64"},
      {"no admission beside a preemption",
       {decoding(64), prefilling(10, 300), queued(1)},
       0,
       6,
       kLimits,
       "preempt 1; decode 0@64"},
      {"nor of an older one",
       {decoding(64), queued(1), prefilling(10, 300)},
       0,
       6,
       kLimits,
       "preempt 2; decode 0@64"},
      {"a preempted one comes back in its place",
       {decoding(5), queued(70), queued(3)},
       19,
       7,
       kLimits,
       "admit 1; admit 2; decode 0@5; prefill 1@0+70; prefill 2@0+3"},
  };
  for (const Case& c : cases) EXPECT_EQ(plan_text(c), c.plan) << c.name;
}

// A random state that an engine can be in: what runs holds blocks, what waits holds none.
SchedulerState random_state(std::mt19937& random, const SchedulerLimits& limits, int slots) {
  SchedulerState state{.sequences = {}, .free_blocks = limits.blocks, .free_slots = slots};
  const int longest = limits.blocks * kBlockPositions;
  const int count = 1 + static_cast<int>(random() % 12);
  for (int i = 0; i < count; ++i) {
    const int length = 1 + static_cast<int>(random() % static_cast<uint32_t>(longest));
    SequenceState s = queued(length);
    // Admission is in order of arrival, so what runs is older than what waits.
    const bool may_run = i == 0 || state.sequences.back().stage != Stage::kQueued;
    if (may_run && state.free_slots > 0 && random() % 4 != 0) {
      const bool decodes = random() % 2 == 0;
      s = decodes ? decoding(length - 1)
                  : prefilling(static_cast<int>(random() % static_cast<uint32_t>(length)), length);
      s.blocks = std::max(s.blocks, 1);
      if (s.blocks > state.free_blocks) {
        s = queued(length);
      } else {
        state.free_blocks -= s.blocks;
        --state.free_slots;
      }
    }
    state.sequences.push_back(s);
  }
  return state;
}

class PlanCheck {
 public:
  PlanCheck(const SchedulerState& state, const SchedulerLimits& limits, const StepPlan& plan)
      : state_(state), limits_(limits), plan_(plan), now_(state.sequences) {}

  void run() {
    for (const int i : plan_.preempt) preempt(i);
    for (const int i : plan_.admit) admit(i);
    for (const RowRange& r : plan_.decode) decode(r);
    for (const RowRange& r : plan_.prefill) prefill(r);
    EXPECT_GE(free_blocks_, 0);
    EXPECT_GE(free_slots_, 0);
    EXPECT_LE(rows_, limits_.rows);
    EXPECT_LE(prompt_rows_, limits_.chunk_rows);
    EXPECT_TRUE(std::is_sorted(plan_.preempt.rbegin(), plan_.preempt.rend()));
    EXPECT_TRUE(std::is_sorted(plan_.admit.begin(), plan_.admit.end()));
    EXPECT_TRUE(oldest_advances_) << "the oldest stands still";
    for (int i = 0; i < static_cast<int>(now_.size()); ++i) {
      if (at(i).stage == Stage::kDecoding) {
        EXPECT_TRUE(std::any_of(plan_.decode.begin(), plan_.decode.end(), [&](const RowRange& r) {
          return r.sequence == i;
        })) << "a stream stands still";
      }
    }
  }

 private:
  SequenceState& at(int i) { return now_.at(static_cast<size_t>(i)); }
  void preempt(int i) {
    EXPECT_NE(i, 0) << "the oldest is preempted";
    EXPECT_NE(at(i).stage, Stage::kQueued);
    for (size_t newer = static_cast<size_t>(i) + 1; newer < now_.size(); ++newer) {
      EXPECT_EQ(now_[newer].stage, Stage::kQueued) << "a newer one runs on";
    }
    free_blocks_ += at(i).blocks;
    ++free_slots_;
    at(i) = queued(at(i).length);
  }
  void admit(int i) {
    EXPECT_EQ(at(i).stage, Stage::kQueued);
    at(i) = prefilling(0, at(i).length);
    free_blocks_ -= at(i).blocks;
    --free_slots_;
  }
  void decode(const RowRange& r) {
    EXPECT_EQ(at(r.sequence).stage, Stage::kDecoding);
    EXPECT_EQ(r.first, at(r.sequence).computed);
    free_blocks_ -= std::max(0, BlockPool::blocks_for(r.first + 1) - at(r.sequence).blocks);
    ++rows_;
    if (r.sequence == 0) oldest_advances_ = true;
  }
  void prefill(const RowRange& r) {
    SequenceState& s = at(r.sequence);
    EXPECT_EQ(s.stage, Stage::kPrefilling);
    EXPECT_EQ(r.first, s.computed);
    EXPECT_GE(r.rows, 1);
    EXPECT_LE(r.first + r.rows, s.length);
    rows_ += r.rows;
    prompt_rows_ += r.rows;
    if (r.sequence == 0) oldest_advances_ = true;
  }

  const SchedulerState& state_;
  const SchedulerLimits& limits_;
  const StepPlan& plan_;
  std::vector<SequenceState> now_;
  int free_blocks_ = state_.free_blocks;
  int free_slots_ = state_.free_slots;
  int rows_ = 0;
  int prompt_rows_ = 0;
  bool oldest_advances_ = false;
};

TEST(PolicyChunked, RandomStatesGetSoundPlans) {
  std::mt19937 random(3);
  StepPlan plan;
  for (int round = 0; round < 20000; ++round) {
    const int slots = 1 + static_cast<int>(random() % 8);
    SchedulerLimits limits;
    limits.layers = 4;
    limits.rows = slots + static_cast<int>(random() % 40);
    limits.chunk_rows = 1 + static_cast<int>(random() % 200);
    limits.blocks = 1 + static_cast<int>(random() % 12);
    const SchedulerState state = random_state(random, limits, slots);
    plan_chunked(state, limits, plan);
    PlanCheck(state, limits, plan).run();
    ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round << ": " << text(plan);
    StepPlan again;
    plan_chunked(state, limits, again);
    ASSERT_EQ(text(again), text(plan));
  }
}

}  // namespace
}  // namespace weft
