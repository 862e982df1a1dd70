#include "device/cpu/packed_weights.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/half.h"

namespace weft {
namespace {

constexpr int64_t kAlignment = 64;

float element(const TensorView& view, int64_t i) {
  if (view.dtype == DType::kF32) {
    float value = 0;
    std::memcpy(&value, view.bytes.data() + i * 4, sizeof value);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, view.bytes.data() + i * 2, sizeof bits);
  return view.dtype == DType::kF16 ? half_to_float(bits) : bfloat16_to_float(bits);
}

void pack_matrix(const TensorView& view, const KernelTable& kernels, ThreadPool& pool,
                 std::byte* out) {
  const int64_t outputs = view.shape.rows();
  const int64_t inputs = view.shape.row_elements();
  const int64_t panels = (outputs + kernels.panel_outputs - 1) / kernels.panel_outputs;
  pool.run([&](ThreadPool::Worker& worker) {
    const int64_t grain = std::max<int64_t>(1, panels / (16 * worker.count()));
    worker.parallel_for(panels, grain, [&](int64_t begin, int64_t end) {
      kernels.pack(view.dtype, view.bytes.data(), outputs, inputs, begin, end, out);
    });
  });
}

}  // namespace

void PackedWeights::lay_out(const Model& model, const KernelTable& kernels) {
  places_.resize(model.weights.size());
  const auto set = [&](WeightId id, Role role) {
    if (id != WeightId::kNone) places_[static_cast<size_t>(id)].role = role;
  };
  set(model.embedding, Role::kMatrix);
  set(model.head, Role::kMatrix);
  set(model.final_norm, Role::kVector);
  for (const std::vector<Op>& layer : model.layers) {
    for (const Op& op : layer) {
      const Role role = op.kind == OpKind::kLinear ? Role::kMatrix : Role::kVector;
      for (const WeightId id : op.weights) set(id, role);
      for (const WeightId id : op.biases) set(id, Role::kVector);
    }
  }
  for (size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    const TensorView& view = model.weights[i].view;
    if (place.role == Role::kUnused) continue;
    place.type = view.dtype;
    place.outputs = view.shape.rows();
    place.inputs = view.shape.row_elements();
    place.offset = bytes_;
    const int64_t bytes = place.role == Role::kMatrix
                              ? kernels.packed_bytes(place.type, place.outputs, place.inputs)
                              : view.shape.elements() * static_cast<int64_t>(sizeof(float));
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
}

int64_t PackedWeights::bytes(const Model& model, const KernelTable& kernels) {
  PackedWeights weights;
  weights.lay_out(model, kernels);
  return weights.bytes_;
}

Result<PackedWeights> PackedWeights::pack(const Model& model, const Checkpoint& checkpoint,
                                          const KernelTable& kernels, ThreadPool& pool,
                                          const std::function<void(double)>& progress) {
  PackedWeights weights;
  weights.lay_out(model, kernels);
  WEFT_ASSIGN(weights.buffer_, Buffer::allocate(static_cast<size_t>(weights.bytes_)));
  for (size_t i = 0; i < weights.places_.size(); ++i) {
    const Place& place = weights.places_[i];
    const TensorView& view = model.weights[i].view;
    std::byte* out = weights.buffer_.data() + place.offset;
    if (place.role == Role::kMatrix) {
      pack_matrix(view, kernels, pool, out);
    } else if (place.role == Role::kVector) {
      auto* floats = reinterpret_cast<float*>(out);
      for (int64_t e = 0; e < view.shape.elements(); ++e) floats[e] = element(view, e);
    }
    checkpoint.drop_pages(view);
    if (!progress || place.role == Role::kUnused) continue;
    const int64_t done =
        place.offset + (place.role == Role::kMatrix
                            ? kernels.packed_bytes(place.type, place.outputs, place.inputs)
                            : 0);
    progress(static_cast<double>(done) / static_cast<double>(weights.bytes_));
  }
  if (progress) progress(1.0);
  return weights;
}

PackedMatrix PackedWeights::matrix(WeightId id) const {
  const Place& place = places_[static_cast<size_t>(id)];
  WEFT_CHECK(place.role == Role::kMatrix);
  return {place.type, place.outputs, place.inputs, buffer_.data() + place.offset};
}

const float* PackedWeights::vector(WeightId id) const {
  if (id == WeightId::kNone) return nullptr;
  const Place& place = places_[static_cast<size_t>(id)];
  WEFT_CHECK(place.role == Role::kVector);
  return reinterpret_cast<const float*>(buffer_.data() + place.offset);
}

}  // namespace weft
