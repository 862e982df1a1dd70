#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <variant>

#include "checkpoint/printable.h"
#include "model/architecture.h"
#include "model/model.h"

namespace weft {
namespace {

// What read_config makes of a key "<architecture>.<name>".
enum class Use : uint8_t {
  kRead,       // part of ModelConfig
  kNote,       // says nothing about the arithmetic
  kZero,       // implemented only as if absent: 0 or false
  kOne,        // implemented only as if absent: 1 or true
  kZeroOrOne,  // 0 stands for absent too
};

struct KnownKey {
  std::string_view name;
  Use use;
};

// A key that is not here is refused: nobody can say that ignoring it leaves the text right.
constexpr KnownKey kKnownKeys[] = {
    {"context_length", Use::kRead},
    {"block_count", Use::kRead},
    {"embedding_length", Use::kRead},
    {"feed_forward_length", Use::kRead},
    {"attention.head_count", Use::kRead},
    {"attention.head_count_kv", Use::kRead},
    {"attention.key_length", Use::kRead},
    {"attention.value_length", Use::kRead},
    {"attention.layer_norm_rms_epsilon", Use::kRead},
    {"rope.freq_base", Use::kRead},
    {"rope.dimension_count", Use::kRead},
    {"rope.scaling.type", Use::kRead},
    {"rope.scaling.factor", Use::kRead},
    {"rope.scale_linear", Use::kRead},
    {"vocab_size", Use::kNote},  // the embedding's shape says it
    {"tensor_data_layout", Use::kNote},
    {"pooling_type", Use::kNote},
    {"rope.scaling.original_context_length", Use::kNote},  // of scaling types that are refused
    {"rope.scaling.finetuned", Use::kNote},
    {"rope.scaling.attn_factor", Use::kOne},
    {"attention.causal", Use::kOne},
    {"attention.scale", Use::kZero},
    {"attention.sliding_window", Use::kZero},
    {"attention.clamp_kqv", Use::kZero},
    {"attention.max_alibi_bias", Use::kZero},
    {"attn_logit_softcapping", Use::kZero},
    {"final_logit_softcapping", Use::kZero},
    {"logit_scale", Use::kZeroOrOne},
    {"embedding_scale", Use::kZeroOrOne},
    {"residual_scale", Use::kZeroOrOne},
    {"use_parallel_residual", Use::kZero},
    {"expert_count", Use::kRead},
    {"expert_used_count", Use::kRead},
    {"expert_feed_forward_length", Use::kRead},
    {"expert_shared_count", Use::kZero},
    {"expert_shared_feed_forward_length", Use::kZero},
    {"expert_weights_norm", Use::kOne},  // the chosen experts' shares add up to 1
    {"expert_weights_scale", Use::kZeroOrOne},
    {"expert_gating_func", Use::kZeroOrOne},  // 1: softmax
    {"expert_group_count", Use::kZeroOrOne},
    {"expert_group_used_count", Use::kZeroOrOne},
    {"moe_every_n_layers", Use::kZeroOrOne},
    {"leading_dense_block_count", Use::kZero},
    {"nextn_predict_layers", Use::kZero},
};

// The number that a plain value is, NaN for text and arrays.
double number(const MetaValue& value) {
  return std::visit(
      [](const auto& v) -> double {
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(v)>>) {
          return static_cast<double>(v);
        } else {
          return std::nan("");
        }
      },
      value);
}

Status check_key(std::string_view key, std::string_view name, const MetaValue& value) {
  const auto* known = std::find_if(std::begin(kKnownKeys), std::end(kKnownKeys),
                                   [&](const KnownKey& k) { return k.name == name; });
  if (known == std::end(kKnownKeys)) {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("metadata key '{}' = {} is not known here, and to ignore it might give "
                    "wrong text",
                    printable(key), describe(value))};
  }
  const double v = number(value);
  const bool zero = v == 0 && known->use != Use::kOne;
  const bool one = v == 1 && known->use != Use::kZero;
  if (known->use == Use::kRead || known->use == Use::kNote || zero || one) return {};
  return Error{ErrorKind::kUnsupported, fmt::format("metadata key '{}' = {} is not implemented",
                                                    printable(key), describe(value))};
}

// Typed access to the keys of one architecture.
class Keys {
 public:
  Keys(const Metadata& metadata, std::string_view architecture)
      : metadata_(metadata), prefix_(std::string(architecture) + ".") {}

  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

  bool has(std::string_view name) const { return metadata_.contains(full(name)); }

