// What each policy decides, one boundary at a time. A layer costs 1 ms for each 100 rows and a key
// nothing, so that sums can be done in the head.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/planner.h"
#include "engine/scheduler.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

// rows / 100 ms a layer.
CostModel linear_costs() {
  CostModel::Costs costs;
  for (int i = 0; i < CostModel::kNodes; ++i) {
    costs.rows[static_cast<size_t>(i)] = 1e4 * CostModel::node_rows(i);
  }
  return CostModel(costs);
}
const CostModel kCosts = linear_costs();

constexpr SchedulerLimits kLimits{
    .layers = 10, .rows = 1000, .chunk_rows = 100, .blocks = 100, .target = milliseconds(40)};

SequenceState queued(int length) {
  return {.stage = Stage::kQueued, .length = length, .new_blocks = (length + 63) / 64};
}
SequenceState prompt(int computed, int length, Duration waited = {}) {
  return {.stage = Stage::kPrefilling, .length = length, .computed = computed, .waited = waited};
}
SequenceState prompt_in_pass(int computed, int length) {
  SequenceState state = prompt(computed, length);
  state.in_pass = true;
  return state;
}
SequenceState stream(int computed, Duration slack, bool in_pass = false) {
  return {.stage = Stage::kDecoding,
          .length = computed + 1,
          .computed = computed,
          .blocks = (computed + 63) / 64,
          .in_pass = in_pass,
          .slack = slack};
}
PassState prefill_pass(int sequence, int first, int rows, int next_layer) {
  PassState pass;
  pass.sequence = sequence;
  pass.end = first + rows;
  pass.work.add_segment(first, rows);
  pass.next_layer = next_layer;
  return pass;
}
PassState decode_pass(int rows, int next_layer) {
  PassState pass;
  pass.kind = PassKind::kDecode;
  for (int i = 0; i < rows; ++i) pass.work.add_segment(10, 1);
  pass.next_layer = next_layer;
  return pass;
}
SchedulerState state_of(std::vector<SequenceState> sequences, std::vector<PassState> passes = {}) {
  SchedulerState state;
  state.sequences = std::move(sequences);
  state.passes = std::move(passes);
  state.available_blocks = 50;
  state.free_slots = 4;
  state.quantum = kLimits.target / 4;
  state.costs = &kCosts;
  return state;
}

// "open streams 0 1; open 2@0+100; all: streams+pass0 3-7".
std::string text(const StepPlan& plan) {
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : "; ") + part; };
  const auto named = [&](int QuantumPlan::* member) {
    for (const QuantumPlan& q : plan.quanta) {
      if (q.*member == kOpened) return true;
    }
    return false;
  };
  if (named(&QuantumPlan::decode)) {
    std::string streams = "open streams";
    for (const RowRange& r : plan.decode) streams += fmt::format(" {}", r.sequence);
    add(streams);
  }
  if (named(&QuantumPlan::prefill)) {
    std::string rows = "open";
    for (const RowRange& r : plan.prefill) {
      rows += fmt::format(" {}@{}+{}", r.sequence, r.first, r.rows);
    }
    add(rows + (plan.opens_follower ? " and follower" : ""));
  }
  const char* groups[] = {"all", "prefill", "decode"};
  for (const QuantumPlan& q : plan.quanta) {
    std::string passes;
    const auto name = [&](int index, const char* kind) {
      if (index == kNone) return;
      passes += passes.empty() ? "" : "+";
      passes += index == kOpened ? kind : fmt::format("pass{}", index);
    };
    name(q.decode, "streams");
    name(q.prefill, "prompt");
    name(q.follower, "follower");
    add(fmt::format("{}: {} {}-{}", groups[static_cast<int>(q.group)], passes, q.layer_begin,
                    q.layer_end));
  }
  if (plan.over_target) add("over target");
  return out;
}

std::string planned(Policy policy, const SchedulerState& state, SchedulerLimits limits = kLimits) {
  StepPlan plan;
  plan.quanta.resize(7);  // a plan's storage is used again
  policy(state, limits, plan);
  return text(plan);
}

