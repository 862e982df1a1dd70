#pragma once
// What runs next, decided by integers alone. A policy is a pure function of the state and the
// limits: it knows no clock, no tensor and no executor, so each of its decisions can be written
// down as a test of a few lines. The engine applies a plan as it is and chooses nothing itself.
//
// Planning happens at quantum boundaries. First plan_admission says who gives up its blocks and who
// takes some; the engine applies that. Then the mode's policy says which passes open and what each
// idle group runs next. A policy remembers nothing: what it has begun it finds in the open passes.

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "engine/cost_model.h"
#include "engine/mode.h"

namespace weft {

enum class Stage : uint8_t {
  kQueued,      // holds nothing; never ran, or was preempted
  kPrefilling,  // has a slot and blocks for `length`; rows from `computed` on are still to run
  kDecoding,    // has a slot; one token is sampled and not yet run, at position `computed`
  kFinished,    // never seen by a policy
};

struct SequenceState {
  Stage stage = Stage::kQueued;
  int length = 0;      // positions to run until the next sample: the prompt and the outputs so far
  int computed = 0;    // of them, those whose keys and values are stored
  int blocks = 0;      // held
  int new_blocks = 0;  // kQueued: that admission would take from the available ones
  bool in_pass = false;  // rows of it are in an open pass
  int passed_over = 0;   // kPrefilling: passes that opened with somebody who came later
  Duration waited{};     // kPrefilling: since it came
  Duration slack{};      // kDecoding: until its next token is due
};

enum class PassKind : uint8_t {
  kDecode,    // one row of each running stream
  kPrefill,   // rows of prompts
  kFollower,  // the last row of a prompt, behind its kPrefill pass
};
inline constexpr int kNone = -1;

struct PassState {
  PassKind kind = PassKind::kPrefill;
  Work work;               // of a layer
  int sequence = 0;        // the first of those with rows in it
  int end = 0;             // kPrefill: of its rows of that sequence
  int next_layer = 0;      // while it runs: where it began
  int shared_layers = 0;   // kDecode: that it went through together with prompt rows
  int leader = kNone;      // kFollower: index of its pass; kNone once that has ended
  int running_to = kNone;  // the layer at which a quantum that has it will end
};

struct SchedulerState {
  std::vector<SequenceState> sequences;  // in order of arrival: the first is the oldest
  std::vector<PassState> passes;         // open
  int available_blocks = 0;
  int free_slots = 0;
  bool running[kGroups] = {};  // a quantum of this group is not finished
  bool prefill_due = false;    // prompts had less than their floor of the time
  bool split = false;          // mode auto: as the last plan decided
  Duration quantum{};  // that one may take, so that a boundary is never far; a layer always runs
  const CostModel* costs = nullptr;
};

struct SchedulerLimits {
  int layers = 0;
  int rows = 0;            // of a prefill pass
  int chunk_rows = 0;      // of prompts in a step, mode chunked
  int tile_rows = 1;       // see ExecutorLimits
  int prefill_passes = 4;  // open at once
  int blocks = 0;          // in the pool; every sequence fits into it alone
  Duration target{};       // of token gaps
  bool can_split = false;  // the device has a prefill and a decode group
};

// `rows` positions of a sequence, from `first` on.
struct RowRange {
  int sequence = 0;  // index into SchedulerState::sequences
  int first = 0;
  int rows = 0;
  bool operator==(const RowRange&) const = default;
};

struct AdmissionPlan {
  std::vector<int> preempt;  // newest first: give up blocks and slot, back to the queue
  std::vector<int> admit;    // oldest first: take a slot and blocks for `length`
};

// Sequences that decode get the block that their next row needs, if need be from the newest, which
// goes back to the queue; the oldest never does. The queue is admitted in order of arrival while
// slots and blocks for the prompt and one more are there and, where `limits.target` has to be kept
// (`keep_target`), while a decode step with all of them stays under 80 % of it.
void plan_admission(const SchedulerState& state, const SchedulerLimits& limits, bool keep_target,
                    AdmissionPlan& plan);

// Names the pass that the same plan opens, where an index of SchedulerState::passes stands.
inline constexpr int kOpened = -2;

struct QuantumPlan {
  Group group = Group::kAll;
  int decode = kNone;
  int prefill = kNone;
  int follower = kNone;  // alone in its quantum
  int layer_begin = 0;
  int layer_end = 0;
};

struct StepPlan {
  std::vector<RowRange> decode;     // not empty: the decode pass opens with them, one row each
  std::vector<RowRange> prefill;    // not empty: a prefill pass opens with them
  bool opens_follower = false;      // the row behind the one range of `prefill` follows it
  std::vector<QuantumPlan> quanta;  // at most one for each idle group
  bool split = false;
  bool over_target = false;  // prompts got their floor although a stream will be late

  void clear() {
    decode.clear();
    prefill.clear();
    quanta.clear();
    opens_follower = split = over_target = false;
  }
};

// Fills `plan`, whose storage is used again. Requires a sequence that is admitted; the plan then
// has a quantum, unless one is running.
using Policy = void (*)(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan);

// Whole prompts, in order of arrival, before any stream goes on.
void plan_serial(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan);
// Every stream's row and up to chunk_rows prompt rows through all layers.
void plan_chunked(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan);
// Every stream's row through all layers, and a whole prompt through some of them.
void plan_layered(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan);
// The tile of prompt rows x layers that the streams' slack allows.
void plan_fused(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan);
// Prompts and streams on groups of their own, each of which has all cores while the other is idle.
void plan_split(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan);
// fused, and split while one layer of a prompt and the streams' step do not fit into the target.
void plan_auto(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan);

Policy policy_of(Mode mode);

}  // namespace weft
