#pragma once
// What runs next, decided by integers alone. A policy is a pure function of the state and the
// limits: it knows no clock, no tensor and no executor, so each of its decisions can be written
// down as a test of a few lines.
//
// What a policy may come to decide has its place here. The state lists what a decision rests on: a
// policy that leaves a prefill pass between two layers needs the open passes and their next layer
// there, one that predicts times the predicted costs, as integers. The plan lists what is to run:
// one decode pass and one prefill pass that share the layers [layer_begin, layer_end) on one core
// group; a shorter range leaves passes open, a second group adds a second such entry. The engine
// applies a plan as it is and chooses nothing itself.

#include <cstdint>
#include <vector>

namespace weft {

enum class Stage : uint8_t {
  kQueued,      // holds nothing; never ran, or was preempted
  kPrefilling,  // has a slot and blocks for `length`; rows from `computed` on are still to run
  kDecoding,    // has a slot; one token is sampled and not yet run, at position `computed`
  kFinished,    // never seen by a policy
};

struct SequenceState {
  Stage stage = Stage::kQueued;
  int length = 0;    // positions to run until the next sample: the prompt and the outputs so far
  int computed = 0;  // of them, those whose keys and values are stored
  int blocks = 0;    // held
};

struct SchedulerState {
  std::vector<SequenceState> sequences;  // in order of arrival: the first is the oldest
  int free_blocks = 0;
  int free_slots = 0;
};

struct SchedulerLimits {
  int layers = 0;
  int rows = 0;        // of a quantum; at least the number of slots
  int chunk_rows = 0;  // prompt rows of a quantum
  int blocks = 0;      // in the pool; every sequence fits into it alone
};

// `rows` positions of a sequence, from `first` on.
struct RowRange {
  int sequence = 0;  // index into SchedulerState::sequences
  int first = 0;
  int rows = 0;
  bool operator==(const RowRange&) const = default;
};

// Applied from top to bottom.
struct StepPlan {
  std::vector<int> preempt;       // newest first: give up blocks and slot, back to the queue
  std::vector<int> admit;         // oldest first: take a slot and blocks for `length`
  std::vector<RowRange> decode;   // one row each; grow by a block where the row needs one
  std::vector<RowRange> prefill;  // chunks
  int layer_begin = 0;
  int layer_end = 0;

  void clear() {
    preempt.clear();
    admit.clear();
    decode.clear();
    prefill.clear();
    layer_begin = layer_end = 0;
  }
};

// Fills `plan`, whose storage is used again. Requires at least one sequence; the plan then has at
// least one row, and the oldest sequence is among those that advance.
using Policy = void (*)(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan);

// Continuous batching with chunked prompts: the row of every decoding sequence, then prompt chunks
// within the row budget, oldest first. Queued sequences are admitted in order of arrival while
// blocks for their length and one more are free. When a decoding sequence finds no block, the
// newest is preempted; the oldest never is.
void plan_chunked(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan);

}  // namespace weft
