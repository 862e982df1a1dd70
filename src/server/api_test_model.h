#pragma once
// For tests: a small tokenizer, calls from JSON, and events by hand.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/request.h"
#include "server/prepared_call.h"
#include "text/tokenizer.h"

namespace weft {

// Byte-level BPE of 512 tokens; 0 to 2 are <|endoftext|>, <|im_start|>, <|im_end|>.
inline const Tokenizer& test_tokenizer() {
  static const Tokenizer tokenizer = [] {
    std::ifstream file(WEFT_TEST_DATA "/tiny/llama/tokenizer.json");
    std::stringstream json;
    json << file.rdbuf();
    return Tokenizer::from_json(json.str()).value();
  }();
  return tokenizer;
}

inline std::vector<TokenId> ids_of(std::string_view text) {
  return test_tokenizer().encode(text, SpecialTokens::kParse).value();
}

inline constexpr int kTestContext = 64;

inline ApiResult<PreparedCall> try_prepare(Endpoint endpoint, const std::string& body,
                                           const ChatTemplate* chat_template = nullptr) {
  const ApiLimits limits{.model_name = "tiny", .vocab_size = 512, .max_choices = 4};
  auto call = parse_call(endpoint, body, limits);
  if (const auto* error = std::get_if<ApiError>(&call)) return *error;
  return prepare_call(
      std::get<ApiCall>(std::move(call)),
      {.tokenizer = &test_tokenizer(), .chat_template = chat_template, .context = kTestContext});
}

inline PreparedCall prepared(Endpoint endpoint, const std::string& body,
                             const ChatTemplate* chat_template = nullptr) {
  auto result = try_prepare(endpoint, body, chat_template);
  if (const auto* error = std::get_if<ApiError>(&result)) {
    ADD_FAILURE() << body << ": " << error->message;
    return {};
  }
  return std::get<PreparedCall>(std::move(result));
}

inline EngineEvent token_event(TokenId token, float logprob = 0,
                               std::vector<TokenLogprob> top = {}) {
  EngineEvent event;
  event.token = token;
  event.logprob = logprob;
  event.top = std::move(top);
  return event;
}

inline EngineEvent prompt_event(TokenId token, float logprob, std::vector<TokenLogprob> top = {}) {
  EngineEvent event = token_event(token, logprob, std::move(top));
  event.kind = EngineEvent::Kind::kPromptLogprob;
  return event;
}

inline EngineEvent finished_event(FinishReason reason) {
  EngineEvent event;
  event.kind = EngineEvent::Kind::kFinished;
  event.reason = reason;
  return event;
}

}  // namespace weft
