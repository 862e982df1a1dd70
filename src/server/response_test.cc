#include "server/response.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "server/api_test_model.h"

namespace weft {
namespace {

const ResponseIdentity kIdentity{.id = "cmpl-1", .created = 7, .model = "tiny"};

AnswerPart part_of(std::string_view text, std::vector<TokenId> tokens,
                   std::optional<FinishReason> finish) {
  AnswerPart part;
  part.text = text;
  part.tokens = std::move(tokens);
  part.finish = finish;
  return part;
}

// The data of each event in turn; every one ends in an empty line.
std::vector<std::string> data_of(std::string_view events) {
  std::vector<std::string> out;
  while (!events.empty()) {
    const size_t end = events.find("\n\n");
    if (!events.starts_with("data: ") || end == std::string_view::npos) {
      ADD_FAILURE() << "no event: " << events;
      return out;
    }
    out.emplace_back(events.substr(6, end - 6));
    events.remove_prefix(end + 2);
  }
  return out;
}

PreparedCall chat_call(const std::string& members) {
  static const ChatTemplate chat_template =
      ChatTemplate::from_source("{{ messages[0].content }}", "", "").value();
  return prepared(Endpoint::kChat,
                  R"({"messages": [{"role": "user", "content": "#"}])" + members + "}",
                  &chat_template);
}

TEST(ResponseWriter, WritesAWholeChat) {
  const PreparedCall call = chat_call("");
  const ResponseWriter writer(call, test_tokenizer(), kIdentity);
  const AnswerPart part = part_of("Hi \"you\"", {8, 9}, FinishReason::kStop);
  EXPECT_EQ(
      writer.whole({&part, 1}, 2),
      R"({"id":"cmpl-1","object":"chat.completion","created":7,"model":"tiny",)"
      R"("system_fingerprint":"weft-)" WEFT_VERSION R"(","choices":[{"index":0,"message":)"
      R"({"role":"assistant","content":"Hi \"you\"","refusal":null},"logprobs":null,)"
      R"("finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST(ResponseWriter, WritesAWholeCompletion) {
  const PreparedCall call =
      prepared(Endpoint::kCompletions, R"({"prompt": [[5], [6, 7]], "return_token_ids": true})");
  ResponseWriter writer(call, test_tokenizer(), kIdentity);
  writer.set_cached_tokens(1, 64);
  const std::vector<AnswerPart> parts = {part_of("a", {8}, FinishReason::kStop),
                                         part_of("b", {9, 10}, FinishReason::kLength)};
  const Json out = Json::parse(writer.whole(parts, 3));
  EXPECT_EQ(out["object"], "text_completion");
  EXPECT_EQ(out["choices"][1],
            Json::parse(R"({"index": 1, "text": "b", "logprobs": null, "finish_reason": "length",
                                               "token_ids": [9, 10], "prompt_token_ids": [6, 7]})"));
  EXPECT_EQ(out["usage"],
            Json::parse(R"({"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6,
                            "prompt_tokens_details": {"cached_tokens": 64}})"));
}

TEST(ResponseWriter, StreamsAChat) {
  const PreparedCall call = chat_call(R"(, "stream": true)");
  ResponseWriter writer(call, test_tokenizer(), kIdentity);
  std::string events = writer.events(0, part_of("Hi", {8}, {}), 1);
  events += writer.events(0, part_of("", {9}, {}), 2);  // nothing to show
  events += writer.events(0, part_of("!", {10}, FinishReason::kStop), 3);
  events += writer.last_events(3);
  const std::vector<std::string> data = data_of(events);
  ASSERT_EQ(data.size(), 4U);
  EXPECT_EQ(data[0],
            R"({"id":"cmpl-1","object":"chat.completion.chunk","created":7,"model":"tiny",)"
            R"("system_fingerprint":"weft-)" WEFT_VERSION R"(","choices":[{"index":0,)"
            R"("delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(Json::parse(data[1])["choices"][0]["delta"], Json::parse(R"({"content": "Hi"})"));
  const Json last = Json::parse(data[2])["choices"][0];
  EXPECT_EQ(last["delta"]["content"], "!");
  EXPECT_EQ(last["finish_reason"], "stop");
  EXPECT_EQ(data[3], "[DONE]");
}

TEST(ResponseWriter, StreamsUsageLastAndNullBefore) {
  const PreparedCall call =
      chat_call(R"(, "stream": true, "stream_options": {"include_usage": true})");
  ResponseWriter writer(call, test_tokenizer(), kIdentity);
  std::string events = writer.events(0, part_of("Hi", {8}, FinishReason::kLength), 1);
  events += writer.last_events(1);
  const std::vector<std::string> data = data_of(events);
  ASSERT_EQ(data.size(), 4U);
  EXPECT_TRUE(Json::parse(data[0]).at("usage").is_null());
  EXPECT_TRUE(Json::parse(data[1]).at("usage").is_null());
  const Json usage = Json::parse(data[2]);
  EXPECT_EQ(usage["choices"], Json::array());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 1);
}

TEST(ResponseWriter, StreamsContinuousUsage) {
  const PreparedCall call = prepared(
      Endpoint::kCompletions,
      R"({"prompt": "a", "stream": true, "stream_options": {"continuous_usage_stats": true}})");
  ResponseWriter writer(call, test_tokenizer(), kIdentity);
  const std::vector<std::string> data = data_of(writer.events(0, part_of("", {8}, {}), 1));
  ASSERT_EQ(data.size(), 1U);
  EXPECT_EQ(Json::parse(data[0])["usage"]["completion_tokens"], 1);
}

TEST(ResponseWriter, StreamsTokenIds) {
  const PreparedCall chat = chat_call(R"(, "stream": true, "return_token_ids": true, "n": 2)");
  ResponseWriter writer(chat, test_tokenizer(), kIdentity);
  std::string events = writer.events(1, part_of("", {8}, {}), 1);
  events += writer.events(0, part_of("x", {9}, {}), 2);
  std::vector<std::string> data = data_of(events);
  ASSERT_EQ(data.size(), 4U);
  EXPECT_EQ(Json::parse(data[0])["prompt_token_ids"], Json::array({5}));
  EXPECT_EQ(Json::parse(data[1])["choices"][0]["token_ids"], Json::array({8}));
  EXPECT_FALSE(Json::parse(data[2]).contains("prompt_token_ids"));

  const PreparedCall completion = prepared(
      Endpoint::kCompletions, R"({"prompt": [5, 6], "stream": true, "return_token_ids": true})");
  ResponseWriter second(completion, test_tokenizer(), kIdentity);
  events = second.events(0, part_of("x", {8}, {}), 1);
  events += second.events(0, part_of("y", {9}, {}), 2);
  data = data_of(events);
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(Json::parse(data[0])["choices"][0]["prompt_token_ids"], Json::array({5, 6}));
  EXPECT_FALSE(Json::parse(data[1])["choices"][0].contains("prompt_token_ids"));
}

TEST(ResponseWriter, WritesChatLogprobs) {
  const PreparedCall call = chat_call(R"(, "logprobs": true, "top_logprobs": 2)");
  const ResponseWriter writer(call, test_tokenizer(), kIdentity);
  AnswerPart part = part_of("#", {5}, FinishReason::kStop);
  const TokenId half = ids_of("\xe2\x82\xac")[0];
  part.logprobs.push_back(
      {.token = 5,
       .logprob = -0.5F,
       .top = {{.token = 5, .logprob = -0.5F},
               {.token = half, .logprob = -std::numeric_limits<float>::infinity()}},
       .text_offset = 0});
  const Json out = Json::parse(writer.whole({&part, 1}, 1))["choices"][0]["logprobs"];
  EXPECT_EQ(
      out,
      Json::parse(R"({"content": [{"token": "#", "logprob": -0.5, "bytes": [35], "top_logprobs": [
      {"token": "#", "logprob": -0.5, "bytes": [35]},
      {"token": "\ufffd", "logprob": -9999.0, "bytes": [226]}]}], "refusal": null})"));
}

