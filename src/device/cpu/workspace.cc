#include "device/cpu/workspace.h"

#include <algorithm>

namespace weft {
namespace {

Result<Buffer> floats(int64_t rows, int64_t width) {
  return Buffer::allocate(static_cast<size_t>(rows * width) * sizeof(float));
}

Status allocate(ActivationBuffers& activations, const Plan& plan, const KernelTable& kernels,
                int64_t rows) {
  for (size_t i = 0; i < activations.size(); ++i) {
    const int64_t bytes = plan.activation_bytes(kernels, static_cast<int>(i), rows);
    WEFT_ASSIGN(activations[i], Buffer::allocate(static_cast<size_t>(bytes)));
  }
  return {};
}

}  // namespace

Result<Workspace> Workspace::create(const Model& model, const Plan& plan,
                                    const KernelTable& kernels, const ExecutorLimits& limits,
                                    int threads) {
  const ModelConfig& config = model.config;
  Workspace w;
  const Stream last = config.experts > 0 ? Stream::kRouter : Stream::kGateUp;
  for (const Stream s : {Stream::kHidden, Stream::kQkv, Stream::kAttention, last}) {
    WEFT_ASSIGN(w.streams[static_cast<size_t>(s)], floats(limits.rows, model.width(s)));
  }
  WEFT_ASSIGN(w.output_hidden, floats(limits.rows, config.hidden));
  WEFT_RETURN_IF_ERROR(allocate(w.activations, plan, kernels, limits.rows));
  w.own_activations.resize(static_cast<size_t>(threads));
  for (ActivationBuffers& own : w.own_activations) {
    WEFT_RETURN_IF_ERROR(allocate(own, plan, kernels, plan.one_piece_rows(kernels, limits.rows)));
  }
  w.logit_rows = std::min(limits.output_rows, kLogitRows);
  WEFT_ASSIGN(w.logits, floats(w.logit_rows, config.vocab));
  w.samples.resize(static_cast<size_t>(limits.rows));
  w.sampler_scratch.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) w.sampler_scratch.emplace_back(config.vocab);
  return w;
}

}  // namespace weft
