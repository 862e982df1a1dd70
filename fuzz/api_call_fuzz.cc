// Bytes as the body of a request, for both endpoints. What is accepted must be within the limits;
// what is refused has one line, a 4xx, and an envelope that is JSON.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "server/api_call.h"

namespace {

constexpr int kVocab = 512;

void check_call(const weft::ApiCall& call, const weft::ApiLimits& limits) {
  const weft::SamplingParams& s = call.sampling;
  WEFT_CHECK(call.n >= 1 && call.n <= limits.max_choices, "n {}", call.n);
  WEFT_CHECK(call.max_tokens.value_or(1) >= (call.echo ? 0 : 1), "max_tokens");
  WEFT_CHECK(s.temperature >= 0 && s.temperature <= 2, "temperature {}", s.temperature);
  WEFT_CHECK(s.top_p > 0 && s.top_p <= 1, "top_p {}", s.top_p);
  WEFT_CHECK(s.repetition_penalty > 0 && std::isfinite(s.repetition_penalty), "repetition penalty");
  WEFT_CHECK(s.top_k >= 0 && s.min_tokens >= 0, "top_k {}, min_tokens {}", s.top_k, s.min_tokens);
  WEFT_CHECK(s.top_logprobs >= -1 && s.top_logprobs <= weft::kMaxTopLogprobs, "logprobs");
  for (const auto& [id, bias] : s.logit_bias) {
    WEFT_CHECK(id >= 0 && id < kVocab && std::abs(bias) <= 100, "logit_bias {}: {}", id, bias);
  }
  for (const std::string& stop : call.stop) WEFT_CHECK(!stop.empty(), "an empty stop string");
  for (const weft::PromptInput& prompt : call.prompts) {
    const auto* ids = std::get_if<std::vector<weft::TokenId>>(&prompt);
    if (ids == nullptr) continue;
    for (const weft::TokenId id : *ids) WEFT_CHECK(id >= 0 && id < kVocab, "prompt id {}", id);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const weft::ApiLimits limits{.model_name = "m", .vocab_size = kVocab, .max_choices = 8};
  for (const auto endpoint : {weft::Endpoint::kChat, weft::Endpoint::kCompletions}) {
    const weft::ApiResult<weft::ApiCall> result = weft::parse_call(endpoint, body, limits);
    if (const auto* error = std::get_if<weft::ApiError>(&result)) {
      WEFT_CHECK(error->status == 400 || error->status == 404, "status {}", error->status);
      WEFT_CHECK(weft::Json::accept(weft::to_json(*error)), "{}", weft::to_json(*error));
    } else {
      check_call(std::get<weft::ApiCall>(result), limits);
    }
  }
  return 0;
}
