#pragma once
// Planner: the words in which policies are written. One planning of what idle groups run next.

#include <vector>

#include "engine/scheduler.h"

namespace weft {

class Planner {
 public:
  Planner(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan)
      : state_(state), limits_(limits), plan_(plan) {}

  // Prompt rows that may run: an open pass, or rows that would open one.
  struct Tile {
    int pass = kNone;  // an index, kOpened, or kNone where no prompt has anything to run
    Work work;
    int next_layer = 0;
    bool exists() const { return pass != kNone; }
  };
  enum class Order : uint8_t {
    kArrival,
    kLeastWork,  // remaining, less the time that it has waited
  };
  // How a tile is chosen and, where it is to open, cut.
  struct TileRule {
    Order order = Order::kLeastWork;
    Group group = Group::kAll;
    int rows = 0;           // at most
    bool quantum = false;   // and no more than leave a few layers for a quantum
    bool fill = false;      // as many prompts as fit, not only so many as make it worth while
    bool follower = false;  // a prompt's last row is left to a follower
  };
  // Puts the rows of a pass that is to open into the plan; they open only if a quantum names it.
  Tile choose_tile(const TileRule& rule);

  bool idle(Group group) const;
  bool all_idle() const;
  bool has_streams() const;  // somebody decodes
  bool has_prompts() const;  // somebody has prompt rows to run, or a follower has

  // The open decode pass or kOpened: then its rows are in the plan. kNone without streams.
  int decode_pass();
  Work decode_work(int pass) const;
  int decode_layer(int pass) const;
  // A step of all streams, from embedding to samples.
  Duration decode_step(Group group) const;
  // How long a quantum for prompts may keep the streams waiting, so that each has its next token in
  // time. The longest duration where there are none.
  Duration budget(Group group) const;

  Duration cost(Group group, const Work& work, int layer_begin, int layer_end) const;
  // The most layers from `begin` on that take no longer than `limit`; at least one.
  int layers_within(Group group, const Work& work, int begin, Duration limit) const;
  // The most rows from position `first` on, up to `most`, of which a quantum has a few layers.
  int rows_within_quantum(Group group, int first, int most) const;

  // Quanta, each within the quantum limit: the decode pass, at most up to a layer; a tile; a
  // follower whose pass has gone far enough (false: there is none).
  void run_decode(Group group, int pass, int layer_limit);
  void run_tile(Group group, const Tile& tile, Duration limit);
  bool run_follower(Group group, bool may_wait);
  // Both through the same layers, which both have come to.
  void run_joined(Group group, int pass, const Tile& tile, int layer_end);

  const SchedulerState& state() const { return state_; }
  const SchedulerLimits& limits() const { return limits_; }
  StepPlan& plan() { return plan_; }

 private:
  const SequenceState& at(int i) const { return state_.sequences[static_cast<size_t>(i)]; }
  bool opens(int i) const;  // may have rows in a pass that is to open
  Duration remaining(const TileRule& rule, int first, int end) const;
  Tile open_tile(int sequence, const TileRule& rule);
  Work decode_rows() const;
  void add_companions(int sequence, const TileRule& rule, Tile& tile);

  const SchedulerState& state_;
  const SchedulerLimits& limits_;
  StepPlan& plan_;
};

}  // namespace weft
