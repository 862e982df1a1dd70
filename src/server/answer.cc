#include "server/answer.h"

#include <algorithm>
#include <utility>

#include "server/json.h"

namespace weft {

Answer::Answer(const PreparedCall& call, const Prompt& prompt, const Tokenizer& tokenizer)
    : call_(call),
      prompt_(prompt),
      prompt_decoder_(tokenizer, !prompt.from_text && call.call.skip_special_tokens, true),
      decoder_(tokenizer, call.call.skip_special_tokens),
      matcher_(call.call.stop, call.call.include_stop) {
  if (!call.call.echo) return;
  part_.text = prompt.echo;
  if (call.call.logprobs()) {
    on_prompt_logprob({});
  } else {
    decoded_ = count_code_points(prompt.echo);
  }
}

void Answer::on_event(const EngineEvent& event) {
  if (finished_) return;
  switch (event.kind) {
    case EngineEvent::Kind::kPromptLogprob:
      if (call_.call.echo && call_.call.logprobs()) on_prompt_logprob(event);
      break;
    case EngineEvent::Kind::kToken:
      on_token(event);
      break;
    case EngineEvent::Kind::kFinished:
      finish(event.reason);
      break;
  }
}

// The prompt's first token has no event; its entry is made at the start, from an empty one.
void Answer::on_prompt_logprob(const EngineEvent& event) {
  if (prompt_cursor_ >= prompt_.ids.size()) return;
  const bool first = prompt_cursor_ == 0;
  const TokenId token = prompt_.ids[prompt_cursor_];
  part_.logprobs.push_back({.token = token,
                            .logprob = first ? std::nullopt : std::optional(event.logprob),
                            .top = event.top,
                            .text_offset = decoded_});
  if (!first || prompt_.added_bos == 0) decoded_ += count_code_points(prompt_decoder_.push(token));
  ++prompt_cursor_;
  if (prompt_cursor_ == prompt_.ids.size()) decoded_ += count_code_points(prompt_decoder_.finish());
}

void Answer::on_token(const EngineEvent& event) {
  ++output_tokens_;
  part_.tokens.push_back(event.token);
  if (call_.call.logprobs()) {
    part_.logprobs.push_back({.token = event.token,
                              .logprob = event.logprob,
                              .top = event.top,
                              .text_offset = decoded_});
  }
  // The token that ends the answer is counted and reported; its text is not part of the answer
  // unless asked for.
  const bool ends = std::ranges::binary_search(call_.end_ids, event.token);
  if (!ends || call_.call.include_stop) show(decoder_.push(event.token));
  if (matcher_.stopped()) finish(FinishReason::kStop);
}

void Answer::show(std::string_view piece) {
  decoded_ += count_code_points(piece);
  // Stop strings hold from the first text after min_tokens on, as end tokens do.
  if (output_tokens_ <= call_.call.sampling.min_tokens) {
    part_.text += piece;
  } else {
    part_.text += matcher_.push(piece);
  }
}

void Answer::finish(FinishReason reason) {
  finished_ = true;
  if (!matcher_.stopped()) {
    const std::string rest = decoder_.finish();
    if (!rest.empty()) show(rest);
    part_.text += matcher_.finish();
    if (matcher_.stopped()) reason = FinishReason::kStop;
  }
  part_.finish = reason;
}

AnswerPart Answer::take() { return std::exchange(part_, {}); }

}  // namespace weft
