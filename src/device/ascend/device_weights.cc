#include "device/ascend/device_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "device/ascend/fractal_layout.h"
#include "kernels/half.h"
#include "kernels/ref/dequantize.h"

namespace weft {

using weft_ascend::LayerWeights;
using weft_ascend::MatrixWeights;

namespace {

// Outputs that are converted and copied at once.
constexpr int64_t kChunkOutputs = 512;

// A run of a matrix's outputs: those of one tensor, perhaps with each head's rotated pairs
// (2i, 2i + 1) moved to (i, i + dims / 2), as the kernels rotate them.
struct Part {
  WeightId weight = WeightId::kNone;
  WeightId bias = WeightId::kNone;
  bool interleaved = false;
};

float element(const TensorView& view, int64_t i) {
  float value = 0;
  dequantize(view.dtype, view.bytes.data() + i * dtype_info(view.dtype).block_bytes, 1, &value);
  return value;
}

}  // namespace

class WeightLoader {
 public:
  WeightLoader(const Model& model, const Checkpoint& checkpoint, AscendWeights kind, double total,
               const std::function<void(double)>& progress)
      : model_(model), checkpoint_(checkpoint), kind_(kind), total_(total), progress_(progress) {}

  Result<DeviceWeights> load(const std::vector<LayerRoles>& layers) {
    WEFT_ASSIGN(result_.embedding_, load_embedding());
    WEFT_ASSIGN(result_.final_norm_, load_vector(model_.final_norm));
    WEFT_ASSIGN(result_.head_, load_matrix(std::array{Part{model_.head}}));
    for (const LayerRoles& roles : layers) {
      WEFT_ASSIGN(const LayerWeights layer, load_layer(roles));
      result_.layers_.push_back(layer);
    }
    for (const Weight& weight : model_.weights) checkpoint_.drop_pages(weight.view);
    if (progress_) progress_(1.0);
    return std::move(result_);
  }

