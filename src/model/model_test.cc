#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/gguf_writer.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::filesystem::path tiny(const std::string& model) {
  return std::filesystem::path(WEFT_TEST_DATA) / "tiny" / model / "f32.gguf";
}

// A model file as data that a test changes before it is parsed.
struct File {
  std::map<std::string, MetaValue> metadata;
  std::map<std::string, std::pair<DType, Shape>> tensors;
  float fill = 1.0F;

  void set(const std::string& key, MetaValue value) { metadata[key] = std::move(value); }
  void tensor(const std::string& name, Shape shape, DType type = DType::kF32) {
    tensors[name] = {type, shape};
  }

  std::vector<std::byte> bytes() const {
    GgufWriter writer;
    for (const auto& [key, value] : metadata) writer.add(key, value);
    for (const auto& [name, tensor] : tensors) {
      writer.add_tensor(name, tensor.first, tensor.second, [this](std::span<std::byte> out) {
        for (size_t i = 0; i + sizeof(float) <= out.size(); i += sizeof(float)) {
          std::memcpy(out.data() + i, &fill, sizeof(float));
        }
      });
    }
    return writer.to_bytes();
  }
};

// A small file; "mixtral" is of architecture llama with experts.
File file_of(const std::string& family) {
  const bool experts = family == "mixtral" || family == "qwen3moe";
  const std::string architecture = family == "mixtral" ? "llama" : family;
  File f;
  const std::string a = architecture + ".";
  f.set("general.architecture", architecture);
  f.set(a + "block_count", int64_t{2});
  f.set(a + "context_length", int64_t{128});
  f.set(a + "embedding_length", int64_t{64});
  f.set(a + "feed_forward_length", int64_t{96});
  f.set(a + "attention.head_count", int64_t{4});
  f.set(a + "attention.head_count_kv", int64_t{2});
  f.set(a + "attention.layer_norm_rms_epsilon", 1e-6);
  if (experts) {
    f.set(a + "expert_count", int64_t{4});
    f.set(a + "expert_used_count", int64_t{2});
  }
  if (family == "qwen3moe") f.set(a + "expert_feed_forward_length", int64_t{48});
  const int64_t expert_ffn = family == "qwen3moe" ? 48 : 96;
  f.tensor("token_embd.weight", {32, 64});
  f.tensor("output_norm.weight", {64});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    f.tensor(layer + "attn_norm.weight", {64});
    f.tensor(layer + "attn_q.weight", {64, 64});
    f.tensor(layer + "attn_k.weight", {32, 64});
    f.tensor(layer + "attn_v.weight", {32, 64});
    f.tensor(layer + "attn_output.weight", {64, 64});
    f.tensor(layer + "ffn_norm.weight", {64});
    if (experts) {
      f.tensor(layer + "ffn_gate_inp.weight", {4, 64});
      f.tensor(layer + "ffn_gate_exps.weight", {4, expert_ffn, 64});
      f.tensor(layer + "ffn_up_exps.weight", {4, expert_ffn, 64});
      f.tensor(layer + "ffn_down_exps.weight", {4, 64, expert_ffn});
    } else {
      f.tensor(layer + "ffn_gate.weight", {96, 64});
      f.tensor(layer + "ffn_up.weight", {96, 64});
      f.tensor(layer + "ffn_down.weight", {64, 96});
    }
    if (architecture == "qwen2") {
      f.tensor(layer + "attn_q.bias", {64});
      f.tensor(layer + "attn_k.bias", {32});
      f.tensor(layer + "attn_v.bias", {32});
    }
    if (architecture.starts_with("qwen3")) {
      f.tensor(layer + "attn_q_norm.weight", {16});
      f.tensor(layer + "attn_k_norm.weight", {16});
    }
  }
  return f;
}

