#pragma once
// How a token is drawn from logits. Order, as in vLLM: penalties, logit bias, forbidden ids, then
// (temperature 0: the largest, lowest id on a tie) temperature, min-p, top-k, top-p, and the
// inverse CDF over ids in ascending order.

#include <cstdint>
#include <utility>
#include <vector>

#include "base/types.h"

namespace weft {

struct SamplingParams {
  float temperature = 1.0F;         // 0: greedy
  int top_k = 0;                    // 0: all
  float top_p = 1.0F;               // (0, 1]
  float min_p = 0.0F;               // [0, 1]: at least this share of the top probability
  float repetition_penalty = 1.0F;  // > 0, over prompt and output
  float presence_penalty = 0.0F;    // over output
  float frequency_penalty = 0.0F;   // over output
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> forbidden;  // never drawn: the end ids while fewer than min_tokens are out
  int min_tokens = 0;              // forbidden holds for the first min_tokens outputs
  int top_logprobs =
      -1;  // -1: none; 0: the drawn token's; n: and the n likeliest (at most kMaxTopLogprobs)
};
inline constexpr int kMaxTopLogprobs = 20;

// What a device reports of one output row. Logprobs are of the model's own distribution, before any
// parameter above.
struct TokenLogprob {
  TokenId token = -1;
  float logprob = 0;
};

}  // namespace weft
