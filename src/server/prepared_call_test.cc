#include "server/prepared_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "server/api_test_model.h"

namespace weft {
namespace {

constexpr std::string_view kTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}{{ suffix }}";

ApiError refused(Endpoint endpoint, const std::string& body) {
  auto result = try_prepare(endpoint, body);
  if (const auto* error = std::get_if<ApiError>(&result)) return *error;
  ADD_FAILURE() << body << " was accepted";
  return {};
}

TEST(PrepareCall, RendersAndTokenizesAChat) {
  const auto chat_template = ChatTemplate::from_source(kTemplate, "", "<|im_end|>");
  ASSERT_TRUE(chat_template.ok());
  const std::string messages = R"("messages": [{"role": "user", "content": "Hi"}])";
  const PreparedCall call = prepared(Endpoint::kChat, "{" + messages + "}", &*chat_template);
  ASSERT_EQ(call.answers(), 1);
  EXPECT_EQ(call.prompts[0].ids, ids_of("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"));
  const PreparedCall other =
      prepared(Endpoint::kChat,
               "{" + messages +
                   R"(, "add_generation_prompt": false, "chat_template_kwargs": {"suffix": "x"}})",
               &*chat_template);
  EXPECT_EQ(other.prompts[0].ids, ids_of("<|im_start|>user\nHi<|im_end|>\nx"));
}

TEST(PrepareCall, AChatNeedsATemplate) {
  const ApiError error =
      refused(Endpoint::kChat, R"({"messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.code, "no_chat_template");
}

TEST(PrepareCall, AnErrorOfTheTemplateIsTheClients) {
  const auto chat_template =
      ChatTemplate::from_source("{{ raise_exception('roles must alternate') }}", "", "");
  ASSERT_TRUE(chat_template.ok());
  auto result = try_prepare(Endpoint::kChat, R"({"messages": [{"role": "user", "content": "Hi"}]})",
                            &*chat_template);
  const auto* error = std::get_if<ApiError>(&result);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->status, 400);
  EXPECT_EQ(error->param, "messages");
  EXPECT_NE(error->message.find("roles must alternate"), std::string::npos);
}

TEST(PrepareCall, HoldsPromptAndAnswerAgainstTheContext) {
  std::string ids = "[5";
  for (int i = 1; i < kTestContext; ++i) ids += ",5";  // as many as the context
  const std::string full = "{\"prompt\": " + ids + "]";
  ApiError error = refused(Endpoint::kCompletions, full + "}");
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(error.param, "prompt");
  prepared(Endpoint::kCompletions, full + R"(, "echo": true, "max_tokens": 0})");
  prepared(Endpoint::kCompletions, R"({"prompt": [5], "max_tokens": 63})");
  error = refused(Endpoint::kCompletions, R"({"prompt": [5], "max_tokens": 64})");
  EXPECT_EQ(error.code, "context_length_exceeded");
  error = refused(Endpoint::kCompletions, "{\"prompt\": [[5], " + ids + "]]}");
  EXPECT_EQ(error.param, "prompt[1]");
}

TEST(PrepareCall, AnEmptyPromptIsRefused) {
  EXPECT_EQ(refused(Endpoint::kCompletions, R"({"prompt": ""})").param, "prompt");
  EXPECT_EQ(refused(Endpoint::kCompletions, R"({"prompt": ["a", ""]})").param, "prompt[1]");
}

TEST(PrepareCall, EndTokensFollowTheParameters) {
  const auto ends = test_tokenizer().end_ids();
  PreparedCall call =
      prepared(Endpoint::kCompletions, R"({"prompt": "a", "stop_token_ids": [9, 9]})");
  std::vector<TokenId> expected(ends.begin(), ends.end());
  expected.push_back(9);
  std::ranges::sort(expected);
  EXPECT_EQ(call.end_ids, expected);
  EXPECT_TRUE(call.call.sampling.forbidden.empty());

  call = prepared(Endpoint::kCompletions,
                  R"({"prompt": "a", "stop_token_ids": [9], "ignore_eos": true, "min_tokens": 2})");
  EXPECT_EQ(call.end_ids, (std::vector<TokenId>{9}));
  EXPECT_EQ(call.call.sampling.forbidden, (std::vector<TokenId>{9}));
}

TEST(ToRequest, NumbersChoicesWithinTheirPrompt) {
  const PreparedCall call = prepared(
      Endpoint::kCompletions, R"({"prompt": [[5], [6, 7]], "n": 2, "seed": 3, "max_tokens": 4})");
  ASSERT_EQ(call.answers(), 4);
  const Request last = to_request(call, 3, kTestContext);
  EXPECT_EQ(last.prompt, (std::vector<TokenId>{6, 7}));
  EXPECT_EQ(last.choice, 1U);
  EXPECT_EQ(last.seed, 3U);
  EXPECT_EQ(last.max_tokens, 4);
  EXPECT_EQ(last.prompt_logprobs, -1);
  EXPECT_EQ(to_request(call, 1, kTestContext).prompt, (std::vector<TokenId>{5}));
}

TEST(ToRequest, HasTheDefaultLengthsOfTheApi) {
  EXPECT_EQ(to_request(prepared(Endpoint::kCompletions, R"({"prompt": [5]})"), 0, kTestContext)
                .max_tokens,
            16);
  EXPECT_EQ(to_request(prepared(Endpoint::kCompletions, R"({"prompt": [5]})"), 0, 8).max_tokens, 7);
  const auto chat_template = ChatTemplate::from_source("{{ messages[0].content }}", "", "");
  ASSERT_TRUE(chat_template.ok());
  const PreparedCall chat = prepared(
      Endpoint::kChat, R"({"messages": [{"role": "user", "content": "t"}]})", &*chat_template);
  EXPECT_EQ(to_request(chat, 0, kTestContext).max_tokens, kTestContext - 1);
}

TEST(ToRequest, AsksForPromptLogprobsOnlyToEchoThem) {
  const auto logprobs = [](const std::string& members) {
    return to_request(prepared(Endpoint::kCompletions, R"({"prompt": "a", )" + members + "}"), 0,
                      kTestContext)
        .prompt_logprobs;
  };
  EXPECT_EQ(logprobs(R"("logprobs": 3)"), -1);
  EXPECT_EQ(logprobs(R"("echo": true)"), -1);
  EXPECT_EQ(logprobs(R"("echo": true, "logprobs": 3)"), 3);
  EXPECT_EQ(logprobs(R"("echo": true, "max_tokens": 0)"), 0);  // the engine is asked for something
}

}  // namespace
}  // namespace weft
