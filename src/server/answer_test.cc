#include "server/answer.h"

#include <gtest/gtest.h>

#include <string>

#include "server/api_test_model.h"

namespace weft {
namespace {

// The answer to a completion whose output is `text`, token by token.
struct OneAnswer {
  OneAnswer(const std::string& members, const std::string& prompt = "\"a\"")
      : call(prepared(Endpoint::kCompletions, "{\"prompt\": " + prompt + ", " + members + "}")),
        answer(call, call.prompts.at(0), test_tokenizer()) {}

  void tokens(const std::vector<TokenId>& ids) {
    for (const TokenId id : ids) answer.on_event(token_event(id, -0.5F));
  }
  void end(FinishReason reason) { answer.on_event(finished_event(reason)); }

  PreparedCall call;
  Answer answer;
};

TEST(Answer, IsTheTextOfItsTokens) {
  OneAnswer run(R"("max_tokens": 32)");
  run.tokens(ids_of("the License"));
  EXPECT_FALSE(run.answer.finished());
  run.end(FinishReason::kLength);
  EXPECT_TRUE(run.answer.finished());
  const AnswerPart part = run.answer.take();
  EXPECT_EQ(part.text, "the License");
  EXPECT_EQ(part.tokens, ids_of("the License"));
  EXPECT_EQ(part.finish, FinishReason::kLength);
  EXPECT_TRUE(part.logprobs.empty());
  EXPECT_TRUE(run.answer.take().empty());
}

TEST(Answer, HoldsHalfACharacterBack) {
  OneAnswer run(R"("max_tokens": 32)");
  const std::vector<TokenId> ids = ids_of("\xe2\x82\xac");
  ASSERT_EQ(ids.size(), 3U);
  run.tokens({ids[0], ids[1]});
  EXPECT_EQ(run.answer.take().text, "");
  run.tokens({ids[2]});
  EXPECT_EQ(run.answer.take().text, "\xe2\x82\xac");
  run.tokens({ids[0]});
  run.end(FinishReason::kLength);
  EXPECT_EQ(run.answer.take().text, "\xef\xbf\xbd");
}

TEST(Answer, EndsBeforeAStopStringAndCountsTheTokenThatCompletedIt) {
  const std::vector<TokenId> ids = ids_of("the License is");
  ASSERT_EQ(ids.size(), 3U);
  for (const bool include : {false, true}) {
    OneAnswer run(
        std::string(R"("max_tokens": 32, "stop": ["License"], "include_stop_str_in_output": )") +
        (include ? "true" : "false"));
    run.tokens(ids);
    EXPECT_TRUE(run.answer.finished());
    EXPECT_TRUE(run.answer.stopped_by_text());
    EXPECT_EQ(run.answer.output_tokens(), 2);
    const AnswerPart part = run.answer.take();
    EXPECT_EQ(part.text, include ? "the License" : "the ");
    EXPECT_EQ(part.finish, FinishReason::kStop);
    run.end(FinishReason::kLength);  // the engine's last words change nothing
    EXPECT_TRUE(run.answer.take().empty());
  }
}

TEST(Answer, FindsAStopStringAcrossTokensAndWithholdsItsBeginning) {
  OneAnswer run(R"("max_tokens": 32, "stop": "e L")");
  run.tokens(ids_of("the"));
  EXPECT_EQ(run.answer.take().text, "th");
  run.tokens(ids_of(" License"));
  const AnswerPart part = run.answer.take();
  EXPECT_EQ(part.text, "");
  EXPECT_EQ(part.finish, FinishReason::kStop);
}

TEST(Answer, GivesWithheldTextAtTheEnd) {
  OneAnswer run(R"("max_tokens": 32, "stop": "e L")");
  run.tokens(ids_of("the"));
  run.end(FinishReason::kLength);
  EXPECT_EQ(run.answer.take().text, "the");
}

TEST(Answer, StopStringsWaitForMinTokens) {
  OneAnswer run(R"("max_tokens": 32, "min_tokens": 2, "stop": "the")");
  run.tokens(ids_of("the"));
  EXPECT_FALSE(run.answer.finished());
  run.tokens(ids_of(" is"));
  run.tokens(ids_of(" the"));
  EXPECT_TRUE(run.answer.finished());
  EXPECT_EQ(run.answer.take().text, "the is ");
}

TEST(Answer, TheEndTokenIsReportedButNotShown) {
  for (const bool shown : {false, true}) {
    OneAnswer run(std::string(R"("max_tokens": 32, "logprobs": 0, "stop_token_ids": [5])") +
                  (shown ? R"(, "include_stop_str_in_output": true)" : ""));
    run.tokens({ids_of("the")[0], 5});  // 5: #
    run.end(FinishReason::kStop);
    const AnswerPart part = run.answer.take();
    EXPECT_EQ(part.text, shown ? "the#" : "the");
    EXPECT_EQ(part.tokens.size(), 2U);
    EXPECT_EQ(part.logprobs.size(), 2U);
    EXPECT_EQ(part.finish, FinishReason::kStop);
  }
}

TEST(Answer, SpecialTokensAreHiddenUnlessAskedFor) {
  OneAnswer hidden(R"("max_tokens": 32, "ignore_eos": true)");
  hidden.tokens({5, 2, 6});
  hidden.end(FinishReason::kLength);
  EXPECT_EQ(hidden.answer.take().text, "#$");
  OneAnswer shown(R"("max_tokens": 32, "ignore_eos": true, "skip_special_tokens": false)");
  shown.tokens({5, 2, 6});
  shown.end(FinishReason::kLength);
  EXPECT_EQ(shown.answer.take().text, "#<|im_end|>$");
}

TEST(Answer, EchoComesFirst) {
  OneAnswer run(R"("max_tokens": 32, "echo": true)", "\"Hi \\u20ac\"");
  run.tokens(ids_of(" the"));
  run.end(FinishReason::kLength);
  EXPECT_EQ(run.answer.take().text, "Hi \xe2\x82\xac the");
}

TEST(Answer, EchoOfTokensIsTheirText) {
  OneAnswer run(R"("max_tokens": 32, "echo": true)", "[5, 1, 6]");
  run.end(FinishReason::kLength);
  EXPECT_EQ(run.answer.take().text, "#$");  // special tokens are hidden here too
}

TEST(Answer, OffsetsCountTheCodePointsBefore) {
  OneAnswer run(R"("max_tokens": 32, "echo": true, "logprobs": 1)", "\"\\u20acthe\"");
  const std::vector<TokenId>& prompt = run.call.prompts[0].ids;
  ASSERT_EQ(prompt.size(), 4U);  // three bytes, "the"
  for (size_t i = 1; i < prompt.size(); ++i) {
    run.answer.on_event(prompt_event(prompt[i], -1.0F, {{.token = 7, .logprob = -0.25F}}));
  }
  run.tokens(ids_of(" the is"));
  run.end(FinishReason::kLength);
  const AnswerPart part = run.answer.take();
  ASSERT_EQ(part.logprobs.size(), 6U);
  EXPECT_FALSE(part.logprobs[0].logprob.has_value());
  EXPECT_EQ(part.logprobs[1].logprob, -1.0F);
  EXPECT_EQ(part.logprobs[1].top.at(0).token, 7);
  EXPECT_EQ(part.logprobs[4].logprob, -0.5F);
  std::vector<size_t> offsets;
  offsets.reserve(part.logprobs.size());
  for (const TokenInfo& info : part.logprobs) offsets.push_back(info.text_offset);
  EXPECT_EQ(offsets, (std::vector<size_t>{0, 0, 0, 1, 4, 8}));
  EXPECT_EQ(part.tokens.size(), 2U);  // outputs alone
}

}  // namespace
}  // namespace weft
