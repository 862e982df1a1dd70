#include "engine/planner.h"

namespace weft {

void plan_chunked(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan) {
  plan.clear();
  Planner planner(state, limits, plan);
  const Planner::Tile tile = planner.choose_tile({.order = Planner::Order::kArrival,
                                                  .rows = std::min(limits.chunk_rows, limits.rows),
                                                  .fill = true});
  plan.quanta.push_back({.decode = planner.decode_pass(),
                         .prefill = tile.pass,
                         .layer_begin = 0,
                         .layer_end = limits.layers});
}

}  // namespace weft
