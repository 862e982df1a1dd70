#include "cli/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/small_model_test.h"

namespace weft {
namespace {

using testing::HasSubstr;

class GeneratorTest : public testing::Test {
 protected:
  GeneratorTest() : model_(load_model(small_model())) {
    WEFT_CHECK(model_.ok(), "{}", model_.error().message);
    options_.sampling.temperature = 0;
    options_.ignore_eos = true;
    options_.max_tokens = 24;
  }

  GenerationResult generate(Generator& generator, const GenerationOptions& options) {
    auto prompt = generator.raw_prompt("some words to go on from");
    EXPECT_TRUE(prompt.ok());
    std::string pieces;
    auto result = generator.generate(*std::move(prompt), options,
                                     [&](std::string_view piece) { pieces += piece; });
    EXPECT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(pieces, result->text);
    return *result;
  }

  Result<LoadedModel> model_;
  GenerationOptions options_;
};

TEST_F(GeneratorTest, GreedyAnswersRepeat) {
  Generator generator(*model_);
  const GenerationResult first = generate(generator, options_);
  EXPECT_EQ(first.output_tokens, 24);
  EXPECT_EQ(first.reason, FinishReason::kLength);
  EXPECT_FALSE(first.text.empty());
  EXPECT_EQ(generate(generator, options_).text, first.text);
}

TEST(GeneratorOfExperts, EveryWeightTypeAnswers) {
  for (const DummyType type :
       {DummyType::kQ8_0, DummyType::kQ4_0, DummyType::kQ4_K_M, DummyType::kBF16}) {
    LoadOptions load = small_model();
    const DummyShape dense = load.dummy->shape;
    DummyShape& shape = load.dummy->shape;
    shape = *find_dummy_shape("qwen3-30b-a3b");
    shape.layers = 2;
    shape.hidden = 256;
    shape.heads = 4;
    shape.kv_heads = 2;
    shape.head_dim = 64;
    shape.experts = 16;
    shape.experts_used = 4;
    shape.expert_ffn = 256;
    shape.vocab = dense.vocab;
    shape.context = dense.context;
    load.dummy->type = type;
    load.threads = 2;
    const auto model = load_model(load);
    ASSERT_TRUE(model.ok()) << model.error().message;
    Generator generator(*model);
    GenerationOptions options;
    options.sampling.temperature = 0;
    options.ignore_eos = true;
    options.max_tokens = 12;
    std::string first;
    for (int round = 0; round < 2; ++round) {
      auto prompt = generator.raw_prompt("words, words and more words to fill experts with");
      ASSERT_TRUE(prompt.ok());
      const auto result =
          generator.generate(*std::move(prompt), options, [](std::string_view /*piece*/) {});
      ASSERT_TRUE(result.ok()) << result.error().message;
      EXPECT_EQ(result->output_tokens, 12);
      if (round == 0) first = result->text;
      EXPECT_EQ(result->text, first);
    }
  }
}

TEST_F(GeneratorTest, TheSeedRepeatsADraw) {
  Generator generator(*model_);
  options_.sampling.temperature = 1;
  options_.seed = 5;
  const std::string first = generate(generator, options_).text;
  EXPECT_EQ(generate(generator, options_).text, first);
  options_.seed = 6;
  EXPECT_NE(generate(generator, options_).text, first);
}

TEST_F(GeneratorTest, AStopStringEndsTheAnswerBeforeIt) {
  Generator generator(*model_);
  const std::string whole = generate(generator, options_).text;
  ASSERT_GT(whole.size(), 8U);
  options_.stop = {whole.substr(4, 3)};
  const GenerationResult stopped = generate(generator, options_);
  EXPECT_EQ(stopped.reason, FinishReason::kStop);
  EXPECT_EQ(stopped.text, whole.substr(0, whole.find(options_.stop[0])));
}

TEST_F(GeneratorTest, StopEndsTheAnswerThatRuns) {
  Generator generator(*model_);
  EXPECT_FALSE(generator.stop());
  options_.max_tokens = 0;  // until the context is full
  auto prompt = generator.raw_prompt("words");
  ASSERT_TRUE(prompt.ok());
  const auto result =
      generator.generate(*std::move(prompt), options_, [&](std::string_view) { generator.stop(); });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->reason, FinishReason::kCancelled);
  EXPECT_LT(result->output_tokens, 500);
  EXPECT_FALSE(generator.stop());
}

TEST_F(GeneratorTest, WithoutALimitTheContextEndsTheAnswer) {
  Generator generator(*model_);
  options_.max_tokens = 0;
  const GenerationResult result = generate(generator, options_);
  EXPECT_EQ(result.reason, FinishReason::kLength);
  EXPECT_EQ(result.prompt_tokens + result.output_tokens, 512);
}

TEST_F(GeneratorTest, ChatPromptsGoThroughTheTemplate) {
  const Generator generator(*model_);
  const auto chat = generator.chat_prompt({{"user", "hi"}});
  const auto raw = generator.raw_prompt("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  ASSERT_TRUE(chat.ok() && raw.ok());
  EXPECT_EQ(*chat, *raw);
}

TEST_F(GeneratorTest, APromptThatIsTooLongIsAnError) {
  Generator generator(*model_);
  const auto result =
      generator.generate(std::vector<TokenId>(600, 1), options_, [](std::string_view) {});
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("600"));
}

TEST(LoadModel, ErrorsNameTheValue) {
  LoadOptions load = small_model();
  load.context = 513;
  EXPECT_THAT(load_model(load).error().message, HasSubstr("513"));
  load = small_model();
  load.isa = "abacus";
  EXPECT_THAT(load_model(load).error().message, HasSubstr("abacus"));
  load = small_model();
  load.dummy.reset();
  load.model = "/nowhere/model.gguf";
  EXPECT_THAT(load_model(load).error().message, HasSubstr("/nowhere/model.gguf"));
}

TEST(LoadModel, LimitsFollowTheOptions) {
  LoadOptions load = small_model();
  load.max_sequences = 3;
  load.context = 100;
  load.pass_rows = 16;
  const auto model = load_model(load);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const ExecutorLimits& limits = model->executor->limits();
  EXPECT_EQ(limits.slots, 3);
  EXPECT_EQ(limits.context, 100);
  EXPECT_EQ(limits.rows, 19);
  EXPECT_EQ(limits.blocks, 6);
}

}  // namespace
}  // namespace weft
