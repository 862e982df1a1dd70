#include "cli/dummy_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cli/dummy_vocabulary.h"
#include "model/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace weft {
namespace {

// A shape's structure in small, so that a test writes kilobytes.
DummySpec small(std::string_view name, DummyType type, int hidden = 256) {
  DummySpec spec;
  spec.shape = *find_dummy_shape(name);
  spec.type = type;
  spec.shape.layers = 8;
  spec.shape.hidden = hidden;
  spec.shape.ffn = 512;
  spec.shape.heads = 4;
  spec.shape.kv_heads = 2;
  spec.shape.head_dim = 64;
  spec.shape.vocab = 1200;
  if (spec.shape.experts > 0) {
    spec.shape.experts = 8;
    spec.shape.experts_used = 3;
    spec.shape.expert_ffn = 256;
  }
  return spec;
}

DType type_of(const Checkpoint& checkpoint, std::string_view name) {
  const TensorView* view = checkpoint.find(name);
  EXPECT_NE(view, nullptr) << name;
  return view == nullptr ? DType::kF32 : view->dtype;
}

TEST(DummyModel, BuildsAModelOfEachShape) {
  for (const DummyShape& shape : dummy_shapes()) {
    const std::vector<std::byte> bytes =
        make_dummy_model(small(shape.name, DummyType::kQ8_0)).writer.to_bytes();
    const auto checkpoint = Checkpoint::parse(bytes, shape.name);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    const auto model = build_model(*checkpoint);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model->config.layers, 8);
    EXPECT_EQ(model->config.vocab, 1200);
    EXPECT_EQ(model->config.experts, shape.experts > 0 ? 8 : 0);
    EXPECT_EQ(model->head == model->embedding, shape.tied_head) << shape.name;
  }
}

TEST(DummyModel, TheRealShapesHaveTheSizesOfTheirModels) {
  const auto parameters = [](std::string_view name) {
    const DummyShape s = *find_dummy_shape(name);
    const int64_t attention =
        static_cast<int64_t>(s.hidden) * s.head_dim * (2 * s.heads + 2 * s.kv_heads);
    const int64_t experts = std::max(1, s.experts);
    const int64_t ffn = 3LL * s.hidden * (s.experts > 0 ? s.expert_ffn : s.ffn) * experts;
    const int64_t embedding = static_cast<int64_t>(s.vocab) * s.hidden * (s.tied_head ? 1 : 2);
    return static_cast<double>(s.layers * (attention + ffn) + embedding) / 1e9;
  };
  EXPECT_NEAR(parameters("smollm2-135m"), 0.1345, 0.001);
  EXPECT_NEAR(parameters("qwen2.5-0.5b"), 0.494, 0.002);
  EXPECT_NEAR(parameters("qwen2.5-1.5b"), 1.54, 0.01);
  EXPECT_NEAR(parameters("qwen2.5-7b"), 7.61, 0.02);
  EXPECT_NEAR(parameters("qwen-7b"), 7.72, 0.02);
  EXPECT_NEAR(parameters("qwen3-30b-a3b"), 30.5, 0.1);
}

TEST(DummyModel, ExpertsAreOneTensorALayer) {
  DummySpec spec = small("qwen3-30b-a3b", DummyType::kQ4_0);
  spec.shape.experts = 4;
  spec.shape.expert_ffn = 64;
  const std::vector<std::byte> bytes = make_dummy_model(spec).writer.to_bytes();
  const auto checkpoint = Checkpoint::parse(bytes, "moe");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const TensorView* down = checkpoint->find("blk.7.ffn_down_exps.weight");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->shape, (Shape{4, 256, 64}));
}

TEST(DummyModel, MixedTypesFollowLayerAndRole) {
  const std::vector<std::byte> bytes =
      make_dummy_model(small("qwen2.5-7b", DummyType::kQ4_K_M)).writer.to_bytes();
  const auto checkpoint = Checkpoint::parse(bytes, "mixed");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(type_of(*checkpoint, "output.weight"), DType::kQ6_K);
  EXPECT_EQ(type_of(*checkpoint, "token_embd.weight"), DType::kQ4_K);
  // Of 8 layers the first and the last, and every third between them, have more bits.
  const std::set<int> more = {0, 3, 6, 7};
  for (int layer = 0; layer < 8; ++layer) {
    const DType expected = more.contains(layer) ? DType::kQ6_K : DType::kQ4_K;
    EXPECT_EQ(type_of(*checkpoint, fmt::format("blk.{}.ffn_down.weight", layer)), expected)
        << layer;
    EXPECT_EQ(type_of(*checkpoint, fmt::format("blk.{}.attn_v.weight", layer)), expected) << layer;
    EXPECT_EQ(type_of(*checkpoint, fmt::format("blk.{}.attn_q.weight", layer)), DType::kQ4_K);
  }
}