  Status check_all() const {
    for (const auto& [key, value] : metadata_.entries()) {
      if (!key.starts_with(prefix_)) continue;
      WEFT_RETURN_IF_ERROR(check_key(key, std::string_view(key).substr(prefix_.size()), value));
    }
    return {};
  }

  // An integer from 1 to max; `fallback` where the key is absent, which 0 forbids.
  Result<int> count(std::string_view name, int64_t max, int fallback = 0) const {
    WEFT_ASSIGN(const std::optional<int64_t> value, metadata_.get_int(full(name)));
    if (!value && fallback != 0) return fallback;
    if (!value) return missing(name);
    if (*value < 1 || *value > max) {
      return Error{ErrorKind::kCorrupt,
                   fmt::format("metadata key '{}' is {}; a usable value is from 1 to {}",
                               full(name), *value, max)};
    }
    return static_cast<int>(*value);
  }

  // 0 where the key is absent or 0.
  Result<int> count_or_none(std::string_view name, int64_t max) const {
    WEFT_ASSIGN(const std::optional<int64_t> value, metadata_.get_int(full(name)));
    if (value.value_or(0) == 0) return 0;
    return count(name, max);
  }

  // A key that says something only beside `other`, which is absent or 0.
  Status check_absent(std::string_view name, std::string_view other) const {
    WEFT_ASSIGN(const std::optional<int64_t> value, metadata_.get_int(full(name)));
    if (value.value_or(0) == 0) return {};
    return Error{ErrorKind::kCorrupt, fmt::format("metadata key '{}' is {}, but '{}' says none",
                                                  full(name), *value, full(other))};
  }

  // A finite number of at least `min`; `fallback` where the key is absent, which NaN forbids.
  Result<float> real(std::string_view name, double min, double fallback = std::nan("")) const {
    WEFT_ASSIGN(const std::optional<double> value, metadata_.get_float(full(name)));
    if (!value && std::isnan(fallback)) return missing(name);
    const double v = value.value_or(fallback);
    if (!(v >= min && v <= 1e30)) {
      return Error{ErrorKind::kCorrupt,
                   fmt::format("metadata key '{}' is {}; a usable value is at least {}", full(name),
                               v, min)};
    }
    return static_cast<float>(v);
  }

  Result<std::string> text(std::string_view name, std::string fallback) const {
    WEFT_ASSIGN(std::optional<std::string> value, metadata_.get_string(full(name)));
    return value ? std::move(*value) : std::move(fallback);
  }

 private:
  Error missing(std::string_view name) const {
    return {ErrorKind::kCorrupt, fmt::format("metadata key '{}' is missing", full(name))};
  }

  const Metadata& metadata_;
  std::string prefix_;
};

constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxWidth = 1 << 20;  // hidden, ffn
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxVocab = 1 << 24;
constexpr int64_t kMaxExperts = 1 << 12;

Status read_feed_forward(const Keys& keys, FeedForward kind, ModelConfig& config) {
  WEFT_ASSIGN(config.ffn, keys.count("feed_forward_length", kMaxWidth));
  if (kind != FeedForward::kExperts) {
    WEFT_ASSIGN(const int experts, keys.count_or_none("expert_count", kMaxExperts));
    if (experts > 0 && kind == FeedForward::kDense) {
      return Error{ErrorKind::kUnsupported, fmt::format("metadata key '{}' = {} is not implemented",
                                                        keys.full("expert_count"), experts)};
    }
    if (experts == 0) return keys.check_absent("expert_used_count", "expert_count");
  }
  WEFT_ASSIGN(config.experts, keys.count("expert_count", kMaxExperts));
  WEFT_ASSIGN(config.experts_used, keys.count("expert_used_count", config.experts));
  WEFT_ASSIGN(config.expert_ffn, keys.count("expert_feed_forward_length", kMaxWidth, config.ffn));
  return {};
}

