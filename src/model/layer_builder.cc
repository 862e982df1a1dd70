#include "model/layer_builder.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "checkpoint/printable.h"

namespace weft {

void LayerBuilder::fail(ErrorKind kind, std::string message) {
  if (status_.ok()) status_ = Error{kind, std::move(message)};
}

WeightId LayerBuilder::find(const std::string& name, const Shape& expected) {
  const std::string full = prefix_ + name;
  const TensorView* view = checkpoint_.find(full);
  if (view == nullptr) {
    fail(ErrorKind::kCorrupt,
         fmt::format("tensor '{}' is missing; the model's sizes ask for {}", full, expected.str()));
    return WeightId::kNone;
  }
  if (view->shape != expected) {
    fail(ErrorKind::kCorrupt, fmt::format("tensor '{}' is {}, but the model's sizes ask for {}",
                                          full, view->shape.str(), expected.str()));
    return WeightId::kNone;
  }
  used_.insert(full);
  model_.weights.push_back({full, *view});
  return static_cast<WeightId>(model_.weights.size() - 1);
}

WeightId LayerBuilder::matrix(const std::string& name, int64_t outputs, int64_t inputs) {
  return find(name, {outputs, inputs});
}

WeightId LayerBuilder::expert_matrices(const std::string& name, int64_t outputs, int64_t inputs) {
  return find(name, {config().experts, outputs, inputs});
}

WeightId LayerBuilder::vector(const std::string& name, int64_t elements) {
  const WeightId id = find(name, {elements});
  if (id == WeightId::kNone) return id;
  const DType type = model_.weight(id).view.dtype;
  if (type != DType::kF32 && type != DType::kF16 && type != DType::kBF16) {
    fail(ErrorKind::kUnsupported,
         fmt::format("tensor '{}' is {}; a vector {} has to be F32, F16 or BF16", prefix_ + name,
                     dtype_info(type).name, Shape{elements}.str()));
  }
  return id;
}

Op LayerBuilder::linear(Stream in, Stream out, bool add, std::span<const Projection> projections) {
  Op op{.kind = OpKind::kLinear, .in = in, .out = out, .add = add};
  for (size_t i = 0; i < projections.size(); ++i) {
    const Projection& p = projections[i];
    const std::string bias = std::string(p.name) + ".bias";
    op.weights[i] = matrix(std::string(p.name) + ".weight", p.outputs, model_.width(in));
    if (p.bias == Bias::kRequired || (p.bias == Bias::kOptional && has(bias))) {
      op.biases[i] = vector(bias, p.outputs);
    }
  }
  return op;
}

Op LayerBuilder::rms_norm(std::string_view name) {
  Op op{.kind = OpKind::kRmsNorm, .in = Stream::kHidden, .out = Stream::kNormed};
  op.weights[0] = vector(std::string(name) + ".weight", config().hidden);
  return op;
}

Op LayerBuilder::qkv(std::initializer_list<Projection> projections) {
  return linear(Stream::kNormed, Stream::kQkv, false, projections);
}

Op LayerBuilder::head_norm(std::string_view query_name, std::string_view key_name) {
  Op op{.kind = OpKind::kHeadNorm, .in = Stream::kQkv, .out = Stream::kQkv};
  op.weights[0] = vector(std::string(query_name) + ".weight", config().head_dim);
  op.weights[1] = vector(std::string(key_name) + ".weight", config().head_dim);
  return op;
}

Op LayerBuilder::rope() { return {.kind = OpKind::kRope, .in = Stream::kQkv, .out = Stream::kQkv}; }

Op LayerBuilder::store_kv() {
  return {.kind = OpKind::kStoreKv, .in = Stream::kQkv, .out = Stream::kQkv};
}

Op LayerBuilder::attention() {
  return {.kind = OpKind::kAttention, .in = Stream::kQkv, .out = Stream::kAttention};
}

Op LayerBuilder::attention_output(std::string_view name, Bias bias) {
  return linear(Stream::kAttention, Stream::kHidden, true,
                std::array{Projection{name, config().hidden, bias}});
}

Op LayerBuilder::gate_up(std::string_view gate, std::string_view up, Bias bias) {
  return linear(
      Stream::kNormed, Stream::kGateUp, false,
      std::array{Projection{gate, config().ffn, bias}, Projection{up, config().ffn, bias}});
}

Op LayerBuilder::swiglu() {
  return {.kind = OpKind::kSwiGlu, .in = Stream::kGateUp, .out = Stream::kFfn};
}

Op LayerBuilder::ffn_output(std::string_view name, Bias bias) {
  return linear(Stream::kFfn, Stream::kHidden, true,
                std::array{Projection{name, config().hidden, bias}});
}

Op LayerBuilder::router(std::string_view name) {
  return linear(Stream::kNormed, Stream::kRouter, false,
                std::array{Projection{name, config().experts}});
}

Op LayerBuilder::experts(std::string_view gate, std::string_view up, std::string_view down) {
  // Early Mixtral files have "ffn_gate.0.weight" and so on.
  if (has("ffn_gate.0.weight")) {
    fail(ErrorKind::kUnsupported,
         fmt::format("tensor '{}ffn_gate.0.weight': files with a tensor for each expert, as they "
                     "were made before experts shared '{}{}.weight', are not implemented; convert "
                     "the model again",
                     prefix_, prefix_, gate));
  }
  Op op{.kind = OpKind::kExperts, .in = Stream::kNormed, .out = Stream::kHidden, .add = true};
  const int ffn = config().expert_ffn;
  const int hidden = config().hidden;
  op.weights[0] = expert_matrices(std::string(gate) + ".weight", ffn, hidden);
  op.weights[1] = expert_matrices(std::string(up) + ".weight", ffn, hidden);
  op.weights[2] = expert_matrices(std::string(down) + ".weight", hidden, ffn);
  return op;
}

Status LayerBuilder::check_all_used() const {
  for (const NamedTensor& tensor : checkpoint_.tensors()) {
    if (used_.contains(tensor.name)) continue;
    return Error{ErrorKind::kUnsupported,
                 fmt::format("tensor '{}' {} is not part of a {} model of {} layers as it is "
                             "implemented here; without it the text would be wrong",
                             printable(tensor.name), tensor.view.shape.str(), config().architecture,
                             config().layers)};
  }
  return {};
}

}  // namespace weft
