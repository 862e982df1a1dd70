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

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

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
      const bool multiplies = op.kind == OpKind::kLinear || op.kind == OpKind::kExperts;
      const Role role = multiplies ? Role::kMatrix : Role::kVector;
      for (const WeightId id : op.weights) set(id, role);
      for (const WeightId id : op.biases) set(id, Role::kVector);
    }
  }
  for (size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    const TensorView& view = model.weights[i].view;
    if (place.role == Role::kUnused) continue;
    place.type = view.dtype;
    place.matrices = view.shape.rank() == 3 ? view.shape[0] : 1;
    place.outputs = view.shape.rows() / place.matrices;
    place.inputs = view.shape.row_elements();
    place.offset = bytes_;
    if (place.role == Role::kMatrix) {
      place.matrix_bytes = aligned(kernels.packed_bytes(place.type, place.outputs, place.inputs));
      place.bytes = place.matrices * place.matrix_bytes;
    } else {
      place.bytes = aligned(view.shape.elements() * static_cast<int64_t>(sizeof(float)));
    }
    bytes_ += place.bytes;
  }
}

int64_t PackedWeights::bytes(const Model& model, const KernelTable& kernels) {
  PackedWeights weights;
  weights.lay_out(model, kernels);
  return weights.bytes_;
}

// Panels are numbered through all matrices of the place.
void PackedWeights::pack_matrices(const Place& place, const TensorView& view,
                                  const KernelTable& kernels, ThreadPool& pool) {
  const int64_t panels = (place.outputs + kernels.panel_outputs - 1) / kernels.panel_outputs;
  const auto pack_panels = [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t matrix = begin / panels;
      const int64_t first = matrix * panels;
      const int64_t here = std::min(end, first + panels);
      kernels.pack(place.type, view.row(matrix * place.outputs), place.outputs, place.inputs,
                   begin - first, here - first,
                   buffer_.data() + place.offset + matrix * place.matrix_bytes);
      begin = here;
    }
  };
  pool.run([&](ThreadPool::Worker& worker) {
    const int64_t items = place.matrices * panels;
    const int64_t grain = std::max<int64_t>(1, items / (16 * worker.count()));
    worker.parallel_for(items, grain, pack_panels);
  });
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
    if (place.role == Role::kMatrix) {
      weights.pack_matrices(place, view, kernels, pool);
    } else if (place.role == Role::kVector) {
      auto* floats = reinterpret_cast<float*>(weights.buffer_.data() + place.offset);
      for (int64_t e = 0; e < view.shape.elements(); ++e) floats[e] = element(view, e);
    }
    checkpoint.drop_pages(view);
    if (!progress || place.role == Role::kUnused) continue;
    progress(static_cast<double>(place.offset + place.bytes) / static_cast<double>(weights.bytes_));
  }
  if (progress) progress(1.0);
  return weights;
}

PackedMatrix PackedWeights::matrix(WeightId id) const {
  const Place& p = place(id);
  WEFT_CHECK(p.role == Role::kMatrix);
  return {p.type, p.outputs, p.inputs, buffer_.data() + p.offset};
}

const float* PackedWeights::vector(WeightId id) const {
  if (id == WeightId::kNone) return nullptr;
  const Place& p = place(id);
  WEFT_CHECK(p.role == Role::kVector);
  return reinterpret_cast<const float*>(buffer_.data() + p.offset);
}

}  // namespace weft
