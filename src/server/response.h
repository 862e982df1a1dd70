#pragma once
// What a client gets: whole JSON answers, or server-sent events.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/answer.h"
#include "server/api_error.h"
#include "server/json.h"
#include "server/prepared_call.h"

namespace weft {

struct ResponseIdentity {
  std::string id;  // "chatcmpl-...", "cmpl-..."
  int64_t created = 0;
  std::string model;
};
// A random id and the current time.
ResponseIdentity new_identity(Endpoint endpoint, std::string model);

// One call's answers as bytes. The call and the tokenizer must outlive it.
class ResponseWriter {
 public:
  ResponseWriter(const PreparedCall& call, const Tokenizer& tokenizer, ResponseIdentity identity);

  // Prompt tokens that an answer found in the prefix cache; a prompt counts once, by its first one.
  void set_cached_tokens(int answer, int tokens) {
    cached_tokens_.at(static_cast<size_t>(answer)) = tokens;
  }

  // parts: [answers], each complete.
  std::string whole(std::span<const AnswerPart> parts, int output_tokens) const;

  // Events for one answer's news: none while there is nothing to show. output_tokens: of all
  // answers so far.
  std::string events(int answer, const AnswerPart& part, int output_tokens);
  // The end of a stream, with the usage where it was asked for.
  std::string last_events(int output_tokens) const;
  // The end of a stream that failed.
  static std::string error_events(const ApiError& error);

  const ResponseIdentity& identity() const { return identity_; }
  int prompt_tokens() const { return prompt_tokens_; }

 private:
  Json usage(int output_tokens) const;
  Json choice(int answer, const AnswerPart& part, bool whole) const;
  Json token_list(const AnswerPart& part) const;
  std::string event(std::string_view choice, int output_tokens) const;

  const PreparedCall& call_;
  const Tokenizer& tokenizer_;
  ResponseIdentity identity_;
  int prompt_tokens_ = 0;
  std::vector<int> cached_tokens_;  // [answers]
  std::string event_head_;          // of every event, up to its choices
  std::vector<bool> begun_;         // [answers]: its first event is out
};

}  // namespace weft
