#include "engine/planner.h"

namespace weft {
namespace {

void plan_prefill_group(Planner& planner) {
  if (!planner.idle(Group::kPrefill)) return;
  const Planner::Tile tile = planner.choose_tile(
      {.group = Group::kPrefill, .rows = planner.limits().rows, .quantum = true, .follower = true});
  if (tile.exists()) planner.run_tile(Group::kPrefill, tile, Duration::max());
}

// A follower may wait for the layers that are being written only as long as no stream waits for it.
void plan_decode_group(Planner& planner) {
  if (!planner.idle(Group::kDecode)) return;
  const bool may_wait = planner.budget(Group::kDecode) >= planner.state().quantum;
  if (planner.run_follower(Group::kDecode, may_wait)) return;
  if (const int pass = planner.decode_pass(); pass != kNone) {
    planner.run_decode(Group::kDecode, pass, planner.limits().layers);
  }
}

}  // namespace

void plan_split(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan) {
  plan.clear();
  plan.split = true;
  Planner planner(state, limits, plan);
  if (limits.can_split && planner.has_streams() && planner.has_prompts()) {
    if (state.running[static_cast<size_t>(Group::kAll)]) return;
    plan_prefill_group(planner);
    plan_decode_group(planner);
  } else {  // who has work has all cores
    plan_fused(state, limits, plan);
    plan.split = true;
  }
}

}  // namespace weft
