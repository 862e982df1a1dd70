#include <algorithm>

#include "engine/planner.h"

namespace weft {

void plan_layered(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan) {
  plan.clear();
  Planner planner(state, limits, plan);
  const Planner::Tile tile =
      planner.choose_tile({.order = Planner::Order::kArrival, .rows = limits.rows});
  const int pass = planner.decode_pass();
  // As much of the prompt in a step as a chunk through all layers would be.
  const int64_t share =
      tile.exists() ? int64_t{limits.layers} * limits.chunk_rows / tile.work.rows : limits.layers;
  const int layers = static_cast<int>(std::clamp<int64_t>(share, 1, limits.layers));
  const int tile_end = std::min(tile.next_layer + layers, limits.layers);
  if (pass == kNone) {
    plan.quanta.push_back(
        {.prefill = tile.pass, .layer_begin = tile.next_layer, .layer_end = tile_end});
    return;
  }
  const int layer = planner.decode_layer(pass);
  const bool joined = pass != kOpened && state.passes[static_cast<size_t>(pass)].shared_layers > 0;
  if (!tile.exists() || joined || layer > tile.next_layer) {
    plan.quanta.push_back({.decode = pass, .layer_begin = layer, .layer_end = limits.layers});
  } else if (layer < tile.next_layer) {
    plan.quanta.push_back({.decode = pass, .layer_begin = layer, .layer_end = tile.next_layer});
  } else {
    planner.run_joined(Group::kAll, pass, tile, tile_end);
  }
}

}  // namespace weft