  static bool is_int8(const Model& model, std::span<const Part> parts, AscendWeights kind) {
    return kind == AscendWeights::kAuto &&
           std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
             return model.weight(part.weight).view.dtype == DType::kQ8_0;
           });
  }

 private:
  const TensorView& view(WeightId id) const { return model_.weight(id).view; }

  Result<LayerWeights> load_layer(const LayerRoles& roles) {
    const ModelConfig& config = model_.config;
    const bool interleaved = config.rope.interleaved;
    LayerWeights layer{};
    WEFT_ASSIGN(layer.attention_norm, load_vector(roles.attention_norm));
    WEFT_ASSIGN(layer.query_norm, load_vector(roles.query_norm, interleaved));
    WEFT_ASSIGN(layer.key_norm, load_vector(roles.key_norm, interleaved));
    WEFT_ASSIGN(layer.ffn_norm, load_vector(roles.ffn_norm));
    WEFT_ASSIGN(layer.qkv, load_matrix(std::array{Part{roles.query, roles.query_bias, interleaved},
                                                  Part{roles.key, roles.key_bias, interleaved},
                                                  Part{roles.value, roles.value_bias}}));
    const int queries = config.heads * config.head_dim;
    layer.queries = outputs_of(layer.qkv, 0, queries);
    layer.keys = outputs_of(layer.qkv, queries, layer.qkv.outputs - queries);
    WEFT_ASSIGN(layer.out, load_matrix(std::array{Part{roles.out, roles.out_bias}}));
    WEFT_ASSIGN(layer.gate_up, load_matrix(std::array{Part{roles.gate, roles.gate_bias},
                                                      Part{roles.up, roles.up_bias}}));
    WEFT_ASSIGN(layer.down, load_matrix(std::array{Part{roles.down, roles.down_bias}}));
    return layer;
  }

  // The source of a head's dimension, where the rotated ones lie in pairs.
  int64_t source_row(int64_t row, bool interleaved) const {
    if (!interleaved) return row;
    const int64_t head_dim = model_.config.head_dim;
    const int64_t dims = model_.config.rope.dims;
    const int64_t in_head = row % head_dim;
    if (in_head >= dims) return row;
    const int64_t pair = in_head % (dims / 2);
    return row - in_head + 2 * pair + (in_head < dims / 2 ? 0 : 1);
  }

  Result<MatrixWeights> load_matrix(std::span<const Part> parts) {
    int64_t outputs = 0;
    const int64_t inputs = view(parts[0].weight).shape.row_elements();
    for (const Part& part : parts) outputs += view(part.weight).shape.rows();
    WEFT_ASSIGN(const FractalLayout layout, FractalLayout::of(outputs, inputs));
    const bool int8 = is_int8(model_, parts, kind_);
    MatrixWeights matrix{};
    matrix.inputs = static_cast<int32_t>(inputs);
    matrix.outputs = static_cast<int32_t>(outputs);
    WEFT_ASSIGN(
        DeviceMemory values,
        DeviceMemory::allocate(static_cast<uint64_t>(layout.values()) * (int8 ? 1 : 2), "weights"));
    DeviceMemory scales;
    if (int8) {
      WEFT_ASSIGN(scales, DeviceMemory::allocate(static_cast<uint64_t>(layout.scales()) * 2,
                                                 "weights' scales"));
    }
    int64_t first = 0;
    for (const Part& part : parts) {
      WEFT_RETURN_IF_ERROR(store_part(part, layout, first, int8, values, scales));
      first += view(part.weight).shape.rows();
    }
    matrix.weights = keep(std::move(values));
    if (int8) matrix.scales = keep(std::move(scales));
    WEFT_ASSIGN(matrix.bias, load_bias(parts, outputs));
    return matrix;
  }

  // The part's outputs begin at `first` of the matrix.
  Status store_part(const Part& part, const FractalLayout& whole, int64_t first, bool int8,
                    DeviceMemory& values, DeviceMemory& scales) {
    const TensorView& tensor = view(part.weight);
    const int64_t rows = tensor.shape.rows();
    if (first % FractalLayout::kFractal != 0 || rows % FractalLayout::kFractal != 0) {
      return Error{ErrorKind::kUnsupported,
                   fmt::format("tensor '{}' has {} outputs: the Ascend kernels need a multiple of "
                               "{}",
                               model_.weight(part.weight).name, rows, FractalLayout::kFractal)};
    }
    for (int64_t begin = 0; begin < rows; begin += kChunkOutputs) {
      const int64_t count = std::min(kChunkOutputs, rows - begin);
      const auto source = [&](int64_t row) {
        return tensor.row(source_row(begin + row, part.interleaved));
      };
      WEFT_ASSIGN(const FractalLayout chunk, FractalLayout::of(count, whole.inputs()));
      const Status status =
          int8 ? store_int8(chunk, source, whole, first + begin, values, scales)
               : store_half(chunk, tensor.dtype, source, whole, first + begin, values);
      if (!status.ok()) {
        return Error{status.error().kind,
                     fmt::format("tensor '{}': {}", model_.weight(part.weight).name,
                                 status.error().message)};
      }
      advance(static_cast<double>(count) * static_cast<double>(whole.inputs()));
    }
    checkpoint_.drop_pages(tensor);
    return {};
  }

  template <class Source>
  Status store_half(const FractalLayout& chunk, DType type, const Source& source,
                    const FractalLayout& whole, int64_t first, DeviceMemory& values) {
    row_.resize(static_cast<size_t>(chunk.inputs()));
    halves_.resize(static_cast<size_t>(chunk.values()));
    for (int64_t r = 0; r < chunk.outputs(); ++r) {
      dequantize(type, source(r), chunk.inputs(), row_.data());
      WEFT_RETURN_IF_ERROR(chunk.store_floats(r, row_, halves_));
    }
    return values.write_values<uint16_t>(static_cast<uint64_t>(whole.values_before(first)) * 2,
                                         halves_);
  }

  template <class Source>
  Status store_int8(const FractalLayout& chunk, const Source& source, const FractalLayout& whole,
                    int64_t first, DeviceMemory& values, DeviceMemory& scales) {
    bytes_.resize(static_cast<size_t>(chunk.values()));
    halves_.resize(static_cast<size_t>(chunk.scales()));
    const auto row_size = static_cast<size_t>(row_bytes(DType::kQ8_0, chunk.inputs()));
    for (int64_t r = 0; r < chunk.outputs(); ++r) {
      WEFT_RETURN_IF_ERROR(chunk.store_q8_0(r, std::span(source(r), row_size), bytes_, halves_));
    }
    WEFT_RETURN_IF_ERROR(
        values.write_values<int8_t>(static_cast<uint64_t>(whole.values_before(first)), bytes_));
    return scales.write_values<uint16_t>(static_cast<uint64_t>(whole.scales_before(first)) * 2,
                                         halves_);
  }

  // Rows as they are, for the embedding's copies of rows.
  Result<uint64_t> load_embedding() {
    const TensorView& tensor = view(model_.embedding);
    const int64_t rows = tensor.shape.rows();
    const int64_t width = tensor.shape.row_elements();
    WEFT_ASSIGN(DeviceMemory memory,
                DeviceMemory::allocate(static_cast<uint64_t>(rows * width) * 2, "the embedding"));
    row_.resize(static_cast<size_t>(width));
    for (int64_t begin = 0; begin < rows; begin += kChunkOutputs) {
      const int64_t count = std::min(kChunkOutputs, rows - begin);
      halves_.resize(static_cast<size_t>(count * width));
      for (int64_t r = 0; r < count; ++r) {
        dequantize(tensor.dtype, tensor.row(begin + r), width, row_.data());
        std::transform(row_.begin(), row_.end(), halves_.begin() + r * width, float_to_half);
      }
      WEFT_RETURN_IF_ERROR(
          memory.write_values<uint16_t>(static_cast<uint64_t>(begin * width) * 2, halves_));
      advance(static_cast<double>(count) * static_cast<double>(width));
    }
    return keep(std::move(memory));
  }

  Result<uint64_t> load_floats(std::span<const float> floats) {
    WEFT_ASSIGN(DeviceMemory memory, DeviceMemory::allocate(floats.size_bytes(), "weights"));
    WEFT_RETURN_IF_ERROR(memory.write_values<float>(0, floats));
    return keep(std::move(memory));
  }

  // 0 for kNone. `per_head`: a head's dimensions, in the order of `interleaved` parts.
  Result<uint64_t> load_vector(WeightId id, bool per_head = false) {
    if (id == WeightId::kNone) return uint64_t{0};
    std::vector<float> floats;
    append(id, per_head, floats);
    return load_floats(floats);
  }

  Result<uint64_t> load_bias(std::span<const Part> parts, int64_t outputs) {
    const bool any = std::any_of(parts.begin(), parts.end(),
                                 [](const Part& part) { return part.bias != WeightId::kNone; });
    if (!any) return uint64_t{0};
    std::vector<float> floats;
    for (const Part& part : parts) {
      if (part.bias != WeightId::kNone) {
        append(part.bias, part.interleaved, floats);
      } else {
        floats.resize(floats.size() + static_cast<size_t>(view(part.weight).shape.rows()));
      }
    }
    WEFT_CHECK(floats.size() == static_cast<size_t>(outputs));
    return load_floats(floats);
  }

  void append(WeightId id, bool interleaved, std::vector<float>& floats) const {
    const TensorView& tensor = view(id);
    for (int64_t i = 0; i < tensor.shape.elements(); ++i) {
      floats.push_back(element(tensor, source_row(i, interleaved)));
    }
  }

  static MatrixWeights outputs_of(const MatrixWeights& matrix, int first, int count) {
    const int64_t inputs = matrix.inputs;
    const int64_t groups = (inputs + FractalLayout::kGroup - 1) / FractalLayout::kGroup;
    MatrixWeights part = matrix;
    part.outputs = count;
    part.weights += static_cast<uint64_t>(first * inputs * (matrix.scales == 0 ? 2 : 1));
    if (matrix.scales != 0) part.scales += static_cast<uint64_t>(first * groups * 2);
    part.bias = 0;  // is added to queries, keys and values by who reads them
    return part;
  }

  uint64_t keep(DeviceMemory memory) {
    result_.memory_.push_back(std::move(memory));
    return result_.memory_.back().address();
  }

  void advance(double elements) {
    done_ += elements;
    if (progress_) progress_(std::min(1.0, done_ / total_));
  }

  const Model& model_;
  const Checkpoint& checkpoint_;
  const AscendWeights kind_;
  const double total_;
  const std::function<void(double)>& progress_;
  double done_ = 0;
  DeviceWeights result_;
  std::vector<float> row_;
  std::vector<uint16_t> halves_;
  std::vector<int8_t> bytes_;
};