Status read_heads(const Keys& keys, ModelConfig& config) {
  WEFT_ASSIGN(config.heads, keys.count("attention.head_count", kMaxHeads));
  WEFT_ASSIGN(config.kv_heads, keys.count("attention.head_count_kv", kMaxHeads, config.heads));
  if (config.heads % config.kv_heads != 0) {
    return Error{
        ErrorKind::kCorrupt,
        fmt::format("'{}' = {} is no multiple of '{}' = {}", keys.full("attention.head_count"),
                    config.heads, keys.full("attention.head_count_kv"), config.kv_heads)};
  }
  // Without a key_length the heads share the hidden size evenly.
  const int share = config.hidden % config.heads == 0 ? config.hidden / config.heads : 0;
  if (share == 0 && !keys.has("attention.key_length")) {
    return Error{
        ErrorKind::kCorrupt,
        fmt::format("'{}' = {} is no multiple of '{}' = {}, and '{}' does not say more",
                    keys.full("embedding_length"), config.hidden, keys.full("attention.head_count"),
                    config.heads, keys.full("attention.key_length"))};
  }
  WEFT_ASSIGN(config.head_dim, keys.count("attention.key_length", kMaxHeadDim, share));
  WEFT_ASSIGN(const int value_length,
              keys.count("attention.value_length", kMaxHeadDim, config.head_dim));
  if (value_length != config.head_dim) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("'{}' = {} differs from the key length {}; that is not implemented",
                             keys.full("attention.value_length"), value_length, config.head_dim)};
  }
  if (config.head_dim > kMaxHeadDim || config.head_dim % 2 != 0) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("heads of {} dimensions are not implemented: it has to be an even "
                             "number up to {}",
                             config.head_dim, kMaxHeadDim)};
  }
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(double{1} * config.head_dim));
  return {};
}

Status read_rope(const Keys& keys, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  WEFT_ASSIGN(rope.theta, keys.real("rope.freq_base", 1.0, 10000.0));
  WEFT_ASSIGN(rope.dims, keys.count("rope.dimension_count", config.head_dim, config.head_dim));
  if (rope.dims % 2 != 0) {
    return Error{ErrorKind::kCorrupt, fmt::format("metadata key '{}' is {}; it has to be even",
                                                  keys.full("rope.dimension_count"), rope.dims)};
  }
  // A factor without a type is linear; "rope.scale_linear" is its name in old files.
  WEFT_ASSIGN(const std::string type, keys.text("rope.scaling.type", "linear"));
  WEFT_ASSIGN(const float old_factor, keys.real("rope.scale_linear", 0.0, 0.0));
  WEFT_ASSIGN(float factor, keys.real("rope.scaling.factor", 0.0, old_factor));
  if (factor == 0) factor = 1;  // files write 0 for none
  if (type == "linear") {
    rope.scale = factor;
  } else if (type != "none") {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("metadata key '{}' = \"{}\" (with factor {}) is not implemented",
                             keys.full("rope.scaling.type"), printable(type), factor)};
  }
  return {};
}

}  // namespace

Result<ModelConfig> read_config(const Metadata& metadata, const Checkpoint& checkpoint) {
  ModelConfig config;
  WEFT_ASSIGN(const std::optional<std::string> name, metadata.get_string("general.architecture"));
  if (!name) {
    return Error{ErrorKind::kCorrupt, "metadata key 'general.architecture' is missing"};
  }
  WEFT_ASSIGN(const Architecture* architecture, find_architecture(*name));
  config.architecture = *name;
  config.rope.interleaved = architecture->interleaved_rope;
  WEFT_ASSIGN(const std::optional<std::string> title, metadata.get_string("general.name"));
  config.name = title.value_or("");

  const Keys keys(metadata, config.architecture);
  WEFT_RETURN_IF_ERROR(keys.check_all());
  WEFT_ASSIGN(config.layers, keys.count("block_count", kMaxLayers));
  WEFT_ASSIGN(config.hidden, keys.count("embedding_length", kMaxWidth));
  WEFT_RETURN_IF_ERROR(read_feed_forward(keys, architecture->feed_forward, config));
  WEFT_ASSIGN(config.trained_context, keys.count("context_length", INT32_MAX));
  WEFT_ASSIGN(config.rms_eps, keys.real("attention.layer_norm_rms_epsilon", 0.0));
  WEFT_RETURN_IF_ERROR(read_heads(keys, config));
  WEFT_RETURN_IF_ERROR(read_rope(keys, config));

  const TensorView* embedding = checkpoint.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.rank() != 2 || embedding->shape[0] < 1 ||
      embedding->shape[0] > kMaxVocab) {
    return Error{ErrorKind::kCorrupt,
                 fmt::format("tensor 'token_embd.weight' is {}; expected [vocabulary up to {}, {}]",
                             embedding == nullptr ? "missing" : embedding->shape.str(), kMaxVocab,
                             config.hidden)};
  }
  config.vocab = static_cast<int>(embedding->shape[0]);
  return config;
}

}  // namespace weft