Result<Model> build(const File& file) {
  const std::vector<std::byte> bytes = file.bytes();
  WEFT_ASSIGN(const Checkpoint checkpoint, Checkpoint::parse(bytes, "test.gguf"));
  return build_model(checkpoint);
}

// The error line of a file that must be refused.
std::string refusal(const File& file, ErrorKind kind) {
  const Result<Model> model = build(file);
  if (model.ok()) return "accepted";
  EXPECT_EQ(model.error().kind, kind) << model.error().message;
  EXPECT_EQ(model.error().message.find('\n'), std::string::npos);
  return model.error().message;
}

TEST(ModelTest, ReadsTheTinyModels) {
  for (const std::string name : {"llama", "llama3-rope", "qwen2", "qwen3", "qwen3moe", "mixtral"}) {
    SCOPED_TRACE(name);
    auto checkpoint = Checkpoint::open(tiny(name));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    auto model = build_model(*checkpoint);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const ModelConfig& c = model->config;
    EXPECT_EQ(c.name, "tiny-" + name);
    EXPECT_EQ(c.layers, 4);
    EXPECT_EQ(c.hidden, 64);
    EXPECT_EQ(c.heads, 4);
    EXPECT_EQ(c.kv_heads, 2);
    const bool qwen3 = name.starts_with("qwen3");
    EXPECT_EQ(c.head_dim, qwen3 ? 32 : 16);
    EXPECT_EQ(c.ffn, 160);
    EXPECT_EQ(c.experts, name == "qwen3moe" ? 8 : name == "mixtral" ? 4 : 0);
    EXPECT_EQ(c.experts_used, c.experts > 0 ? 2 : 0);
    EXPECT_EQ(c.expert_ffn, name == "qwen3moe" ? 96 : name == "mixtral" ? 160 : 0);
    EXPECT_EQ(c.vocab, 512);
    EXPECT_EQ(c.trained_context, 512);
    EXPECT_FLOAT_EQ(c.rms_eps, 1e-5F);
    EXPECT_FLOAT_EQ(c.attention_scale, qwen3 ? 1 / std::sqrt(32.0F) : 0.25F);
    EXPECT_EQ(c.rope.interleaved, c.architecture == "llama");
    EXPECT_EQ(c.rope.dims, c.head_dim);
    EXPECT_EQ(model->layers.size(), 4U);
    const bool tied = name == "llama3-rope" || name == "qwen2";
    EXPECT_EQ(model->head == model->embedding, tied);
  }
}

TEST(ModelTest, LayersAreListsOfOperations) {
  using enum OpKind;
  const std::vector<OpKind> plain = {kRmsNorm, kLinear,  kRope,   kStoreKv, kAttention,
                                     kLinear,  kRmsNorm, kLinear, kSwiGlu,  kLinear};
  std::vector<OpKind> normed = plain;
  normed.insert(normed.begin() + 2, kHeadNorm);
  for (const std::string name : {"llama", "qwen2", "qwen3"}) {
    SCOPED_TRACE(name);
    auto model = build(file_of(name));
    ASSERT_TRUE(model.ok()) << model.error().message;
    for (const std::vector<Op>& layer : model->layers) {
      std::vector<OpKind> kinds;
      std::transform(layer.begin(), layer.end(), std::back_inserter(kinds),
                     [](const Op& op) { return op.kind; });
      EXPECT_EQ(kinds, name == "qwen3" ? normed : plain);
    }
    const Op& qkv = model->layers[1][1];
    EXPECT_EQ(model->weight(qkv.weights[1]).name, "blk.1.attn_k.weight");
    EXPECT_EQ(qkv.biases[1] != WeightId::kNone, name == "qwen2");
    EXPECT_EQ(model->width(Stream::kQkv), 128);
    EXPECT_EQ(model->width(Stream::kGateUp), 192);
  }
}

