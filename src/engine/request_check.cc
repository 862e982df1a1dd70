#include "engine/request_check.h"

#include <cmath>
#include <span>
#include <string_view>

namespace weft {
namespace {

template <class... Args>
Error invalid(fmt::format_string<Args...> format, Args&&... args) {
  return {ErrorKind::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)};
}

Status check_ids(std::string_view what, std::span<const TokenId> ids, int vocab) {
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocab) {
      return invalid("{}: token id {} is outside the vocabulary of {} tokens", what, id, vocab);
    }
  }
  return {};
}

// Written so that a NaN fails.
Status check_range(std::string_view what, float value, float low, float high) {
  if (value >= low && value <= high) return {};
  return invalid("{} is {}: it must be between {} and {}", what, value, low, high);
}

Status check_finite(std::string_view what, float value) {
  if (std::isfinite(value)) return {};
  return invalid("{} is {}: it must be a finite number", what, value);
}

Status check_positive(std::string_view what, float value) {
  if (std::isfinite(value) && value > 0) return {};
  return invalid("{} is {}: it must be a finite number above 0", what, value);
}

Status check_logprobs(std::string_view what, int n) {
  if (n >= -1 && n <= kMaxTopLogprobs) return {};
  return invalid("{} is {}: at most {} are reported", what, n, kMaxTopLogprobs);
}

Status check_sampling(const SamplingParams& sampling, int vocab) {
  WEFT_RETURN_IF_ERROR(check_finite("temperature", sampling.temperature));
  if (sampling.temperature < 0) {
    return invalid("temperature is {}: it must be 0 or more", sampling.temperature);
  }
  if (sampling.top_k < 0) return invalid("top_k is {}: it must be 0 or more", sampling.top_k);
  WEFT_RETURN_IF_ERROR(check_positive("top_p", sampling.top_p));
  WEFT_RETURN_IF_ERROR(check_range("top_p", sampling.top_p, 0, 1));
  WEFT_RETURN_IF_ERROR(check_range("min_p", sampling.min_p, 0, 1));
  WEFT_RETURN_IF_ERROR(check_positive("repetition_penalty", sampling.repetition_penalty));
  WEFT_RETURN_IF_ERROR(check_finite("presence_penalty", sampling.presence_penalty));
  WEFT_RETURN_IF_ERROR(check_finite("frequency_penalty", sampling.frequency_penalty));
  for (const auto& [id, bias] : sampling.logit_bias) {
    WEFT_RETURN_IF_ERROR(check_ids("logit_bias", {&id, 1}, vocab));
    WEFT_RETURN_IF_ERROR(check_finite("logit_bias", bias));
  }
  if (sampling.min_tokens < 0) {
    return invalid("min_tokens is {}: it must be 0 or more", sampling.min_tokens);
  }
  WEFT_RETURN_IF_ERROR(check_ids("forbidden tokens", sampling.forbidden, vocab));
  return check_logprobs("top_logprobs", sampling.top_logprobs);
}

}  // namespace

Status check_request(const Request& request, int vocab, int context) {
  if (request.prompt.empty())
    return invalid("the prompt is empty: it must have at least one token");
  if (request.max_tokens < 0) {
    return invalid("max_tokens is {}: it must be 0 or more", request.max_tokens);
  }
  if (request.max_tokens == 0 && request.prompt_logprobs < 0) {
    return invalid("max_tokens is 0: only a request for prompt logprobs may generate nothing");
  }
  // A prompt that fills the context leaves no position for an output.
  const auto longest = static_cast<size_t>(request.max_tokens == 0 ? context : context - 1);
  if (request.prompt.size() > longest) {
    return invalid("the prompt has {} tokens: at most {} fit into this model's context of {}",
                   request.prompt.size(), longest, context);
  }
  WEFT_RETURN_IF_ERROR(check_ids("prompt", request.prompt, vocab));
  WEFT_RETURN_IF_ERROR(check_ids("end tokens", request.end_ids, vocab));
  WEFT_RETURN_IF_ERROR(check_logprobs("prompt_logprobs", request.prompt_logprobs));
  return check_sampling(request.sampling, vocab);
}

}  // namespace weft