TEST(ResponseWriter, WritesCompletionLogprobs) {
  const PreparedCall call = prepared(Endpoint::kCompletions, R"({"prompt": "a", "logprobs": 1})");
  const ResponseWriter writer(call, test_tokenizer(), kIdentity);
  AnswerPart part = part_of("a#", {6}, FinishReason::kLength);
  const TokenId half = ids_of("\xe2\x82\xac")[0];
  part.logprobs.push_back({.token = 5, .logprob = std::nullopt, .top = {}, .text_offset = 0});
  part.logprobs.push_back(
      {.token = 6, .logprob = -1.5F, .top = {{.token = half, .logprob = -0.5F}}, .text_offset = 1});
  const Json out = Json::parse(writer.whole({&part, 1}, 1))["choices"][0]["logprobs"];
  EXPECT_EQ(
      out,
      Json::parse(R"({"text_offset": [0, 1], "token_logprobs": [null, -1.5], "tokens": ["#", "$"],
      "top_logprobs": [null, {"bytes:\\xe2": -0.5, "$": -1.5}]})"));
}

TEST(ResponseWriter, WritesErrorsIntoAStream) {
  const std::vector<std::string> data = data_of(ResponseWriter::error_events(
      {.status = 504, .message = "late", .code = "timeout", .type = "timeout"}));
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(data[0],
            R"({"error":{"message":"late","type":"timeout","param":null,"code":"timeout"}})");
  EXPECT_EQ(data[1], "[DONE]");
}

TEST(NewIdentity, IsRandom) {
  const ResponseIdentity a = new_identity(Endpoint::kChat, "tiny");
  EXPECT_TRUE(a.id.starts_with("chatcmpl-"));
  EXPECT_EQ(a.id.size(), 9U + 32U);
  EXPECT_NE(a.id, new_identity(Endpoint::kChat, "tiny").id);
  EXPECT_TRUE(new_identity(Endpoint::kCompletions, "tiny").id.starts_with("cmpl-"));
}

}  // namespace
}  // namespace weft
