#pragma once
// One request after another for `run` and `chat`: prompt in, text out as it comes.

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "cli/command_line.h"
#include "cli/load_model.h"
#include "engine/engine.h"

namespace weft {

struct ChatMessage {
  std::string role;  // system, user, assistant
  std::string content;
};

struct GenerationResult {
  std::string text;
  FinishReason reason = FinishReason::kStop;
  int prompt_tokens = 0;
  int output_tokens = 0;
  Duration to_first_token{};
  Duration decoding{};  // from the first token to the last
};

// "34 prompt tokens, first token after 41 ms; 120 tokens at 88.1 tokens/s; ended by stop"
std::string describe(const GenerationResult& result);

// One thread uses it, but for stop(). The model must outlive it.
class Generator {
 public:
  explicit Generator(const LoadedModel& model);

  // The ids of a conversation that the model is to answer; kUnsupported if the model has no chat
  // template.
  Result<std::vector<TokenId>> chat_prompt(const std::vector<ChatMessage>& messages) const;
  Result<std::vector<TokenId>> raw_prompt(std::string_view text) const;

  // Calls on_text with each piece of the answer; returns when it has ended.
  Result<GenerationResult> generate(std::vector<TokenId> prompt, const GenerationOptions& options,
                                    const std::function<void(std::string_view)>& on_text);
  // Any thread: ends the answer that runs. False if none does.
  bool stop();

 private:
  const LoadedModel& model_;
  SteadyClock clock_;
  MetricsRegistry metrics_;
  Engine engine_;
  std::atomic<RequestId> running_{kNone};
  static constexpr RequestId kNone = ~RequestId{0};
};

// What Ctrl-C does while a generator is watched: ends its answer, or the process where none runs.
// Thread-safe.
class AnswerStopper {
 public:
  void watch(Generator* generator) EXCLUDES(mutex_);  // nullptr: none any more
  void on_signal() EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  Generator* generator_ GUARDED_BY(mutex_) = nullptr;
};

}  // namespace weft