TEST(DummyModel, RowsThatDoNotDivideFallBackAndAreNamed) {
  const DummyModel model = make_dummy_model(small("smollm2-135m", DummyType::kQ4_K_M, 192));
  const std::vector<std::byte> bytes = model.writer.to_bytes();
  const auto checkpoint = Checkpoint::parse(bytes, "fallback");
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(type_of(*checkpoint, "blk.1.ffn_up.weight"), DType::kQ5_0);
  EXPECT_EQ(type_of(*checkpoint, "token_embd.weight"), DType::kQ8_0);
  EXPECT_EQ(type_of(*checkpoint, "blk.1.ffn_down.weight"), DType::kQ4_K);  // rows of 512
  EXPECT_THAT(model.notes,
              testing::UnorderedElementsAre(testing::HasSubstr("Q5_0 instead of Q4_K"),
                                            testing::HasSubstr("Q8_0 instead of Q6_K")));
}

TEST(DummyModel, TheSeedDecidesTheBytes) {
  DummySpec spec = small("qwen2.5-0.5b", DummyType::kQ8_0);
  const std::vector<std::byte> first = make_dummy_model(spec).writer.to_bytes();
  EXPECT_EQ(first, make_dummy_model(spec).writer.to_bytes());
  spec.seed = 2;
  EXPECT_NE(first, make_dummy_model(spec).writer.to_bytes());
}

TEST(DummyModel, ItsTokenizerRoundTripsAnyText) {
  const std::vector<std::byte> bytes =
      make_dummy_model(small("smollm2-135m", DummyType::kQ8_0)).writer.to_bytes();
  const auto checkpoint = Checkpoint::parse(bytes, "text");
  ASSERT_TRUE(checkpoint.ok());
  const auto tokenizer = Tokenizer::from_metadata(checkpoint->metadata());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocab_size(), 1200);
  const std::string text = "Words, 123 \t\n naïve 水 🙂 <|im_end|>";
  const auto ids = tokenizer->encode(text, SpecialTokens::kAsText);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(tokenizer->decode(*ids, true), text);
  EXPECT_LT(tokenizer->encode("hello", SpecialTokens::kAsText)->size(), 5U);  // merges apply
  EXPECT_THAT(tokenizer->end_ids(), testing::Contains(1199));

  const auto chat = ChatTemplate::from_metadata(checkpoint->metadata());
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  EXPECT_EQ(*chat->render(R"([{"role": "user", "content": "hi"}])", true),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(DummyVocabulary, HasNoTokenTwice) {
  for (const int size : {1000, 49152}) {
    const DummyVocabulary vocabulary = make_dummy_vocabulary(size);
    EXPECT_EQ(vocabulary.tokens.size(), static_cast<size_t>(size));
    EXPECT_EQ(vocabulary.types.size(), static_cast<size_t>(size));
    EXPECT_EQ(vocabulary.merges.size(), static_cast<size_t>(size) - 256 - 3);
    EXPECT_EQ(std::set<std::string>(vocabulary.tokens.begin(), vocabulary.tokens.end()).size(),
              static_cast<size_t>(size));
  }
}

TEST(DummySpec, ParsesShapeAndType) {
  const auto spec = parse_dummy_spec("qwen2.5-0.5b:q4_0");
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->shape.name, "qwen2.5-0.5b");
  EXPECT_EQ(spec->type, DummyType::kQ4_0);
  EXPECT_THAT(parse_dummy_spec("qwen2.5-0.5b").error().message, testing::HasSubstr("SHAPE:TYPE"));
  EXPECT_THAT(parse_dummy_spec("gpt-5:q8_0").error().message, testing::HasSubstr("smollm2-135m"));
  EXPECT_THAT(parse_dummy_spec("qwen-7b:q3").error().message, testing::HasSubstr("q4_k_m"));
}

}  // namespace
}  // namespace weft