TEST(ModelTest, ExpertsTakeThePlaceOfTheFeedForwardNetwork) {
  using enum OpKind;
  for (const std::string name : {"mixtral", "qwen3moe"}) {
    SCOPED_TRACE(name);
    auto model = build(file_of(name));
    ASSERT_TRUE(model.ok()) << model.error().message;
    const std::vector<Op>& layer = model->layers[1];
    const size_t norms = name == "qwen3moe" ? 1 : 0;
    ASSERT_EQ(layer.size(), 9 + norms);
    const Op& router = layer[7 + norms];
    EXPECT_EQ(router.kind, kLinear);
    EXPECT_EQ(router.out, Stream::kRouter);
    EXPECT_EQ(model->width(Stream::kRouter), 4);
    EXPECT_EQ(model->weight(router.weights[0]).name, "blk.1.ffn_gate_inp.weight");
    const Op& experts = layer.back();
    EXPECT_EQ(experts.kind, kExperts);
    EXPECT_EQ(experts.in, Stream::kNormed);
    EXPECT_EQ(experts.out, Stream::kHidden);
    EXPECT_EQ(model->weight(experts.weights[0]).name, "blk.1.ffn_gate_exps.weight");
    EXPECT_EQ(model->weight(experts.weights[1]).name, "blk.1.ffn_up_exps.weight");
    EXPECT_EQ(model->weight(experts.weights[2]).name, "blk.1.ffn_down_exps.weight");
  }
}

TEST(ModelTest, RefusesRoutersThatAreNotImplemented) {
  const std::pair<std::string, MetaValue> keys[] = {
      {"expert_shared_count", int64_t{1}},     {"expert_shared_feed_forward_length", int64_t{64}},
      {"expert_weights_norm", false},          {"expert_weights_scale", 2.5},
      {"expert_gating_func", int64_t{2}},      {"expert_group_count", int64_t{4}},
      {"expert_group_used_count", int64_t{2}}, {"leading_dense_block_count", int64_t{1}},
      {"moe_every_n_layers", int64_t{2}},
  };
  for (const auto& [key, value] : keys) {
    File f = file_of("qwen3moe");
    f.set("qwen3moe." + key, value);
    EXPECT_THAT(refusal(f, ErrorKind::kUnsupported),
                AllOf(HasSubstr("qwen3moe." + key), HasSubstr(describe(value))));
  }
  File f = file_of("qwen3moe");
  f.set("qwen3moe.expert_weights_norm", true);
  f.set("qwen3moe.expert_weights_scale", 1.0);
  f.set("qwen3moe.expert_gating_func", int64_t{1});
  f.set("qwen3moe.expert_shared_count", int64_t{0});
  const auto model = build(f);
  EXPECT_TRUE(model.ok()) << model.error().message;
}

TEST(ModelTest, RefusesNumbersOfExpertsThatCannotBe) {
  struct Case {
    std::string family;
    std::string key;
    int64_t value;
  };
  const Case cases[] = {
      {"qwen3moe", "expert_count", 0},
      {"qwen3moe", "expert_count", -4},
      {"qwen3moe", "expert_count", 1},  // fewer than are used
      {"qwen3moe", "expert_count", int64_t{1} << 40},
      {"qwen3moe", "expert_used_count", 0},
      {"qwen3moe", "expert_used_count", 5},
      {"qwen3moe", "expert_feed_forward_length", 0},
      {"qwen3moe", "expert_feed_forward_length", int64_t{1} << 31},
      {"mixtral", "expert_count", -1},
      {"mixtral", "expert_count", 0},  // but as many are used as before
      {"mixtral", "expert_used_count", -2},
  };
  for (const Case& c : cases) {
    File f = file_of(c.family);
    const std::string prefix = c.family == "mixtral" ? "llama." : "qwen3moe.";
    f.set(prefix + c.key, c.value);
    EXPECT_THAT(refusal(f, ErrorKind::kCorrupt), HasSubstr(prefix + "expert_"))
        << c.key << " = " << c.value;
  }
  for (const std::string key : {"expert_count", "expert_used_count"}) {
    File f = file_of("qwen3moe");
    f.metadata.erase("qwen3moe." + key);
    EXPECT_THAT(refusal(f, ErrorKind::kCorrupt), HasSubstr("'qwen3moe." + key + "' is missing"));
  }
  // Other numbers than the tensors have.
  File f = file_of("qwen3moe");
  f.set("qwen3moe.expert_count", int64_t{8});
  EXPECT_THAT(refusal(f, ErrorKind::kCorrupt), AllOf(HasSubstr("blk.0.ffn_gate_inp.weight"),
                                                     HasSubstr("[4, 64]"), HasSubstr("[8, 64]")));
  f = file_of("qwen3moe");
  f.set("qwen3moe.expert_feed_forward_length", int64_t{64});
  EXPECT_THAT(refusal(f, ErrorKind::kCorrupt),
              AllOf(HasSubstr("blk.0.ffn_gate_exps.weight"), HasSubstr("[4, 48, 64]"),
                    HasSubstr("[4, 64, 64]")));
}

