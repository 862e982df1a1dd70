#include "engine/planner.h"

namespace weft {

void plan_serial(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan) {
  plan.clear();
  Planner planner(state, limits, plan);
  const Planner::Tile tile = planner.choose_tile(
      {.order = Planner::Order::kArrival, .rows = limits.rows, .quantum = true});
  if (tile.exists()) {
    planner.run_tile(Group::kAll, tile, Duration::max());
  } else {
    planner.run_decode(Group::kAll, planner.decode_pass(), limits.layers);
  }
}

}  // namespace weft