std::string admitted(const SchedulerState& state, SchedulerLimits limits = kLimits,
                     bool keep_target = false) {
  AdmissionPlan plan;
  plan.admit = {9};
  plan_admission(state, limits, keep_target, plan);
  std::string out;
  for (const int i : plan.preempt) out += fmt::format("-{} ", i);
  for (const int i : plan.admit) out += fmt::format("+{} ", i);
  return out;
}

// --- admission ---

TEST(Admission, InOrderOfArrivalWhileSlotsAndBlocksLast) {
  EXPECT_EQ(admitted(state_of({queued(100), queued(100)})), "+0 +1 ");
  SchedulerState state = state_of({queued(100), queued(100)});
  state.free_slots = 1;
  EXPECT_EQ(admitted(state), "+0 ");
  state.free_slots = 4;
  state.available_blocks = 4;  // two, and one more; two are left for the second
  EXPECT_EQ(admitted(state), "+0 ");
  state.available_blocks = 2;
  EXPECT_EQ(admitted(state), "");
}

TEST(Admission, WhatTheCacheHoldsForOthersCostsNothing) {
  SchedulerState state = state_of({queued(640)});
  state.sequences[0].new_blocks = 2;
  state.available_blocks = 3;
  EXPECT_EQ(admitted(state), "+0 ");
}

TEST(Admission, NobodyOvertakesInTheQueue) {
  SchedulerState state = state_of({queued(640), queued(10)});
  state.available_blocks = 5;
  EXPECT_EQ(admitted(state), "");
}

TEST(Admission, ThePoolsSizeIsEnough) {
  SchedulerLimits limits = kLimits;
  limits.blocks = 10;
  SchedulerState state = state_of({queued(640)});
  state.available_blocks = 10;
  EXPECT_EQ(admitted(state, limits), "+0 ");
}

TEST(Admission, AStreamWithoutABlockTakesTheNewests) {
  SchedulerState state = state_of({stream(64, {}), stream(65, {}), prompt(0, 200), queued(10)});
  state.sequences[2].blocks = 4;
  state.available_blocks = 0;
  EXPECT_EQ(admitted(state), "-2 ");  // and nobody comes in at this boundary
  state.sequences[0] = stream(63, {});
  EXPECT_EQ(admitted(state), "");
}

TEST(Admission, TheNewestMayBeTheOneThatGrows) {
  SchedulerState state = state_of({stream(10, {}), stream(64, {})});
  state.available_blocks = 0;
  EXPECT_EQ(admitted(state), "-1 ");
}

TEST(Admission, StreamsQueueWhenTheirStepIsFull) {
  SchedulerLimits limits = kLimits;
  limits.target = Duration(std::chrono::microseconds(2500));  // 0.1 ms a stream and step
  std::vector<SequenceState> sequences(19, stream(10, {}));
  sequences.push_back(queued(10));
  sequences.push_back(queued(10));
  EXPECT_EQ(admitted(state_of(sequences), limits, true), "+19 ");
  EXPECT_EQ(admitted(state_of(sequences), limits, false), "+19 +20 ");
  limits.target = Duration(1);
  EXPECT_EQ(admitted(state_of({queued(10), queued(10)}), limits, true), "+0 ");
}

// --- policies ---

TEST(Serial, WholePromptsBeforeStreams) {
  EXPECT_EQ(planned(plan_serial, state_of({stream(10, {}), prompt(0, 300)})),
            "open 1@0+300; all: prompt 0-3");
  EXPECT_EQ(planned(plan_serial, state_of({stream(10, {}), prompt_in_pass(0, 300)},
                                          {prefill_pass(1, 0, 300, 3)})),
            "all: pass0 3-6");
  EXPECT_EQ(planned(plan_serial, state_of({stream(10, {}), stream(20, {})})),
            "open streams 0 1; all: streams 0-10");
  // The oldest first, and long ones in equal parts.
  EXPECT_EQ(planned(plan_serial, state_of({prompt(0, 1500), prompt(0, 10)})),
            "open 0@0+500; all: prompt 0-2");
}

