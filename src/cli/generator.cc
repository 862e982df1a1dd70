#include "cli/generator.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/queue.h"
#include "text/incremental_decoder.h"
#include "text/stop_matcher.h"

namespace weft {
namespace {

class QueueSink final : public EventSink {
 public:
  explicit QueueSink(const Clock& clock) : clock_(clock) {}
  void on_event(EngineEvent event) override { events.push({clock_.now(), std::move(event)}); }

  Queue<std::pair<TimePoint, EngineEvent>> events;

 private:
  const Clock& clock_;
};

Request make_request(std::vector<TokenId> prompt, const GenerationOptions& options,
                     const Tokenizer& tokenizer, int context) {
  Request request;
  const int left =
      context - static_cast<int>(std::min<size_t>(prompt.size(), static_cast<size_t>(context)));
  request.prompt = std::move(prompt);
  request.max_tokens = options.max_tokens > 0 ? options.max_tokens : std::max(1, left);
  request.sampling = options.sampling;
  request.seed = options.seed;
  if (!options.ignore_eos)
    request.end_ids.assign(tokenizer.end_ids().begin(), tokenizer.end_ids().end());
  return request;
}

}  // namespace

std::string describe(const GenerationResult& result) {
  std::string rate;
  if (result.output_tokens > 1 && result.decoding > Duration::zero())
    rate =
        fmt::format(" at {:.1f} tokens/s", (result.output_tokens - 1) / seconds(result.decoding));
  return fmt::format("{} prompt tokens, first token after {:.0f} ms; {} tokens{}; ended by {}",
                     result.prompt_tokens, seconds(result.to_first_token) * 1e3,
                     result.output_tokens, rate, finish_reason_name(result.reason));
}

Generator::Generator(const LoadedModel& model)
    : model_(model),
      metrics_("weft:", model.name),
      engine_(*model.executor, metrics_, clock_, EngineOptions{}) {}

Result<std::vector<TokenId>> Generator::chat_prompt(
    const std::vector<ChatMessage>& messages) const {
  if (!model_.chat_template) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("{} has no chat template; `weft run --raw` continues a text as it is",
                             model_.name)};
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  const std::string json =
      list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  WEFT_ASSIGN(const std::string text, model_.chat_template->render(json, true));
  return model_.tokenizer->encode_prompt(text, SpecialTokens::kParse);
}

Result<std::vector<TokenId>> Generator::raw_prompt(std::string_view text) const {
  return model_.tokenizer->encode_prompt(text, SpecialTokens::kParse);
}

Result<GenerationResult> Generator::generate(std::vector<TokenId> prompt,
                                             const GenerationOptions& options,
                                             const std::function<void(std::string_view)>& on_text) {
  const auto sink = std::make_shared<QueueSink>(clock_);
  IncrementalDecoder decoder(*model_.tokenizer);
  StopMatcher matcher(options.stop);
  GenerationResult result;
  const auto emit = [&](const std::string& piece) {
    if (piece.empty()) return;
    result.text += piece;
    on_text(piece);
  };

  const TimePoint submitted = clock_.now();
  TimePoint first{};
  WEFT_ASSIGN(const RequestId id, engine_.submit(make_request(std::move(prompt), options,
                                                              *model_.tokenizer, engine_.context()),
                                                 sink));
  running_ = id;
  while (true) {
    auto [time, event] = sink->events.pop();
    if (event.kind == EngineEvent::Kind::kToken) {
      if (matcher.stopped()) continue;  // sampled before the engine heard of the stop
      if (result.output_tokens++ == 0) first = time;
      result.decoding = time - first;
      emit(matcher.push(decoder.push(event.token)));
      if (matcher.stopped()) engine_.finish(id, FinishReason::kStop);
    } else if (event.kind == EngineEvent::Kind::kFinished) {
      running_ = kNone;
      if (event.reason == FinishReason::kError) return Error{ErrorKind::kIo, event.message};
      emit(matcher.push(decoder.finish()));
      emit(matcher.finish());
      result.reason = matcher.stopped() ? FinishReason::kStop : event.reason;
      result.prompt_tokens = event.prompt_tokens;
      result.to_first_token = first - submitted;
      return result;
    }
  }
}

bool Generator::stop() {
  const RequestId id = running_;
  if (id == kNone) return false;
  engine_.finish(id, FinishReason::kCancelled);
  return true;
}

void AnswerStopper::watch(Generator* generator) {
  MutexLock lock(mutex_);
  generator_ = generator;
}

void AnswerStopper::on_signal() {
  MutexLock lock(mutex_);
  if (generator_ == nullptr || !generator_->stop()) std::_Exit(kExitInterrupted);
}

}  // namespace weft
