#include "device/ascend/ascend_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ascend/kernels/descriptor.h"

namespace weft {
namespace {

Status make(DeviceMemory& memory, int64_t bytes, const char* purpose) {
  WEFT_ASSIGN(memory, DeviceMemory::allocate(static_cast<uint64_t>(bytes), purpose));
  return {};
}

}  // namespace

int64_t ascend_kv_block_bytes(const Model& model) {
  const ModelConfig& config = model.config;
  return int64_t{config.layers} * config.kv_heads * 2 * kBlockPositions * config.head_dim * 2;
}

Result<std::unique_ptr<AscendModel>> AscendModel::create(
    const Model& model, const std::vector<LayerRoles>& layers, const Checkpoint& checkpoint,
    AscendWeights weights, const Sizes& sizes, const std::function<void(double)>& progress) {
  std::unique_ptr<AscendModel> made(new AscendModel(model.config, sizes));
  WEFT_ASSIGN(made->weights_, DeviceWeights::load(model, layers, checkpoint, weights, progress));
  WEFT_RETURN_IF_ERROR(made->allocate(model));
  return made;
}

Status AscendModel::allocate(const Model& model) {
  const ExecutorLimits& limits = sizes_.limits;
  const int64_t block_bytes = ascend_kv_block_bytes(model);
  // Blocks are cleared before they are used.
  WEFT_ASSIGN(kv_, DeviceMemory::allocate(static_cast<uint64_t>(block_bytes * limits.blocks),
                                          "the KV pool", DeviceMemory::Contents::kAnything));
  WEFT_RETURN_IF_ERROR(make(slot_tokens_,
                            int64_t{limits.slots} * weft_ascend::kSlotStride * sizeof(int32_t),
                            "the slots' tokens"));
  WEFT_RETURN_IF_ERROR(make(
      passes_, int64_t{limits.passes} * limits.rows * config_.hidden * sizeof(float), "passes"));
  WEFT_RETURN_IF_ERROR(load_rope(model));
  const auto& layers = weights_.layers();
  WEFT_RETURN_IF_ERROR(
      make(layer_weights_, static_cast<int64_t>(layers.size() * sizeof(layers[0])), "weights"));
  WEFT_RETURN_IF_ERROR(layer_weights_.write_values<weft_ascend::LayerWeights>(0, layers));
  for (int i = 0; i < sizes_.workspaces; ++i) {
    WEFT_ASSIGN(GroupMemory group,
                GroupMemory::create(config_, limits, sizes_.cores, weights_.any_int8()));
    memory_.push_back(std::move(group));
  }
  WEFT_RETURN_IF_ERROR(
      make(workspaces_, weft_ascend::kRings * sizeof(weft_ascend::Workspace), "workspaces"));
  WEFT_RETURN_IF_ERROR(write_workspaces());
  return describe(block_bytes);
}

Status AscendModel::describe(int64_t block_bytes) {
  const ExecutorLimits& limits = sizes_.limits;
  weft_ascend::DeviceModel m{};
  m.layers = config_.layers;
  m.hidden = config_.hidden;
  m.heads = config_.heads;
  m.kv_heads = config_.kv_heads;
  m.head_dim = config_.head_dim;
  m.ffn = config_.ffn;
  m.vocab = config_.vocab;
  m.rope_dims = config_.rope.dims;
  m.context = limits.context;
  m.rms_eps = config_.rms_eps;
  m.attention_scale = config_.attention_scale;
  m.pass_rows = limits.rows;
  m.embedding = weights_.embedding();
  m.final_norm = weights_.final_norm();
  m.head = weights_.head();
  m.layer_weights = layer_weights_.address();
  m.rope_cos = rope_cos_.address();
  m.rope_sin = rope_sin_.address();
  m.kv_pool = kv_.address();
  m.kv_layer_bytes = block_bytes / config_.layers * limits.blocks;
  m.slot_tokens = slot_tokens_.address();
  m.passes = passes_.address();
  WEFT_RETURN_IF_ERROR(make(model_, sizeof m, "the model"));
  return model_.write_value(0, m);
}

// cos and sin of every position and rotary pair, computed in double.
Status AscendModel::load_rope(const Model& model) {
  const auto context = static_cast<size_t>(sizes_.limits.context);
  std::vector<float> cos;
  std::vector<float> sin;
  cos.reserve(model.rope_frequencies.size() * context);
  sin.reserve(cos.capacity());
  for (size_t position = 0; position < context; ++position) {
    for (const float frequency : model.rope_frequencies) {
      const double angle = double{frequency} * static_cast<double>(position);
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  const auto bytes = static_cast<int64_t>(cos.size() * sizeof(float));
  WEFT_RETURN_IF_ERROR(make(rope_cos_, bytes, "the rope's tables"));
  WEFT_RETURN_IF_ERROR(make(rope_sin_, bytes, "the rope's tables"));
  WEFT_RETURN_IF_ERROR(rope_cos_.write_values<float>(0, cos));
  return rope_sin_.write_values<float>(0, sin);
}

Status AscendModel::write_workspaces() {
  for (size_t i = 0; i < memory_.size(); ++i) {
    WEFT_RETURN_IF_ERROR(
        workspaces_.write_value(i * sizeof(weft_ascend::Workspace), memory_[i].addresses()));
  }
  return {};
}

Status AscendModel::read_logits(int workspace, int row, std::span<float> logits) const {
  return memory_[static_cast<size_t>(workspace)].logits().read(
      static_cast<uint64_t>(row) * logits.size_bytes(), std::as_writable_bytes(logits));
}

Status AscendModel::ensure_partials(int workspace, int64_t bytes) {
  WEFT_ASSIGN(const bool moved, memory_[static_cast<size_t>(workspace)].ensure_partials(bytes));
  return moved ? write_workspaces() : Status{};
}

// Through the host, since a copy within the device may not overlap.
Status AscendModel::drop_rows(PassId pass, int64_t rows, int64_t first, int64_t count) {
  const uint64_t row_bytes = static_cast<uint64_t>(config_.hidden) * sizeof(float);
  const auto place = static_cast<uint64_t>(int64_t{pass} * sizes_.limits.rows + first) * row_bytes;
  std::vector<std::byte> behind(static_cast<uint64_t>(rows - first - count) * row_bytes);
  WEFT_RETURN_IF_ERROR(passes_.read(place + static_cast<uint64_t>(count) * row_bytes, behind));
  return passes_.write(place, behind);
}

}  // namespace weft
