#include "engine/planner.h"

namespace weft {
namespace {

// Below this share of the target the streams' step and a layer of the prompt fit again.
constexpr double kBack = 0.8;

bool wants_split(const SchedulerState& state, const SchedulerLimits& limits) {
  StepPlan scratch;
  Planner planner(state, limits, scratch);
  if (!limits.can_split || !planner.has_streams() || !planner.has_prompts()) return false;
  Duration layer{};
  for (const PassState& pass : state.passes) {
    if (pass.kind != PassKind::kPrefill) continue;
    layer = std::max(layer, planner.cost(Group::kAll, pass.work, 0, 1));
  }
  const Duration step = planner.decode_step(Group::kAll) + layer;
  const Duration target = 4 * state.quantum;
  return state.split ? seconds(step) > kBack * seconds(target) : step > target;
}

}  // namespace

void plan_auto(const SchedulerState& state, const SchedulerLimits& limits, StepPlan& plan) {
  if (wants_split(state, limits)) {
    plan_split(state, limits, plan);
  } else {
    plan_fused(state, limits, plan);
  }
}

}  // namespace weft
