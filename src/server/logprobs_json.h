#pragma once
// Logprobs in the two forms of the API.

#include <span>

#include "server/answer.h"
#include "server/json.h"
#include "text/tokenizer.h"

namespace weft {

// {"content": [{token, logprob, bytes, top_logprobs: [{token, logprob, bytes}]}], "refusal": null}
Json chat_logprobs(std::span<const TokenInfo> tokens, const Tokenizer& tokenizer);

// {"text_offset": [], "token_logprobs": [], "tokens": [], "top_logprobs": [{token: logprob}]}. The
// likeliest `top` of each token and the token itself; the prompt's first token has null in both.
Json completion_logprobs(std::span<const TokenInfo> tokens, const Tokenizer& tokenizer);

}  // namespace weft