TEST(ModelTest, NamesTheOldLayoutOfExperts) {
  File f = file_of("mixtral");
  for (const std::string name : {"gate", "up", "down"}) {
    f.tensors.erase("blk.0.ffn_" + name + "_exps.weight");
    for (int expert = 0; expert < 4; ++expert) {
      f.tensor("blk.0.ffn_" + name + "." + std::to_string(expert) + ".weight",
               name == "down" ? Shape{64, 96} : Shape{96, 64});
    }
  }
  EXPECT_THAT(refusal(f, ErrorKind::kUnsupported), AllOf(HasSubstr("'blk.0.ffn_gate.0.weight'"),
                                                         HasSubstr("'blk.0.ffn_gate_exps.weight'"),
                                                         HasSubstr("convert the model again")));
}

TEST(ModelTest, LlamaTakesBiasesWhereTheyAre) {
  File f = file_of("llama");
  f.tensor("blk.1.attn_q.bias", {64});
  f.tensor("blk.0.ffn_down.bias", {64});
  auto model = build(f);
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->layers[0][1].biases[0], WeightId::kNone);
  EXPECT_NE(model->layers[1][1].biases[0], WeightId::kNone);
  EXPECT_NE(model->layers[0].back().biases[0], WeightId::kNone);
  EXPECT_TRUE(model->layers[0].back().add);
}

TEST(ModelTest, RopeFrequencies) {
  File f = file_of("llama");
  f.set("llama.rope.freq_base", 500000.0);
  auto plain = build(f);
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  ASSERT_EQ(plain->rope_frequencies.size(), 8U);
  for (int i = 0; i < 8; ++i) {
    EXPECT_FLOAT_EQ(plain->rope_frequencies[i], std::pow(500000.0F, -i / 8.0F));
  }

  f.fill = 4.0F;
  f.tensor("rope_freqs.weight", {8});
  auto divided = build(f);
  ASSERT_TRUE(divided.ok()) << divided.error().message;
  EXPECT_FLOAT_EQ(divided->rope_frequencies[3], plain->rope_frequencies[3] / 4);

  f.set("llama.rope.scaling.type", std::string("linear"));
  f.set("llama.rope.scaling.factor", 2.0);
  auto scaled = build(f);
  ASSERT_TRUE(scaled.ok()) << scaled.error().message;
  EXPECT_FLOAT_EQ(scaled->rope_frequencies[3], plain->rope_frequencies[3] / 8);

  f.set("llama.rope.scaling.type", std::string("none"));
  auto unscaled = build(f);
  ASSERT_TRUE(unscaled.ok()) << unscaled.error().message;
  EXPECT_FLOAT_EQ(unscaled->rope_frequencies[3], plain->rope_frequencies[3] / 4);

  f.fill = 0.0F;
  EXPECT_THAT(refusal(f, ErrorKind::kCorrupt), HasSubstr("rope_freqs.weight"));
  f.fill = 1.0F;
  f.tensor("rope_freqs.weight", {4});
  EXPECT_THAT(refusal(f, ErrorKind::kCorrupt),
              AllOf(HasSubstr("rope_freqs.weight"), HasSubstr("[8]"), HasSubstr("[4]")));
}

