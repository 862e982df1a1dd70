#include <algorithm>

#include "engine/planner.h"

namespace weft {
namespace {

// Prompt rows beside streams. A window from one token of the streams to the next begins with quanta
// of the prompt alone. When no further one would leave room for another, the streams' step starts,
// and the last part of the tile rides along where the step comes through its layers, so that the
// weights of these are read once for both.
void weave(Planner& planner, const Planner::Tile& tile) {
  const SchedulerState& state = planner.state();
  const int layers = planner.limits().layers;
  const auto layer_cost = [&](const Work& work, int begin, int end) {
    return planner.cost(Group::kAll, work, begin, end);
  };
  const int pass = planner.decode_pass();
  const Duration smallest = layer_cost(tile.work, tile.next_layer, tile.next_layer + 1);
  Duration budget = planner.budget(Group::kAll);
  if (state.prefill_due && budget < smallest) {
    planner.plan().over_target = true;
    budget = smallest;
  }
  if (pass == kOpened && budget >= smallest) {
    const int alone = planner.layers_within(Group::kAll, tile.work, tile.next_layer,
                                            std::min(budget, state.quantum));
    const Duration used = layer_cost(tile.work, tile.next_layer, tile.next_layer + alone);
    if (budget - used >= smallest || planner.plan().over_target) {
      planner.run_tile(Group::kAll, tile, budget);
      return;
    }
  }
  const int layer = planner.decode_layer(pass);
  if (budget < smallest || layer > tile.next_layer) {
    planner.run_decode(Group::kAll, pass, layers);
  } else if (layer < tile.next_layer) {
    planner.run_decode(Group::kAll, pass, tile.next_layer);
  } else {
    const Work rows = planner.decode_work(pass);
    int end = layer + 1;
    const auto fits = [&](int to) {
      const Duration both = layer_cost(tile.work + rows, layer, to);
      return both <= state.quantum && both - layer_cost(rows, layer, to) <= budget;
    };
    while (end < layers && fits(end + 1)) ++end;
    planner.run_joined(Group::kAll, pass, tile, end);
  }
}

}  // namespace

void plan_fused(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan) {
  plan.clear();
  Planner planner(state, limits, plan);
  if (!planner.all_idle() || planner.run_follower(Group::kAll, false)) return;
  const Planner::Tile tile = planner.choose_tile({.rows = limits.rows, .quantum = true});
  if (!tile.exists()) {
    planner.run_decode(Group::kAll, planner.decode_pass(), limits.layers);
  } else if (!planner.has_streams()) {
    planner.run_tile(Group::kAll, tile, Duration::max());
  } else {
    weave(planner, tile);
  }
}

}  // namespace weft