namespace {

double elements_of(const Model& model) {
  double total = static_cast<double>(model.weight(model.head).view.shape.elements());
  total += static_cast<double>(model.weight(model.embedding).view.shape.elements());
  for (const auto& ops : model.layers) {
    for (const Op& op : ops) {
      if (op.kind != OpKind::kLinear) continue;
      for (const WeightId id : op.weights) {
        if (id != WeightId::kNone) {
          total += static_cast<double>(model.weight(id).view.shape.elements());
        }
      }
    }
  }
  return total;
}

}  // namespace

Result<DeviceWeights> DeviceWeights::load(const Model& model, const std::vector<LayerRoles>& layers,
                                          const Checkpoint& checkpoint, AscendWeights kind,
                                          const std::function<void(double)>& progress) {
  return WeightLoader(model, checkpoint, kind, elements_of(model), progress).load(layers);
}

bool DeviceWeights::any_int8() const {
  return head_.scales != 0 || std::any_of(layers_.begin(), layers_.end(), [](const auto& layer) {
           return (layer.qkv.scales | layer.out.scales | layer.gate_up.scales |
                   layer.down.scales) != 0;
         });
}

uint64_t DeviceWeights::bytes(const Model& model, const std::vector<LayerRoles>& layers,
                              AscendWeights kind) {
  double bytes = 2.0 * static_cast<double>(model.weight(model.embedding).view.shape.elements());
  const auto add = [&](std::initializer_list<WeightId> ids) {
    std::vector<Part> parts;
    for (const WeightId id : ids) parts.push_back({.weight = id});
    const bool int8 = WeightLoader::is_int8(model, parts, kind);
    for (const WeightId id : ids) {
      const auto elements = static_cast<double>(model.weight(id).view.shape.elements());
      bytes += elements * (int8 ? 1 + 2.0 / FractalLayout::kGroup : 2);
    }
  };
  add({model.head});
  for (const LayerRoles& roles : layers) {
    add({roles.query, roles.key, roles.value});
    add({roles.out});
    add({roles.gate, roles.up});
    add({roles.down});
  }
  return static_cast<uint64_t>(bytes);
}

}  // namespace weft