TEST(ModelTest, RefusesMetadataThatChangesTheArithmetic) {
  const std::pair<std::string, MetaValue> keys[] = {
      {"rope.scaling.type", std::string("yarn")},
      {"attention.sliding_window", int64_t{4096}},
      {"attn_logit_softcapping", 50.0},
      {"final_logit_softcapping", 30.0},
      {"attention.scale", 0.0625},
      {"logit_scale", 8.0},
      {"embedding_scale", 12.0},
      {"residual_scale", 0.25},
      {"use_parallel_residual", true},
      {"attention.causal", false},
      {"attention.clamp_kqv", 6.0},
      {"attention.max_alibi_bias", 8.0},
      {"attention.value_length", int64_t{32}},
      {"rope.dimension_sections", MetaArray(std::vector<int64_t>{1, 2})},
      {"some.future.key", int64_t{0}},
  };
  for (const std::string architecture : {"llama", "qwen2", "qwen3"}) {
    for (const auto& [key, value] : keys) {
      File f = file_of(architecture);
      std::string full = architecture;
      full.append(".").append(key);
      f.set(full, value);
      EXPECT_THAT(refusal(f, ErrorKind::kUnsupported),
                  AllOf(HasSubstr(full), HasSubstr(describe(value))));
    }
  }
  for (const std::string architecture : {"qwen2", "qwen3"}) {
    File f = file_of(architecture);
    f.set(architecture + ".expert_count", int64_t{8});
    EXPECT_THAT(refusal(f, ErrorKind::kUnsupported),
                HasSubstr(architecture + ".expert_count' = 8"));
  }
  File f = file_of("llama");
  f.set("llama.rope.scaling.type", std::string("yarn"));
  f.set("llama.rope.scaling.factor", 4.0);
  EXPECT_THAT(refusal(f, ErrorKind::kUnsupported), HasSubstr("factor 4"));
}

TEST(ModelTest, AcceptsKeysThatChangeNothing) {
  File f = file_of("llama");
  f.set("llama.attention.sliding_window", int64_t{0});
  f.set("llama.expert_count", int64_t{0});
  f.set("llama.logit_scale", 1.0);
  f.set("llama.use_parallel_residual", false);
  f.set("llama.attention.causal", true);
  f.set("llama.vocab_size", int64_t{32});
  f.set("llama.rope.scaling.type", std::string("none"));
  f.set("tokenizer.ggml.model", std::string("gpt2"));
  f.set("qwen2.expert_count", int64_t{8});  // another architecture's
  const auto model = build(f);
  EXPECT_TRUE(model.ok()) << model.error().message;
}

TEST(ModelTest, RefusesOtherArchitecturesByName) {
  File f = file_of("llama");
  f.set("general.architecture", std::string("gemma3"));
  EXPECT_THAT(refusal(f, ErrorKind::kUnsupported),
              AllOf(HasSubstr("gemma3"), HasSubstr("llama, qwen2, qwen3, qwen3moe")));
  f.metadata.erase("general.architecture");
  EXPECT_THAT(refusal(f, ErrorKind::kCorrupt), HasSubstr("general.architecture"));
}

