#pragma once
// Shapes of well-known models, for files with random weights: speed can be compared on any of them
// without a download.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weft {

struct DummyShape {
  std::string_view name;
  std::string_view architecture;  // as in a GGUF
  std::string_view pre_tokenizer;
  int layers;
  int hidden;
  int ffn;
  int heads;
  int kv_heads;
  int head_dim;
  int vocab;
  int context;
  float rope_theta;
  float rms_eps;
  bool tied_head;  // the embedding is the head too
  bool qkv_bias;
  bool qk_norm;
  int experts = 0;  // 0: a dense feed-forward network
  int experts_used = 0;
  int expert_ffn = 0;
};

std::span<const DummyShape> dummy_shapes();
std::string dummy_shape_names();  // "smollm2-135m, qwen2.5-0.5b, ..."

enum class DummyType : uint8_t { kQ8_0, kQ4_0, kQ4_K_M, kBF16 };
std::string_view dummy_type_name(DummyType type);  // "q4_k_m"

struct DummySpec {
  DummyShape shape;
  DummyType type = DummyType::kQ8_0;
  uint64_t seed = 1;
};

Result<DummyShape> find_dummy_shape(std::string_view name);
Result<DummyType> find_dummy_type(std::string_view name);
// "qwen2.5-0.5b:q4_0"
Result<DummySpec> parse_dummy_spec(std::string_view text);

}  // namespace weft