TEST(Chunked, StreamsAndAChunkThroughAllLayers) {
  EXPECT_EQ(planned(plan_chunked, state_of({stream(10, {}), prompt(0, 70), prompt(0, 70)})),
            "open streams 0; open 1@0+70 2@0+30; all: streams+prompt 0-10");
  EXPECT_EQ(planned(plan_chunked, state_of({prompt(200, 230)})), "open 0@200+30; all: prompt 0-10");
  EXPECT_EQ(planned(plan_chunked, state_of({stream(10, {})})), "open streams 0; all: streams 0-10");
}

TEST(Layered, AWholePromptThroughSomeLayers) {
  // 10 layers x 100 rows are the share of a step: 2 layers of 500 rows.
  EXPECT_EQ(planned(plan_layered, state_of({prompt(0, 500)})), "open 0@0+500; all: prompt 0-2");
  EXPECT_EQ(planned(plan_layered, state_of({stream(10, {}), prompt(0, 500)})),
            "open streams 0; open 1@0+500; all: streams+prompt 0-2");
  SchedulerState state = state_of({stream(10, {}, true), prompt_in_pass(0, 500)},
                                  {prefill_pass(1, 0, 500, 2), decode_pass(1, 2)});
  state.passes[1].shared_layers = 2;
  EXPECT_EQ(planned(plan_layered, state), "all: pass1 2-10");
  state = state_of({stream(10, {}), prompt_in_pass(0, 500)}, {prefill_pass(1, 0, 500, 2)});
  EXPECT_EQ(planned(plan_layered, state), "open streams 0; all: streams 0-2");
  state.sequences[0].in_pass = true;
  state.passes.push_back(decode_pass(1, 2));
  EXPECT_EQ(planned(plan_layered, state), "all: pass1+pass0 2-4");
}

TEST(Fused, AloneAPromptRunsInQuanta) {
  // A quantum is 10 ms: 10 layers of 100 rows, 2 of 500.
  EXPECT_EQ(planned(plan_fused, state_of({prompt(0, 100)})), "open 0@0+100; all: prompt 0-10");
  EXPECT_EQ(planned(plan_fused, state_of({prompt(0, 500)})), "open 0@0+500; all: prompt 0-2");
  EXPECT_EQ(planned(plan_fused, state_of({prompt(0, 500)})),
            planned(plan_serial, state_of({prompt(0, 500)})));
}

TEST(Fused, APassOpensWithNoMoreRowsThanLeaveAQuantumTwoLayers) {
  SchedulerLimits limits = kLimits;
  limits.rows = 4000;
  EXPECT_EQ(planned(plan_fused, state_of({prompt(0, 3000)}), limits),
            "open 0@0+500; all: prompt 0-2");
  EXPECT_EQ(planned(plan_fused, state_of({prompt(0, 800)}), limits),
            "open 0@0+400; all: prompt 0-2");
  // A serial run of it is left at the same places.
  for (const int length : {100, 700, 1100, 3000}) {
    EXPECT_EQ(planned(plan_fused, state_of({prompt(0, length)}), limits),
              planned(plan_serial, state_of({prompt(0, length)}), limits));
  }
  // Where a target leaves room for none, as many as cost hardly more than one.
  SchedulerState state = state_of({prompt(0, 1100)});
  state.quantum = Duration(1);
  EXPECT_EQ(planned(plan_fused, state, limits), "open 0@0+64; all: prompt 0-1");
}

TEST(Fused, TheTileIsWhatTheSlackAllows) {
  // One stream: its step takes 0.1 ms. 5 ms for each layer of the prompt.
  const auto with_slack = [](int ms) {
    return planned(plan_fused, state_of({stream(10, milliseconds(ms)), prompt_in_pass(0, 500)},
                                        {prefill_pass(1, 0, 500, 4)}));
  };
  // Room for a quantum and more: the prompt alone.
  EXPECT_EQ(with_slack(40), "all: pass0 4-6");
  EXPECT_EQ(with_slack(16), "all: pass0 4-6");
  EXPECT_EQ(with_slack(12), "open streams 0; all: streams 0-4");
  // Room for a layer: the streams come to it.
  EXPECT_EQ(with_slack(7), "open streams 0; all: streams 0-4");
  // None.
  EXPECT_EQ(with_slack(5), "open streams 0; all: streams 0-10");
  EXPECT_EQ(with_slack(-20), "open streams 0; all: streams 0-10");
}