TEST(ModelTest, NamesMissingAndMisshapenTensors) {
  for (const std::string family : {"llama", "qwen2", "qwen3", "qwen3moe", "mixtral"}) {
    const File whole = file_of(family);
    for (const auto& [name, tensor] : whole.tensors) {
      File f = whole;
      f.tensors.erase(name);
      const std::string missing = refusal(f, ErrorKind::kCorrupt);
      EXPECT_THAT(missing, HasSubstr("'" + name + "'"));
      const bool sizes_known = name != "token_embd.weight";
      EXPECT_THAT(missing, HasSubstr(sizes_known ? tensor.second.str() : "vocabulary"));
      f.tensor(name, {3, 96});
      EXPECT_THAT(refusal(f, ErrorKind::kCorrupt), AllOf(HasSubstr(name), HasSubstr("[3, 96]")));
    }
  }
  File f = file_of("llama");
  f.tensor("blk.1.ffn_norm.weight", {64}, DType::kQ8_0);
  EXPECT_THAT(refusal(f, ErrorKind::kUnsupported),
              AllOf(HasSubstr("blk.1.ffn_norm.weight"), HasSubstr("Q8_0")));
}

TEST(ModelTest, RefusesTensorsThatNoOperationUses) {
  const std::pair<std::string, std::string> extra[] = {
      {"qwen2", "blk.0.attn_output.bias"},    {"qwen3", "blk.0.attn_q.bias"},
      {"llama", "blk.1.attn_q_norm.weight"},  {"llama", "blk.1.post_ffw_norm.weight"},
      {"llama", "blk.2.attn_norm.weight"},    {"llama", "output.bias"},
      {"qwen2", "rope_freqs.weight"},         {"qwen3moe", "blk.0.ffn_gate.weight"},
      {"mixtral", "blk.0.ffn_gate_inp.bias"}, {"llama", "blk.0.ffn_gate_inp.weight"},
  };
  for (const auto& [architecture, name] : extra) {
    File f = file_of(architecture);
    f.tensor(name, {64});
    EXPECT_THAT(refusal(f, ErrorKind::kUnsupported), HasSubstr("'" + name + "'"));
  }
}

TEST(ModelTest, RefusesHostileSizes) {
  struct Case {
    std::string key;
    MetaValue value;
  };
  const Case cases[] = {
      {"block_count", int64_t{0}},
      {"block_count", int64_t{-1}},
      {"block_count", int64_t{1} << 40},
      {"block_count", std::string("two")},
      {"embedding_length", int64_t{0}},
      {"embedding_length", int64_t{1} << 31},
      {"feed_forward_length", int64_t{0}},
      {"attention.head_count", int64_t{0}},
      {"attention.head_count", int64_t{5}},
      {"attention.head_count", MetaArray(std::vector<int64_t>{4, 4})},
      {"attention.head_count_kv", int64_t{3}},
      {"attention.head_count_kv", int64_t{0}},
      {"attention.layer_norm_rms_epsilon", -1.0},
      {"attention.layer_norm_rms_epsilon", std::nan("")},
      {"rope.freq_base", 0.0},
      {"rope.freq_base", std::nan("")},
      {"rope.dimension_count", int64_t{18}},
      {"rope.dimension_count", int64_t{7}},
      {"rope.scaling.factor", -2.0},
      {"context_length", int64_t{0}},
      {"context_length", int64_t{1} << 40},
      {"attention.key_length", int64_t{100000}},
  };
  for (const Case& c : cases) {
    File f = file_of("llama");
    f.set("llama." + c.key, c.value);
    const auto model = build(f);
    ASSERT_FALSE(model.ok()) << c.key << " = " << describe(c.value);
    EXPECT_THAT(model.error().message, HasSubstr("llama." + c.key));
  }
  // More layers than the file has.
  File f = file_of("llama");
  f.set("llama.block_count", int64_t{4000});
  EXPECT_THAT(refusal(f, ErrorKind::kCorrupt), HasSubstr("blk.2."));
  for (const std::string key :
       {"block_count", "context_length", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
    File g = file_of("llama");
    g.metadata.erase("llama." + key);
    EXPECT_THAT(refusal(g, ErrorKind::kCorrupt), HasSubstr("'llama." + key + "' is missing"));
  }
}

}  // namespace
}  // namespace weft
