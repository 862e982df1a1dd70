#pragma once
// The schema of /v1/chat/completions and /v1/completions: a JSON body becomes an ApiCall, or a 400
// that names the parameter. A parameter that would change the answer and is not implemented is
// refused, never ignored.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "server/api_error.h"
#include "server/json.h"

namespace weft {

enum class Endpoint : uint8_t { kChat, kCompletions };

// What a call is held against.
struct ApiLimits {
  std::string model_name;
  int vocab_size = 0;
  int max_choices = 1;  // of one prompt
};
inline constexpr int kMaxSequencesPerCall = 2048;  // prompts times n
inline constexpr int kMaxStopStrings = 16;

using PromptInput = std::variant<std::string, std::vector<TokenId>>;

// One client request, checked, before templates and tokenization.
struct ApiCall {
  Endpoint endpoint = Endpoint::kChat;

  // Chat: for ChatTemplate::render.
  std::string messages_json;
  std::string template_kwargs_json = "{}";
  bool add_generation_prompt = true;
  // Completions.
  std::vector<PromptInput> prompts;
  bool echo = false;

  int n = 1;  // choices of each prompt
  std::optional<int> max_tokens;
  SamplingParams sampling;  // all but `forbidden`
  std::optional<uint64_t> seed;

  std::vector<std::string> stop;
  bool include_stop = false;  // the stop string is part of the answer
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  bool skip_special_tokens = true;

  bool stream = false;
  bool include_usage = false;     // a last chunk with the usage
  bool continuous_usage = false;  // every chunk has the usage so far
  bool return_token_ids = false;

  RequestLimits limits;

  bool logprobs() const { return sampling.top_logprobs >= 0; }
};

ApiResult<ApiCall> parse_call(Endpoint endpoint, std::string_view body, const ApiLimits& limits);

// The messages as the template sees them: content as one string. Fails at what is no text.
class JsonFields;
Json parse_messages(JsonFields& fields, std::optional<ApiError>& error);

}  // namespace weft
