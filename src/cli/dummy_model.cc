#include "cli/dummy_model.h"

#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "cli/dummy_vocabulary.h"
#include "cli/random_blocks.h"

namespace weft {
namespace {

// What a weight does decides its type in mixed files.
enum class Role : uint8_t { kOrdinary, kHead, kValue, kDown };

int64_t file_type(DummyType type) {
  switch (type) {
    case DummyType::kQ8_0:
      return 7;
    case DummyType::kQ4_0:
      return 2;
    case DummyType::kQ4_K_M:
      return 15;
    case DummyType::kBF16:
      return 32;
  }
  WEFT_CHECK(false, "dummy type {}", static_cast<int>(type));
}

// In q4_k_m, which layers' value and down projections get more bits: the first and last eighth, and
// every third.
bool gets_more_bits(int layer, int layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

class Builder {
 public:
  explicit Builder(const DummySpec& spec) : spec_(spec), shape_(spec.shape) {}

  DummyModel build() {
    add_metadata();
    add_tokenizer();
    const float in_hidden = deviation(shape_.hidden);
    // A tied embedding is the head too; three times the usual size keeps the likeliest tokens
    // apart.
    add_matrix("token_embd.weight", shape_.tied_head ? Role::kHead : Role::kOrdinary, 0,
               {shape_.vocab, shape_.hidden}, 3 * in_hidden);
    add_vector("output_norm.weight", shape_.hidden, 1);
    if (!shape_.tied_head)
      add_matrix("output.weight", Role::kHead, 0, {shape_.vocab, shape_.hidden}, 3 * in_hidden);
    for (int layer = 0; layer < shape_.layers; ++layer) add_layer(layer);
    for (const auto& [change, count] : changes_)
      model_.notes.push_back(fmt::format("{} {}", count, change));
    return std::move(model_);
  }

 private:
  // Keeps a product of normed activations at unit size.
  static float deviation(int inputs) { return 1.0F / std::sqrt(static_cast<float>(inputs)); }

  void add(std::string_view key, int64_t value) {
    model_.writer.add(std::string(key), static_cast<uint64_t>(value));
  }
  void add_own(std::string_view key, MetaValue value) {
    model_.writer.add(fmt::format("{}.{}", shape_.architecture, key), std::move(value));
  }
  void add_own(std::string_view key, int value) {
    add_own(key, MetaValue(static_cast<uint64_t>(value)));
  }
  void add_own(std::string_view key, float value) {
    add_own(key, MetaValue(static_cast<double>(value)));
  }

  void add_metadata() {
    model_.writer.add("general.architecture", std::string(shape_.architecture));
    model_.writer.add("general.name",
                      fmt::format("random weights in the shape of {}", shape_.name));
    add("general.file_type", file_type(spec_.type));
    add("general.quantization_version", 2);
    add_own("block_count", shape_.layers);
    add_own("context_length", shape_.context);
    add_own("embedding_length", shape_.hidden);
    add_own("feed_forward_length", shape_.ffn);
    add_own("attention.head_count", shape_.heads);
    add_own("attention.head_count_kv", shape_.kv_heads);
    add_own("attention.key_length", shape_.head_dim);
    add_own("attention.value_length", shape_.head_dim);
    add_own("attention.layer_norm_rms_epsilon", shape_.rms_eps);
    add_own("rope.dimension_count", shape_.head_dim);
    add_own("rope.freq_base", shape_.rope_theta);
    add_own("vocab_size", shape_.vocab);
    if (shape_.experts == 0) return;
    add_own("expert_count", shape_.experts);
    add_own("expert_used_count", shape_.experts_used);
    add_own("expert_feed_forward_length", shape_.expert_ffn);
  }

  void add_tokenizer() {
    DummyVocabulary vocabulary = make_dummy_vocabulary(shape_.vocab);
    model_.writer.add("tokenizer.ggml.model", std::string("gpt2"));
    model_.writer.add("tokenizer.ggml.pre", std::string(shape_.pre_tokenizer));
    model_.writer.add("tokenizer.ggml.tokens", MetaArray(std::move(vocabulary.tokens)));
    model_.writer.add("tokenizer.ggml.token_type", MetaArray(std::move(vocabulary.types)));
    model_.writer.add("tokenizer.ggml.merges", MetaArray(std::move(vocabulary.merges)));
    add("tokenizer.ggml.bos_token_id", vocabulary.end_of_text);
    add("tokenizer.ggml.eos_token_id", vocabulary.end_of_turn);
    model_.writer.add("tokenizer.ggml.add_bos_token", false);
    model_.writer.add("tokenizer.chat_template", std::string(kDummyChatTemplate));
  }

  void add_layer(int layer) {
    const auto name = [&](std::string_view rest) { return fmt::format("blk.{}.{}", layer, rest); };
    const int queries = shape_.heads * shape_.head_dim;
    const int keys = shape_.kv_heads * shape_.head_dim;
    const float in_hidden = deviation(shape_.hidden);
    // What is added to the residual stream, twice a layer, is scaled so that the sum stays at unit
    // size.
    const float residual = deviation(2 * shape_.layers);

    add_vector(name("attn_norm.weight"), shape_.hidden, 1);
    add_matrix(name("attn_q.weight"), Role::kOrdinary, layer, {queries, shape_.hidden}, in_hidden);
    add_matrix(name("attn_k.weight"), Role::kOrdinary, layer, {keys, shape_.hidden}, in_hidden);
    add_matrix(name("attn_v.weight"), Role::kValue, layer, {keys, shape_.hidden}, in_hidden);
    if (shape_.qkv_bias) {
      add_vector(name("attn_q.bias"), queries, 0);
      add_vector(name("attn_k.bias"), keys, 0);
      add_vector(name("attn_v.bias"), keys, 0);
    }
    if (shape_.qk_norm) {
      add_vector(name("attn_q_norm.weight"), shape_.head_dim, 1);
      add_vector(name("attn_k_norm.weight"), shape_.head_dim, 1);
    }
    add_matrix(name("attn_output.weight"), Role::kOrdinary, layer, {shape_.hidden, queries},
               residual * deviation(queries));
    add_vector(name("ffn_norm.weight"), shape_.hidden, 1);
    shape_.experts == 0 ? add_dense_ffn(layer, residual) : add_expert_ffn(layer, residual);
  }

  void add_dense_ffn(int layer, float residual) {
    const auto name = [&](std::string_view rest) { return fmt::format("blk.{}.{}", layer, rest); };
    const float in_hidden = deviation(shape_.hidden);
    add_matrix(name("ffn_gate.weight"), Role::kOrdinary, layer, {shape_.ffn, shape_.hidden},
               in_hidden);
    add_matrix(name("ffn_up.weight"), Role::kOrdinary, layer, {shape_.ffn, shape_.hidden},
               in_hidden);
    add_matrix(name("ffn_down.weight"), Role::kDown, layer, {shape_.hidden, shape_.ffn},
               2 * residual * deviation(shape_.ffn));
  }

  void add_expert_ffn(int layer, float residual) {
    const auto name = [&](std::string_view rest) { return fmt::format("blk.{}.{}", layer, rest); };
    const float in_hidden = deviation(shape_.hidden);
    const Shape up{shape_.experts, shape_.expert_ffn, shape_.hidden};
    add_tensor(name("ffn_gate_inp.weight"), DType::kF32, {shape_.experts, shape_.hidden},
               in_hidden);
    add_matrix(name("ffn_gate_exps.weight"), Role::kOrdinary, layer, up, in_hidden);
    add_matrix(name("ffn_up_exps.weight"), Role::kOrdinary, layer, up, in_hidden);
    add_matrix(name("ffn_down_exps.weight"), Role::kDown, layer,
               {shape_.experts, shape_.hidden, shape_.expert_ffn},
               2 * residual * deviation(shape_.expert_ffn));
  }

  // The type of the file's kind for this weight, or what llama.cpp falls back to for rows that it
  // does not divide.
  DType matrix_type(Role role, int layer, int64_t inputs) {
    if (spec_.type == DummyType::kBF16) return DType::kBF16;
    if (spec_.type == DummyType::kQ8_0) return DType::kQ8_0;
    const bool more_bits = role == Role::kHead || (spec_.type == DummyType::kQ4_K_M &&
                                                   (role == Role::kValue || role == Role::kDown) &&
                                                   gets_more_bits(layer, shape_.layers));
    const DType due = more_bits                        ? DType::kQ6_K
                      : spec_.type == DummyType::kQ4_0 ? DType::kQ4_0
                                                       : DType::kQ4_K;
    if (inputs % dtype_info(due).block_elems == 0) return due;
    const DType instead = due == DType::kQ6_K ? DType::kQ8_0 : DType::kQ5_0;
    ++changes_[fmt::format(
        "weights with rows of {} in {} instead of {}: {} is not a multiple of {}", inputs,
        dtype_info(instead).name, dtype_info(due).name, inputs, dtype_info(due).block_elems)];
    return instead;
  }

  void add_matrix(std::string name, Role role, int layer, Shape shape, float stddev) {
    const DType type = matrix_type(role, layer, shape.row_elements());
    add_tensor(std::move(name), type, shape, stddev);
  }

  // Each tensor draws from its own stream of random numbers.
  void add_tensor(std::string name, DType type, Shape shape, float stddev) {
    const uint64_t seed = next_seed();
    model_.writer.add_tensor(std::move(name), type, shape, [=](std::span<std::byte> out) {
      fill_random_blocks(type, stddev, seed, out);
    });
  }

  // Norm weights and biases: F32 around `centre`.
  void add_vector(std::string name, int64_t size, float centre) {
    const uint64_t seed = next_seed();
    model_.writer.add_tensor(std::move(name), DType::kF32, {size}, [=](std::span<std::byte> out) {
      fill_random_blocks(DType::kF32, 0.05F, seed, out);
      for (size_t at = 0; at < out.size(); at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, out.data() + at, sizeof(value));
        value += centre;
        std::memcpy(out.data() + at, &value, sizeof(value));
      }
    });
  }

  uint64_t next_seed() { return spec_.seed * 0xD1342543DE82EF95U + (++tensors_ << 40U); }

  DummySpec spec_;
  DummyShape shape_;
  DummyModel model_;
  std::map<std::string, int> changes_;
  uint64_t tensors_ = 0;
};

}  // namespace

DummyModel make_dummy_model(const DummySpec& spec) { return Builder(spec).build(); }

}  // namespace weft
