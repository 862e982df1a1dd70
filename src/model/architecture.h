#pragma once
// The architectures: one file each, which says what a layer computes.

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/layer_builder.h"

namespace weft {

// What follows the attention of a layer.
enum class FeedForward : uint8_t { kDense, kExperts, kEither };  // either: expert_count decides

struct Architecture {
  std::string_view name;  // as general.architecture says it
  bool
      interleaved_rope;  // rotary pairs are (2i, 2i + 1) in the rows of Q and K as GGUF stores them
  bool rope_factors;     // may carry "rope_freqs.weight"
  FeedForward feed_forward;
  std::vector<Op> (*layer)(LayerBuilder&);
};

std::vector<Op> llama_layer(LayerBuilder& layer);
std::vector<Op> qwen2_layer(LayerBuilder& layer);
std::vector<Op> qwen3_layer(LayerBuilder& layer);
std::vector<Op> qwen3moe_layer(LayerBuilder& layer);

// kUnsupported, naming those there are, for any other name.
Result<const Architecture*> find_architecture(std::string_view name);

}  // namespace weft
