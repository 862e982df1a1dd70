#include "model/model.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "model/architecture.h"

namespace weft {
namespace {

// Frequency of rotary pair i, theta^(-2i / dims), over the linear scale and the pair's own factor.
Result<std::vector<float>> rope_frequencies(const RopeConfig& rope, const TensorView* factors) {
  std::vector<float> frequencies(static_cast<size_t>(rope.dims / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    float factor = 1.0F;
    if (factors != nullptr) {
      std::memcpy(&factor, factors->bytes.data() + i * sizeof(float), sizeof(float));
      if (!std::isfinite(factor) || factor <= 0) {
        return Error{ErrorKind::kCorrupt,
                     fmt::format("tensor 'rope_freqs.weight' holds {} at {}; a factor is above 0",
                                 factor, i)};
      }
    }
    const double exponent = -2.0 * static_cast<double>(i) / rope.dims;
    frequencies[i] =
        static_cast<float>(std::pow(double{rope.theta}, exponent) / rope.scale / factor);
  }
  return frequencies;
}

}  // namespace

int Model::width(Stream stream) const {
  const int q = config.heads * config.head_dim;
  switch (stream) {
    case Stream::kHidden:
    case Stream::kNormed:
      return config.hidden;
    case Stream::kQkv:
      return q + 2 * config.kv_heads * config.head_dim;
    case Stream::kAttention:
      return q;
    case Stream::kGateUp:
      return 2 * config.ffn;
    case Stream::kFfn:
      return config.ffn;
    case Stream::kRouter:
      return config.experts;
  }
  WEFT_CHECK(false, "no such stream: {}", static_cast<int>(stream));
}

Result<Model> build_model(const Checkpoint& checkpoint) {
  Model model;
  WEFT_ASSIGN(model.config, read_config(checkpoint.metadata(), checkpoint));
  const ModelConfig& config = model.config;
  WEFT_ASSIGN(const Architecture* architecture, find_architecture(config.architecture));

  LayerBuilder builder(checkpoint, model);
  model.embedding = builder.matrix("token_embd.weight", config.vocab, config.hidden);
  model.final_norm = builder.vector("output_norm.weight", config.hidden);
  model.head = builder.has("output.weight")
                   ? builder.matrix("output.weight", config.vocab, config.hidden)
                   : model.embedding;
  const TensorView* factors = nullptr;
  if (architecture->rope_factors && builder.has("rope_freqs.weight")) {
    const WeightId id = builder.vector("rope_freqs.weight", config.rope.dims / 2);
    WEFT_RETURN_IF_ERROR(builder.status());
    factors = &model.weight(id).view;
    if (factors->dtype != DType::kF32) {
      return Error{ErrorKind::kUnsupported,
                   fmt::format("tensor 'rope_freqs.weight' is {}; it has to be F32",
                               dtype_info(factors->dtype).name)};
    }
  }
  WEFT_ASSIGN(model.rope_frequencies, rope_frequencies(config.rope, factors));

  for (int layer = 0; layer < config.layers && builder.status().ok(); ++layer) {
    builder.begin_layer(layer);
    model.layers.push_back(architecture->layer(builder));
  }
  WEFT_RETURN_IF_ERROR(builder.status());
  WEFT_RETURN_IF_ERROR(builder.check_all_used());
  return model;
}

}  // namespace weft
