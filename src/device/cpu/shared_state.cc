#include "device/cpu/shared_state.h"

#include <chrono>
#include <utility>

namespace weft {

SharedState::SharedState(const Model& model, const CpuOptions& options, PackedWeights packed)
    : model(model),
      kernels(*options.kernels),
      limits(options.limits),
      on_logits(options.on_logits),
      weights(std::move(packed)),
      plan(make_plan(model, weights, kernels)),
      board(limits.passes),
      slots(static_cast<size_t>(limits.slots)),
      last_layer_end(std::chrono::steady_clock::now().time_since_epoch().count()) {}

Result<std::unique_ptr<SharedState>> SharedState::create(
    const Model& model, const Checkpoint& checkpoint, const CpuOptions& options, ThreadPool& pool,
    const std::function<void(double)>& progress) {
  const ModelConfig& config = model.config;
  WEFT_ASSIGN(PackedWeights weights,
              PackedWeights::pack(model, checkpoint, *options.kernels, pool, progress));
  auto state = std::make_unique<SharedState>(model, options, std::move(weights));
  WEFT_ASSIGN(state->angles, RopeAngles::create(model.rope_frequencies, config.rope.interleaved,
                                                options.limits.context));
  const KvLayout layout{options.kv_type, config.kv_heads, config.head_dim};
  WEFT_ASSIGN(state->kv,
              KvCache::create(*options.kernels, layout, config.layers, options.limits.blocks));
  WEFT_ASSIGN(state->passes, PassStore::create(options.limits, config.hidden));
  return state;
}

}  // namespace weft
