#include "cli/roofline.h"

#include <algorithm>

#include "cli/machine_limits.h"
#include "tensor/buffer.h"

namespace weft {
namespace {

constexpr size_t kMemory = size_t{128} << 20;
constexpr int kLooks = 3;

// What a layer's multiplications are made of, a mean over the layers.
struct LayerSize {
  double row_operations = 0;
  double weight_bytes = 0;
};

LayerSize layer_size(const Model& model) {
  LayerSize size;
  const ModelConfig& config = model.config;
  for (const auto& layer : model.layers) {
    for (const Op& op : layer) {
      if (op.kind != OpKind::kLinear && op.kind != OpKind::kExperts) continue;
      for (const WeightId id : op.weights) {
        if (id == WeightId::kNone) continue;
        const TensorView& weight = model.weight(id).view;
        const int64_t inputs = weight.shape.row_elements();
        // Of experts, those that a row has: the least that can be read.
        const double share = op.kind == OpKind::kExperts
                                 ? static_cast<double>(config.experts_used) / config.experts
                                 : 1;
        size.row_operations += share * 2 * static_cast<double>(weight.shape.elements());
        size.weight_bytes +=
            share * static_cast<double>(weight.shape.rows() * row_bytes(weight.dtype, inputs));
      }
    }
  }
  size.row_operations /= config.layers;
  size.weight_bytes /= config.layers;
  return size;
}

// Of the type that the layers' multiplications compute in.
double peak_of(const Model& model, const KernelTable& kernels, const MachineLimits& limits) {
  for (const Op& op : model.layers.front()) {
    if (op.kind != OpKind::kLinear) continue;
    const DType type = model.weight(op.weights[0]).view.dtype;
    const ActivationFormat format = kernels.activation_format(type);
    if (format == ActivationFormat::kBF16) return limits.bf16_ops;
    if (format == ActivationFormat::kF32) return limits.f32_ops;
    return limits.int8_ops;
  }
  return limits.f32_ops;
}

}  // namespace

Result<Roofline> measure_roofline(const LoadedModel& loaded) {
  const Model& model = *loaded.model;
  const ModelConfig& config = model.config;
  const KernelTable& kernels = *loaded.kernels;
  WEFT_ASSIGN(auto pool, ThreadPool::create(loaded.executor->cores(Group::kAll)));
  WEFT_ASSIGN(Buffer memory, Buffer::allocate(kMemory));
  std::fill_n(memory.data(), memory.size(), std::byte{1});
  LimitProbe probe(kernels, *pool, {memory.data(), memory.size()});
  for (int i = 0; i < kLooks; ++i) probe.look();
  const MachineLimits& limits = probe.best();

  const LayerSize layer = layer_size(model);
  const TensorView& head = model.weight(model.head).view;
  const double operation = 1e9 / peak_of(model, kernels, limits);
  // Attention computes in floats, or in bf16 pairs where the CPU has them.
  const double attention = 1e9 / std::max(limits.f32_ops, limits.bf16_ops);
  const double byte = 1e9 / limits.read_bytes;
  const KvLayout layout{loaded.kv_type, config.kv_heads, config.head_dim};
  Roofline roofline;
  roofline.row = operation * layer.row_operations;
  roofline.key = attention * 4 * config.heads * config.head_dim;
  roofline.head_row = operation * 2 * static_cast<double>(head.shape.elements());
  roofline.weights = byte * layer.weight_bytes;
  roofline.key_bytes = byte * static_cast<double>(kernels.kv_block_bytes(layout)) / kBlockPositions;
  roofline.head = byte * static_cast<double>(head.shape.rows() *
                                             row_bytes(head.dtype, head.shape.row_elements()));
  return roofline;
}

}  // namespace weft
