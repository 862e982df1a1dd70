#include "server/api_call.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace weft {
namespace {

const ApiLimits kLimits{.model_name = "tiny", .vocab_size = 512, .max_choices = 4};

ApiCall parsed(Endpoint endpoint, const std::string& body) {
  auto result = parse_call(endpoint, body, kLimits);
  if (const auto* error = std::get_if<ApiError>(&result)) {
    ADD_FAILURE() << body << ": " << error->message;
    return {};
  }
  return std::get<ApiCall>(std::move(result));
}

ApiError refused(Endpoint endpoint, const std::string& body) {
  auto result = parse_call(endpoint, body, kLimits);
  if (const auto* error = std::get_if<ApiError>(&result)) return *error;
  ADD_FAILURE() << body << " was accepted";
  return {};
}

// A body with one more member.
std::string chat(std::string_view member) {
  return fmt::format(R"({{"messages": [{{"role": "user", "content": "Hi"}}]{}{}}})",
                     member.empty() ? "" : ", ", member);
}
std::string completion(std::string_view member) {
  return fmt::format(R"({{"prompt": "Hi"{}{}}})", member.empty() ? "" : ", ", member);
}

TEST(ChatCall, HasTheDefaultsOfTheApi) {
  const ApiCall call = parsed(Endpoint::kChat, chat(""));
  EXPECT_EQ(call.messages_json, R"([{"role":"user","content":"Hi"}])");
  EXPECT_EQ(call.template_kwargs_json, "{}");
  EXPECT_TRUE(call.add_generation_prompt);
  EXPECT_EQ(call.n, 1);
  EXPECT_FALSE(call.max_tokens.has_value());
  EXPECT_FALSE(call.seed.has_value());
  EXPECT_EQ(call.sampling.temperature, 1.0F);
  EXPECT_EQ(call.sampling.top_p, 1.0F);
  EXPECT_EQ(call.sampling.top_logprobs, -1);
  EXPECT_TRUE(call.skip_special_tokens);
  EXPECT_FALSE(call.stream || call.echo || call.ignore_eos || call.include_stop);
}

TEST(ChatCall, ReadsEverySamplingParameter) {
  const ApiCall call = parsed(Endpoint::kChat, chat(R"(
      "model": "tiny", "max_completion_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05,
      "seed": -3, "presence_penalty": 0.25, "frequency_penalty": -0.5, "repetition_penalty": 1.5,
      "logit_bias": {"5": -100, "6": 2.5}, "logprobs": true, "top_logprobs": 3, "n": 2, "min_tokens": 4,
      "stop": ["a", "b"], "include_stop_str_in_output": true, "stop_token_ids": [9], "ignore_eos": true,
      "skip_special_tokens": false, "stream": true, "return_token_ids": true,
      "stream_options": {"include_usage": true, "continuous_usage_stats": true},
      "add_generation_prompt": false, "chat_template_kwargs": {"enable_thinking": false})"));
  EXPECT_EQ(call.max_tokens, 7);
  EXPECT_EQ(call.sampling.temperature, 0.5F);
  EXPECT_EQ(call.sampling.top_p, 0.9F);
  EXPECT_EQ(call.sampling.top_k, 40);
  EXPECT_EQ(call.sampling.min_p, 0.05F);
  EXPECT_EQ(call.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(call.sampling.presence_penalty, 0.25F);
  EXPECT_EQ(call.sampling.frequency_penalty, -0.5F);
  EXPECT_EQ(call.sampling.repetition_penalty, 1.5F);
  const std::vector<std::pair<TokenId, float>> bias = {{5, -100.0F}, {6, 2.5F}};
  EXPECT_EQ(call.sampling.logit_bias, bias);
  EXPECT_EQ(call.sampling.top_logprobs, 3);
  EXPECT_EQ(call.sampling.min_tokens, 4);
  EXPECT_EQ(call.n, 2);
  EXPECT_EQ(call.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(call.stop_token_ids, (std::vector<TokenId>{9}));
  EXPECT_TRUE(call.include_stop && call.ignore_eos && call.stream && call.return_token_ids);
  EXPECT_TRUE(call.include_usage && call.continuous_usage);
  EXPECT_FALSE(call.skip_special_tokens || call.add_generation_prompt);
  EXPECT_EQ(call.template_kwargs_json, R"({"enable_thinking":false})");
}

TEST(ChatCall, JoinsTextPartsAndKnowsTheDeveloperRole) {
  const ApiCall call = parsed(Endpoint::kChat, R"({"messages": [
      {"role": "developer", "content": "Be brief."},
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "x"},
      {"role": "assistant", "content": "c", "tool_calls": null, "refusal": null, "annotations": []}]})");
  EXPECT_EQ(
      call.messages_json,
      R"([{"role":"system","content":"Be brief."},{"role":"user","content":"a\nb","name":"x"},)"
      R"({"role":"assistant","content":"c"}])");
}

TEST(Call, TakesNullForAbsent) {
  const ApiCall call =
      parsed(Endpoint::kChat, chat(R"("model": null, "temperature": null, "stop": null,
      "logit_bias": null, "tools": null, "response_format": null, "max_tokens": null, "stream": null,
      "stream_options": null, "n": null, "logprobs": null, "top_logprobs": null, "seed": null)"));
  EXPECT_EQ(call.sampling.temperature, 1.0F);
}

TEST(Call, AcceptsWhatChangesNoOutput) {
  parsed(Endpoint::kChat,
         chat(R"("user": "u", "metadata": {"k": "v"}, "store": false, "service_tier": "auto",
      "parallel_tool_calls": true, "tools": [], "tool_choice": "auto", "modalities": ["text"],
      "response_format": {"type": "text"}, "safety_identifier": "s", "prompt_cache_key": "k")"));
  parsed(Endpoint::kChat, chat(R"("tools": [{"type": "function"}], "tool_choice": "none")"));
  parsed(Endpoint::kCompletions,
         completion(R"("best_of": 1, "use_beam_search": false, "suffix": null)"));
}

TEST(Call, NearlyNoTemperatureIsGreedy) {
  EXPECT_EQ(parsed(Endpoint::kChat, chat(R"("temperature": 0)")).sampling.temperature, 0.0F);
  EXPECT_EQ(parsed(Endpoint::kChat, chat(R"("temperature": 1e-30)")).sampling.temperature, 0.0F);
  EXPECT_GT(parsed(Endpoint::kChat, chat(R"("top_p": 0)")).sampling.top_p, 0.0F);
  EXPECT_EQ(parsed(Endpoint::kChat, chat(R"("top_k": -1)")).sampling.top_k, 0);
}

TEST(CompletionCall, ReadsTheFourKindsOfPrompt) {
  using Ids = std::vector<TokenId>;
  const auto prompts = [](const std::string& json) {
    return parsed(Endpoint::kCompletions, "{\"prompt\": " + json + "}").prompts;
  };
  EXPECT_EQ(prompts(R"("a")"), (std::vector<PromptInput>{"a"}));
  EXPECT_EQ(prompts(R"(["a", "b"])"), (std::vector<PromptInput>{"a", "b"}));
  EXPECT_EQ(prompts("[1, 2]"), (std::vector<PromptInput>{Ids{1, 2}}));
  EXPECT_EQ(prompts("[[1, 2], [511]]"), (std::vector<PromptInput>{Ids{1, 2}, Ids{511}}));
}

TEST(CompletionCall, ReadsLogprobsAndEcho) {
  const ApiCall call =
      parsed(Endpoint::kCompletions, completion(R"("logprobs": 0, "echo": true, "max_tokens": 0)"));
  EXPECT_EQ(call.sampling.top_logprobs, 0);
  EXPECT_TRUE(call.echo);
  EXPECT_EQ(call.max_tokens, 0);
}

struct Refusal {
  const char* member;
  const char* param;
  const char* code;
};

class ChatRefusal : public testing::TestWithParam<Refusal> {};
TEST_P(ChatRefusal, NamesTheParameter) {
  const ApiError error = refused(Endpoint::kChat, chat(GetParam().member));
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, GetParam().param);
  EXPECT_EQ(error.code, GetParam().code);
  EXPECT_FALSE(error.message.empty());
  EXPECT_EQ(error.message.find('\n'), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(
    Table, ChatRefusal,
    testing::Values(
        Refusal{R"("tmperature": 1)", "tmperature", "unknown_parameter"},
        Refusal{R"("prompt": "a")", "prompt", "unknown_parameter"},
        Refusal{R"("temperature": "hot")", "temperature", "invalid_type"},
        Refusal{R"("temperature": 2.1)", "temperature", "invalid_value"},
        Refusal{R"("temperature": -0.1)", "temperature", "invalid_value"},
        Refusal{R"("top_p": 1.5)", "top_p", "invalid_value"},
        Refusal{R"("min_p": true)", "min_p", "invalid_type"},
        Refusal{R"("top_k": -2)", "top_k", "invalid_value"},
        Refusal{R"("top_k": 1.5)", "top_k", "invalid_type"},
        Refusal{R"("seed": 18446744073709551615)", "seed", "invalid_value"},
        Refusal{R"("seed": 1e30)", "seed", "invalid_type"},
        Refusal{R"("max_tokens": 0)", "max_tokens", "invalid_value"},
        Refusal{R"("max_tokens": 99999999999)", "max_tokens", "invalid_value"},
        Refusal{R"("max_tokens": 1, "max_completion_tokens": 2)", "max_tokens", "invalid_value"},
        Refusal{R"("max_tokens": 2, "min_tokens": 3)", "min_tokens", "invalid_value"},
        Refusal{R"("n": 0)", "n", "invalid_value"}, Refusal{R"("n": 5)", "n", "invalid_value"},
        Refusal{R"("stop": 1)", "stop", "invalid_type"},
        Refusal{R"("stop": ["a", 1])", "stop", "invalid_type"},
        Refusal{R"("stop": [""])", "stop", "invalid_value"},
        Refusal{R"("stop": ["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"])",
                "stop", "invalid_value"},
        Refusal{R"("stop_token_ids": [512])", "stop_token_ids[0]", "invalid_value"},
        Refusal{R"("stop_token_ids": ["a"])", "stop_token_ids[0]", "invalid_type"},
        Refusal{R"("logit_bias": {"512": 1})", "logit_bias.512", "invalid_value"},
        Refusal{R"("logit_bias": {"-1": 1})", "logit_bias.-1", "invalid_value"},
        Refusal{R"("logit_bias": {"1x": 1})", "logit_bias.1x", "invalid_value"},
        Refusal{R"("logit_bias": {"1": 101})", "logit_bias.1", "invalid_value"},
        Refusal{R"("logit_bias": [1])", "logit_bias", "invalid_type"},
        Refusal{R"("top_logprobs": 2)", "top_logprobs", "invalid_value"},
        Refusal{R"("logprobs": true, "top_logprobs": 21)", "top_logprobs", "invalid_value"},
        Refusal{R"("logprobs": 5)", "logprobs", "invalid_type"},
        Refusal{R"("stream": 1)", "stream", "invalid_type"},
        Refusal{R"("stream_options": {"include_usage": true})", "stream_options", "invalid_value"},
        Refusal{R"("stream": true, "stream_options": {"x": 1})", "stream_options.x",
                "unknown_parameter"},
        Refusal{R"("stream": true, "stream_options": {"include_obfuscation": true})",
                "stream_options.include_obfuscation", "unsupported_parameter"},
        Refusal{R"("tools": [{"type": "function"}])", "tools", "unsupported_parameter"},
        Refusal{R"("functions": [{"name": "f"}])", "functions", "unsupported_parameter"},
        Refusal{R"("tool_choice": "required")", "tool_choice", "unsupported_value"},
        Refusal{R"("tool_choice": {"type": "function"})", "tool_choice", "unsupported_value"},
        Refusal{R"("response_format": {"type": "json_object"})", "response_format",
                "unsupported_value"},
        Refusal{R"("modalities": ["text", "audio"])", "modalities", "unsupported_value"},
        Refusal{R"("audio": {"voice": "a"})", "audio", "unsupported_parameter"},
        Refusal{R"("prediction": {"type": "content"})", "prediction", "unsupported_parameter"},
        Refusal{R"("reasoning_effort": "low")", "reasoning_effort", "unsupported_parameter"},
        Refusal{R"("web_search_options": {})", "web_search_options", "unsupported_parameter"},
        Refusal{R"("chat_template": "x")", "chat_template", "unsupported_parameter"},
        Refusal{R"("chat_template_kwargs": {"messages": []})", "chat_template_kwargs.messages",
                "invalid_value"},
        Refusal{R"("chat_template_kwargs": 1)", "chat_template_kwargs", "invalid_type"},
        Refusal{R"("use_beam_search": true)", "use_beam_search", "unsupported_parameter"}));

class CompletionRefusal : public testing::TestWithParam<Refusal> {};
TEST_P(CompletionRefusal, NamesTheParameter) {
  const ApiError error = refused(Endpoint::kCompletions, completion(GetParam().member));
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, GetParam().param);
  EXPECT_EQ(error.code, GetParam().code);
}
INSTANTIATE_TEST_SUITE_P(
    Table, CompletionRefusal,
    testing::Values(Refusal{R"("suffix": "x")", "suffix", "unsupported_parameter"},
                    Refusal{R"("best_of": 3)", "best_of", "unsupported_value"},
                    Refusal{R"("max_tokens": 0)", "max_tokens", "invalid_value"},
                    Refusal{R"("max_tokens": -1)", "max_tokens", "invalid_value"},
                    Refusal{R"("logprobs": 21)", "logprobs", "invalid_value"},
                    Refusal{R"("logprobs": true)", "logprobs", "invalid_type"},
                    Refusal{R"("echo": "yes")", "echo", "invalid_type"},
                    Refusal{R"("messages": [])", "messages", "unknown_parameter"},
                    Refusal{R"("max_completion_tokens": 1)", "max_completion_tokens",
                            "unknown_parameter"}));

struct BodyRefusal {
  const char* body;
  const char* param;
  const char* code;
};

class PromptRefusal : public testing::TestWithParam<BodyRefusal> {};
TEST_P(PromptRefusal, NamesTheParameter) {
  const ApiError error = refused(Endpoint::kCompletions, GetParam().body);
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, GetParam().param);
  EXPECT_EQ(error.code, GetParam().code);
}
INSTANTIATE_TEST_SUITE_P(
    Table, PromptRefusal,
    testing::Values(BodyRefusal{"{}", "prompt", "missing_required_parameter"},
                    BodyRefusal{"[]", "", "invalid_type"}, BodyRefusal{"1", "", "invalid_type"},
                    BodyRefusal{R"({"prompt": 1})", "prompt", "invalid_type"},
                    BodyRefusal{R"({"prompt": []})", "prompt", "invalid_value"},
                    BodyRefusal{R"({"prompt": {}})", "prompt", "invalid_type"},
                    BodyRefusal{R"({"prompt": ["a", 1]})", "prompt[1]", "invalid_type"},
                    BodyRefusal{R"({"prompt": [1, "a"]})", "prompt[1]", "invalid_type"},
                    BodyRefusal{R"({"prompt": [1, true]})", "prompt[1]", "invalid_type"},
                    BodyRefusal{R"({"prompt": [1, 1.5]})", "prompt[1]", "invalid_type"},
                    BodyRefusal{R"({"prompt": [1, -1]})", "prompt[1]", "invalid_value"},
                    BodyRefusal{R"({"prompt": [512]})", "prompt[0]", "invalid_value"},
                    BodyRefusal{R"({"prompt": [18446744073709551615]})", "prompt[0]",
                                "invalid_value"},
                    BodyRefusal{R"({"prompt": [[1], [[2]]]})", "prompt[1][0]", "invalid_type"}));

class MessageRefusal : public testing::TestWithParam<BodyRefusal> {};
TEST_P(MessageRefusal, NamesTheParameter) {
  const ApiError error = refused(Endpoint::kChat, GetParam().body);
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.param, GetParam().param);
  EXPECT_EQ(error.code, GetParam().code);
}
INSTANTIATE_TEST_SUITE_P(
    Table, MessageRefusal,
    testing::Values(
        BodyRefusal{"{}", "messages", "missing_required_parameter"},
        BodyRefusal{R"({"messages": "Hi"})", "messages", "invalid_type"},
        BodyRefusal{R"({"messages": []})", "messages", "invalid_value"},
        BodyRefusal{R"({"messages": ["Hi"]})", "messages[0]", "invalid_type"},
        BodyRefusal{R"({"messages": [{"content": "a"}]})", "messages[0].role",
                    "missing_required_parameter"},
        BodyRefusal{R"({"messages": [{"role": "user"}]})", "messages[0].content",
                    "missing_required_parameter"},
        BodyRefusal{R"({"messages": [{"role": "king", "content": "a"}]})", "messages[0].role",
                    "invalid_value"},
        BodyRefusal{R"({"messages": [{"role": "tool", "content": "a"}]})", "messages[0].role",
                    "unsupported_value"},
        BodyRefusal{R"({"messages": [{"role": "user", "content": 1}]})", "messages[0].content",
                    "invalid_type"},
        BodyRefusal{R"({"messages": [{"role": "user", "content": ["a"]}]})",
                    "messages[0].content[0]", "invalid_type"},
        BodyRefusal{R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
                    "messages[0].content[0].type", "unsupported_value"},
        BodyRefusal{R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})",
                    "messages[0].content[0].text", "missing_required_parameter"},
        BodyRefusal{R"({"messages": [{"role": "user", "content": "a", "x": 1}]})", "messages[0].x",
                    "unknown_parameter"},
        BodyRefusal{R"({"messages": [{"role": "assistant", "content": "a", "tool_calls": [1]}]})",
                    "messages[0].tool_calls", "unsupported_parameter"}));

TEST(Call, AnotherModelIsNotFound) {
  const ApiError error = refused(Endpoint::kChat, chat(R"("model": "gpt-4")"));
  EXPECT_EQ(error.status, 404);
  EXPECT_EQ(error.param, "model");
  EXPECT_EQ(error.code, "model_not_found");
  EXPECT_EQ(refused(Endpoint::kChat, chat(R"("model": "")")).status, 404);
}

TEST(CompletionCall, BoundsTheAnswersOfOneRequest) {
  std::string prompts;
  for (int i = 0; i < kMaxSequencesPerCall; ++i) prompts += i == 0 ? "\"a\"" : ",\"a\"";
  EXPECT_EQ(parsed(Endpoint::kCompletions, "{\"prompt\": [" + prompts + "]}").prompts.size(),
            static_cast<size_t>(kMaxSequencesPerCall));
  EXPECT_EQ(refused(Endpoint::kCompletions, "{\"prompt\": [" + prompts + "], \"n\": 2}").param,
            "n");
  EXPECT_EQ(refused(Endpoint::kCompletions, "{\"prompt\": [" + prompts + ",\"a\"]}").param,
            "prompt");
}

}  // namespace
}  // namespace weft