TEST(Fused, TheLastPartOfATileRidesAlong) {
  const auto with_slack = [](int ms) {
    return planned(plan_fused,
                   state_of({stream(10, milliseconds(ms), true), prompt_in_pass(0, 500)},
                            {prefill_pass(1, 0, 500, 4), decode_pass(1, 4)}));
  };
  EXPECT_EQ(with_slack(30), "all: pass1+pass0 4-5");  // two layers of both exceed a quantum
  EXPECT_EQ(with_slack(6), "all: pass1+pass0 4-5");
  EXPECT_EQ(with_slack(5), "all: pass1 4-10");
  // Once past it, the step goes on to its end.
  EXPECT_EQ(
      planned(plan_fused, state_of({stream(10, milliseconds(30), true), prompt_in_pass(0, 500)},
                                   {prefill_pass(1, 0, 500, 4), decode_pass(1, 6)})),
      "all: pass1 6-10");
}

TEST(Fused, WhoJoinedDuringAStepWaitsForTheNextOne) {
  // Of 5.2 ms this step's rest takes 0.06 and the next step 0.2: no room for a layer of 5 ms.
  EXPECT_EQ(planned(plan_fused,
                    state_of({stream(10, milliseconds(30), true),
                              stream(10, std::chrono::microseconds(5200)), prompt_in_pass(0, 500)},
                             {prefill_pass(2, 0, 500, 4), decode_pass(1, 4)})),
            "all: pass1 4-10");
}

TEST(Fused, PromptsHaveAFloor) {
  SchedulerState state = state_of({stream(10, milliseconds(-5)), prompt_in_pass(0, 500)},
                                  {prefill_pass(1, 0, 500, 4)});
  state.prefill_due = true;
  EXPECT_EQ(planned(plan_fused, state), "all: pass0 4-5; over target");
}

TEST(Fused, LeastRemainingWorkFirst) {
  // 1 ms for each 10 rows: 50 ms against 10.
  const std::vector<PassState> passes{prefill_pass(0, 0, 500, 2)};
  EXPECT_EQ(planned(plan_fused, state_of({prompt_in_pass(0, 500), prompt(0, 100)}, passes)),
            "open 1@0+100; all: prompt 0-10");
  // Unless the long one has waited for as long as the difference.
  SchedulerState state = state_of({prompt_in_pass(0, 500), prompt(0, 100)}, passes);
  state.sequences[0].waited = milliseconds(40);
  EXPECT_EQ(planned(plan_fused, state), "all: pass0 2-4");
  // No more than four are open.
  state.sequences[0].waited = {};
  for (int i = 0; i < 3; ++i) state.passes.push_back(prefill_pass(0, 0, 500, 1));
  EXPECT_EQ(planned(plan_fused, state), "all: pass0 2-4");
}

TEST(Fused, ShortPromptsShareAPass) {
  EXPECT_EQ(planned(plan_fused, state_of({prompt(0, 20), prompt(0, 30), prompt(0, 40)})),
            "open 0@0+20 1@0+30; all: prompt 0-10");
}

TEST(Fused, NothingIsPlannedWhileCoresAreBusy) {
  SchedulerState state = state_of({prompt(0, 20)});
  state.running[1] = true;
  EXPECT_EQ(planned(plan_fused, state), "");
}

SchedulerLimits split_limits() {
  SchedulerLimits limits = kLimits;
  limits.can_split = true;
  return limits;
}

TEST(Split, EachSideHasItsGroup) {
  EXPECT_EQ(
      planned(plan_split, state_of({stream(10, milliseconds(30)), prompt(0, 500)}), split_limits()),
      "open streams 0; open 1@0+499 and follower; prefill: prompt 0-2; "
      "decode: streams 0-10");
  SchedulerState state = state_of({stream(10, milliseconds(30)), prompt(0, 500)});
  state.running[2] = true;
  EXPECT_EQ(planned(plan_split, state, split_limits()),
            "open 1@0+499 and follower; prefill: prompt 0-2");
}

