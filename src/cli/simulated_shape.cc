#include "cli/simulated_shape.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <limits>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/printable.h"
#include "cli/dummy_shapes.h"
#include "cli/text_file.h"
#include "model/architecture.h"
#include "model/model.h"

namespace weft {
namespace {

using timing::ModelShape;

Error no_experts(const std::string& name) {
  return {ErrorKind::kUnsupported, fmt::format("{}: the Ascend kernels have no experts", name)};
}

Result<ModelShape> checked(ModelShape shape) {
  WEFT_RETURN_IF_ERROR(check_shape(shape));
  return shape;
}

Result<ModelShape> shape_of(const DummyShape& dummy) {
  if (dummy.experts > 0) return no_experts(std::string(dummy.name));
  return checked({.name = std::string(dummy.name),
                  .layers = dummy.layers,
                  .hidden = dummy.hidden,
                  .ffn = dummy.ffn,
                  .heads = dummy.heads,
                  .kv_heads = dummy.kv_heads,
                  .head_dim = dummy.head_dim,
                  .vocab = dummy.vocab,
                  .qkv_bias = dummy.qkv_bias,
                  .qk_norm = dummy.qk_norm});
}

Result<ModelShape> shape_of_checkpoint(const std::filesystem::path& path) {
  WEFT_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(path));
  WEFT_ASSIGN(const Model model, build_model(checkpoint));
  const ModelConfig& config = model.config;
  if (config.experts > 0) return no_experts(path.string());
  return checked({.name = path.stem().string(),
                  .layers = config.layers,
                  .hidden = config.hidden,
                  .ffn = config.ffn,
                  .heads = config.heads,
                  .kv_heads = config.kv_heads,
                  .head_dim = config.head_dim,
                  .vocab = config.vocab,
                  .qkv_bias = config.architecture == "qwen2",
                  .qk_norm = config.architecture == "qwen3"});
}

// The keys of a config.json.
class ConfigKeys {
 public:
  ConfigKeys(const std::string& name, const nlohmann::json& json) : name_(name), json_(json) {}

  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }

  Result<int> number(const char* key) const {
    if (!has(key)) return Error{ErrorKind::kCorrupt, fmt::format("{} has no {}", name_, key)};
    const nlohmann::json& value = json_[key];
    if (value.is_number_integer()) {
      const auto wide = value.get<int64_t>();
      if (wide >= 0 && wide <= std::numeric_limits<int>::max()) return static_cast<int>(wide);
    }
    return Error{ErrorKind::kCorrupt,
                 fmt::format("{}: {} is {}; it has to be a whole number from 0 to {}", name_, key,
                             printable(value.dump()), std::numeric_limits<int>::max())};
  }
  Result<int> number_or(const char* key, int otherwise) const {
    if (!has(key)) return otherwise;
    return number(key);
  }

  // One of the architectures without experts.
  Result<std::string> model_type() const {
    const bool text = has("model_type") && json_["model_type"].is_string();
    const std::string type = text ? json_["model_type"].get<std::string>() : "";
    const auto architecture = find_architecture(type);
    if (architecture.ok() && (*architecture)->feed_forward != FeedForward::kExperts) return type;
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("{}: model_type {} is not simulated; llama, qwen2 and qwen3 are", name_,
                    has("model_type") ? printable(json_["model_type"].dump())
                                      : std::string("is missing and"))};
  }

 private:
  const std::string& name_;
  const nlohmann::json& json_;
};

}  // namespace

Result<ModelShape> model_shape_of_json(const std::string& name, const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object())
    return Error{ErrorKind::kCorrupt, fmt::format("{} is no JSON object", name)};
  const ConfigKeys keys(name, json);
  WEFT_ASSIGN(const std::string type, keys.model_type());
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    WEFT_ASSIGN(const int experts, keys.number_or(key, 0));
    if (experts > 0) return no_experts(name);
  }
  ModelShape shape;
  shape.name = name;
  WEFT_ASSIGN(shape.layers, keys.number("num_hidden_layers"));
  WEFT_ASSIGN(shape.hidden, keys.number("hidden_size"));
  WEFT_ASSIGN(shape.ffn, keys.number("intermediate_size"));
  WEFT_ASSIGN(shape.heads, keys.number("num_attention_heads"));
  WEFT_ASSIGN(shape.kv_heads, keys.number_or("num_key_value_heads", shape.heads));
  WEFT_ASSIGN(shape.head_dim,
              keys.number_or("head_dim", shape.heads > 0 ? shape.hidden / shape.heads : 0));
  WEFT_ASSIGN(shape.vocab, keys.number("vocab_size"));
  shape.qkv_bias = type == "qwen2";
  shape.qk_norm = type == "qwen3";
  return checked(std::move(shape));
}

Result<ModelShape> find_model_shape(const std::string& name) {
  if (const auto dummy = find_dummy_shape(name); dummy.ok()) return shape_of(*dummy);
  const std::filesystem::path path(name);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return Error{ErrorKind::kNotFound,
                 fmt::format("'{}' is neither a file nor one of {}", name, dummy_shape_names())};
  }
  if (path.extension() != ".json") return shape_of_checkpoint(path);
  WEFT_ASSIGN(const std::string text, read_text(path));
  return model_shape_of_json(name, text);
}

}  // namespace weft
