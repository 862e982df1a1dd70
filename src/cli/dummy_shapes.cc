#include "cli/dummy_shapes.h"

#include <array>

namespace weft {
namespace {

constexpr std::array kShapes = {
    DummyShape{.name = "smollm2-135m",
               .architecture = "llama",
               .pre_tokenizer = "smollm",
               .layers = 30,
               .hidden = 576,
               .ffn = 1536,
               .heads = 9,
               .kv_heads = 3,
               .head_dim = 64,
               .vocab = 49152,
               .context = 8192,
               .rope_theta = 1e5F,
               .rms_eps = 1e-5F,
               .tied_head = true,
               .qkv_bias = false,
               .qk_norm = false},
    DummyShape{.name = "qwen2.5-0.5b",
               .architecture = "qwen2",
               .pre_tokenizer = "qwen2",
               .layers = 24,
               .hidden = 896,
               .ffn = 4864,
               .heads = 14,
               .kv_heads = 2,
               .head_dim = 64,
               .vocab = 151936,
               .context = 32768,
               .rope_theta = 1e6F,
               .rms_eps = 1e-6F,
               .tied_head = true,
               .qkv_bias = true,
               .qk_norm = false},
    DummyShape{.name = "qwen2.5-1.5b",
               .architecture = "qwen2",
               .pre_tokenizer = "qwen2",
               .layers = 28,
               .hidden = 1536,
               .ffn = 8960,
               .heads = 12,
               .kv_heads = 2,
               .head_dim = 128,
               .vocab = 151936,
               .context = 32768,
               .rope_theta = 1e6F,
               .rms_eps = 1e-6F,
               .tied_head = true,
               .qkv_bias = true,
               .qk_norm = false},
    DummyShape{.name = "qwen2.5-7b",
               .architecture = "qwen2",
               .pre_tokenizer = "qwen2",
               .layers = 28,
               .hidden = 3584,
               .ffn = 18944,
               .heads = 28,
               .kv_heads = 4,
               .head_dim = 128,
               .vocab = 152064,
               .context = 32768,
               .rope_theta = 1e6F,
               .rms_eps = 1e-6F,
               .tied_head = false,
               .qkv_bias = true,
               .qk_norm = false},
    // Multi-head attention, 512 KB of F16 keys and values a token: qwen2's layer computes the same.
    DummyShape{.name = "qwen-7b",
               .architecture = "qwen2",
               .pre_tokenizer = "qwen2",
               .layers = 32,
               .hidden = 4096,
               .ffn = 11008,
               .heads = 32,
               .kv_heads = 32,
               .head_dim = 128,
               .vocab = 151936,
               .context = 8192,
               .rope_theta = 1e4F,
               .rms_eps = 1e-6F,
               .tied_head = false,
               .qkv_bias = true,
               .qk_norm = false},
    DummyShape{.name = "qwen3-30b-a3b",
               .architecture = "qwen3moe",
               .pre_tokenizer = "qwen2",
               .layers = 48,
               .hidden = 2048,
               .ffn = 6144,
               .heads = 32,
               .kv_heads = 4,
               .head_dim = 128,
               .vocab = 151936,
               .context = 40960,
               .rope_theta = 1e6F,
               .rms_eps = 1e-6F,
               .tied_head = false,
               .qkv_bias = false,
               .qk_norm = true,
               .experts = 128,
               .experts_used = 8,
               .expert_ffn = 768},
};

constexpr std::array kTypes = {DummyType::kQ8_0, DummyType::kQ4_0, DummyType::kQ4_K_M,
                               DummyType::kBF16};

}  // namespace

std::span<const DummyShape> dummy_shapes() { return kShapes; }

std::string dummy_shape_names() {
  std::string names;
  for (const DummyShape& shape : kShapes) {
    if (!names.empty()) names += ", ";
    names += shape.name;
  }
  return names;
}

std::string_view dummy_type_name(DummyType type) {
  switch (type) {
    case DummyType::kQ8_0:
      return "q8_0";
    case DummyType::kQ4_0:
      return "q4_0";
    case DummyType::kQ4_K_M:
      return "q4_k_m";
    case DummyType::kBF16:
      return "bf16";
  }
  WEFT_CHECK(false, "dummy type {}", static_cast<int>(type));
}

Result<DummyShape> find_dummy_shape(std::string_view name) {
  for (const DummyShape& shape : kShapes) {
    if (shape.name == name) return shape;
  }
  return Error{ErrorKind::kNotFound,
               fmt::format("no shape '{}'; there are: {}", name, dummy_shape_names())};
}

Result<DummyType> find_dummy_type(std::string_view name) {
  for (const DummyType type : kTypes) {
    if (dummy_type_name(type) == name) return type;
  }
  return Error{ErrorKind::kNotFound,
               fmt::format("no weight type '{}'; there are: q8_0, q4_0, q4_k_m, bf16", name)};
}

Result<DummySpec> parse_dummy_spec(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("'{}' is not SHAPE:TYPE, as in qwen2.5-0.5b:q4_0", text)};
  }
  DummySpec spec;
  WEFT_ASSIGN(spec.shape, find_dummy_shape(text.substr(0, colon)));
  WEFT_ASSIGN(spec.type, find_dummy_type(text.substr(colon + 1)));
  return spec;
}

}  // namespace weft
