#pragma once
// From a checked call to engine requests: chat template, tokenization, and what depends on the
// model.

#include <string>
#include <vector>

#include "engine/request.h"
#include "server/api_call.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace weft {

struct Prompt {
  std::vector<TokenId> ids;
  std::string echo;       // echo: the text that stands before the answer
  bool from_text = true;  // ids come from text: special tokens are part of it, an added BOS is not
  int added_bos = 0;      // 1: ids[0] is a BOS that the text does not have
};

struct PreparedCall {
  ApiCall call;
  std::vector<Prompt> prompts;   // chat: one
  std::vector<TokenId> end_ids;  // ascending

  // Answers are numbered prompt by prompt: `n` of the first, `n` of the second, ...
  int answers() const { return static_cast<int>(prompts.size()) * call.n; }
  const Prompt& prompt_of(int answer) const {
    return prompts[static_cast<size_t>(answer / call.n)];
  }
};

// What prepare_call needs of a served model. The pointers outlive the call.
struct TextModel {
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;  // null: chat is refused
  int context = 0;
};

ApiResult<PreparedCall> prepare_call(ApiCall call, const TextModel& model);

// What the engine is asked for one answer.
Request to_request(const PreparedCall& prepared, int answer, int context);

}  // namespace weft