TEST(Split, WhoIsAloneHasAllCores) {
  EXPECT_EQ(planned(plan_split, state_of({prompt(0, 500)}), split_limits()),
            "open 0@0+500; all: prompt 0-2");
  EXPECT_EQ(planned(plan_split, state_of({stream(10, milliseconds(30))}), split_limits()),
            "open streams 0; all: streams 0-10");
  // Only at a boundary of both.
  SchedulerState state = state_of({stream(10, milliseconds(30))});
  state.running[1] = true;
  EXPECT_EQ(planned(plan_split, state, split_limits()), "");
}

TEST(Split, AFollowerStaysBehindItsPass) {
  SchedulerState state = state_of({stream(10, milliseconds(30)), prompt_in_pass(0, 500)},
                                  {prefill_pass(1, 0, 499, 4), PassState{}});
  PassState& follower = state.passes[1];
  follower.kind = PassKind::kFollower;
  follower.sequence = 1;
  follower.leader = 0;
  follower.work.add_segment(499, 1);
  follower.next_layer = 4;
  state.running[1] = true;
  state.passes[0].running_to = 6;
  // It waits for what is being written while the streams have the time for it.
  EXPECT_EQ(planned(plan_split, state, split_limits()), "decode: pass1 4-6");
  state.sequences[0].slack = milliseconds(8);
  EXPECT_EQ(planned(plan_split, state, split_limits()), "open streams 0; decode: streams 0-10");
  follower.next_layer = 2;
  EXPECT_EQ(planned(plan_split, state, split_limits()), "decode: pass1 2-4");
}

TEST(Auto, SplitsWhileALayerAndAStepMissTheTarget) {
  SchedulerLimits limits = split_limits();
  SchedulerState state = state_of({stream(10, milliseconds(30)), prompt_in_pass(0, 1000)},
                                  {prefill_pass(1, 0, 1000, 0)});
  EXPECT_EQ(planned(plan_auto, state, limits), "all: pass0 0-1");
  state.quantum = milliseconds(2);  // a layer takes 10 ms, the target is 8
  EXPECT_EQ(planned(plan_auto, state, limits),
            "open streams 0; prefill: pass0 0-1; decode: streams 0-10");
  // And back once there is room to spare.
  state.quantum = milliseconds(3);
  EXPECT_EQ(planned(plan_auto, state, limits), "all: pass0 0-1");
  state.split = true;
  EXPECT_EQ(planned(plan_auto, state, limits),
            "open streams 0; prefill: pass0 0-1; decode: streams 0-10");
  state.quantum = milliseconds(4);
  EXPECT_EQ(planned(plan_auto, state, limits), "all: pass0 0-1");
}

// --- tiles ---

TEST(Tiles, PromptsOfAsManyTilesRunTogether) {
  SchedulerLimits limits = kLimits;
  limits.tile_rows = 64;
  EXPECT_EQ(
      planned(plan_fused, state_of({prompt(0, 70), prompt(0, 200), prompt(0, 128), prompt(0, 64)}),
              limits),
      "open 3@0+64; all: prompt 0-10");
  EXPECT_EQ(planned(plan_fused, state_of({prompt(0, 70), prompt(0, 200), prompt(0, 128)}), limits),
            "open 0@0+70 2@0+128; all: prompt 0-5");
}

TEST(Tiles, NobodyIsPassedOverMoreThanEightTimes) {
  SchedulerLimits limits = kLimits;
  limits.tile_rows = 64;
  SchedulerState state = state_of({prompt(0, 200), prompt(0, 64)});
  state.sequences[0].passed_over = 7;
  EXPECT_EQ(planned(plan_fused, state, limits), "open 1@0+64; all: prompt 0-10");
  state.sequences[0].passed_over = 8;
  EXPECT_EQ(planned(plan_fused, state, limits), "open 0@0+200; all: prompt 0-5");
}

}  // namespace
}  // namespace weft
