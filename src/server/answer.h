#pragma once
// One answer in the making: token events become text, up to a stop string, with what was asked for
// about each token.

#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/prepared_call.h"
#include "text/incremental_decoder.h"
#include "text/stop_matcher.h"

namespace weft {

struct TokenInfo {
  TokenId token = -1;
  std::optional<float> logprob;  // none: a prompt's first token
  std::vector<TokenLogprob> top;
  size_t text_offset = 0;  // code points before it, the echoed prompt's too
};

// What came since the last look.
struct AnswerPart {
  std::string text;
  std::vector<TokenId> tokens;         // outputs
  std::vector<TokenInfo> logprobs;     // if asked for; with echo the prompt's too
  std::optional<FinishReason> finish;  // the answer is complete

  bool empty() const { return text.empty() && tokens.empty() && logprobs.empty() && !finish; }
};

// Not thread-safe. The call and the tokenizer must outlive it.
class Answer {
 public:
  Answer(const PreparedCall& call, const Prompt& prompt, const Tokenizer& tokenizer);

  // After finished() further events are ignored.
  void on_event(const EngineEvent& event);

  bool finished() const { return finished_; }
  // The end was a stop string: the engine does not know it yet.
  bool stopped_by_text() const { return matcher_.stopped(); }
  int output_tokens() const { return output_tokens_; }

  // Everything since the last call.
  AnswerPart take();

 private:
  void on_prompt_logprob(const EngineEvent& event);
  void on_token(const EngineEvent& event);
  void finish(FinishReason reason);
  void show(std::string_view piece);

  const PreparedCall& call_;
  const Prompt& prompt_;
  IncrementalDecoder prompt_decoder_;
  IncrementalDecoder decoder_;
  StopMatcher matcher_;
  size_t prompt_cursor_ = 0;
  size_t decoded_ = 0;  // code points that the decoders gave
  int output_tokens_ = 0;
  bool finished_ = false;
  AnswerPart part_;
};

}  // namespace weft
