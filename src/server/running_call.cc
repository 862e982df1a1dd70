#include "server/running_call.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

class AnswerSink final : public EventSink {
 public:
  AnswerSink(std::shared_ptr<EventInbox> inbox, int answer)
      : inbox_(std::move(inbox)), answer_(answer) {}
  void on_event(EngineEvent event) override { inbox_->push(answer_, std::move(event)); }

 private:
  std::shared_ptr<EventInbox> inbox_;
  int answer_;
};

ApiError submit_error(const Error& error) {
  if (error.kind == ErrorKind::kExhausted || error.kind == ErrorKind::kIo)
    return server_unavailable(error.message);
  return {.message = error.message, .code = "invalid_value"};
}

}  // namespace

std::optional<ApiError> end_error(const EngineEvent& event) {
  switch (event.reason) {
    case FinishReason::kStop:
    case FinishReason::kLength:
      return std::nullopt;
    case FinishReason::kCancelled:
      return server_unavailable("The server ended this request; try again");
    case FinishReason::kTimeout:
      return ApiError{.status = 504,
                      .message = event.message.empty() ? "The request took longer than its limit"
                                                       : event.message,
                      .code = std::string(deadline_name(event.deadline)),
                      .type = "timeout"};
    case FinishReason::kError:
      break;
  }
  return server_error(event.message.empty() ? "The model failed on this request" : event.message);
}

EventInbox::EventInbox(std::function<void()> wake) : wake_(std::move(wake)) {}

void EventInbox::push(int answer, EngineEvent event) {
  MutexLock lock(mutex_);
  if (!wake_ || overflowed_) return;
  const bool was_empty = items_.empty();
  pending_bytes_ += sizeof(Item) + event.top.size() * sizeof(TokenLogprob) + event.message.size();
  overflowed_ = pending_bytes_ > kMaxPendingBytes;
  items_.push_back({.answer = answer, .event = std::move(event)});
  if (was_empty || overflowed_) wake_();
}

std::vector<EventInbox::Item> EventInbox::take() {
  MutexLock lock(mutex_);
  pending_bytes_ = 0;
  return std::exchange(items_, {});
}

bool EventInbox::overflowed() const {
  MutexLock lock(mutex_);
  return overflowed_;
}

void EventInbox::close() {
  MutexLock lock(mutex_);
  wake_ = nullptr;
  items_.clear();
}

ApiResult<std::unique_ptr<RunningCall>> RunningCall::start(Engine& engine, PreparedCall prepared,
                                                           const Tokenizer& tokenizer,
                                                           ResponseIdentity identity,
                                                           std::function<void()> wake) {
  std::unique_ptr<RunningCall> call(new RunningCall(engine, std::move(prepared), tokenizer,
                                                    std::move(identity), std::move(wake)));
  if (auto error = call->submit_all()) return std::move(*error);
  return call;
}

RunningCall::RunningCall(Engine& engine, PreparedCall prepared, const Tokenizer& tokenizer,
                         ResponseIdentity identity, std::function<void()> wake)
    : engine_(engine),
      prepared_(std::move(prepared)),
      writer_(prepared_, tokenizer, std::move(identity)),
      inbox_(std::make_shared<EventInbox>(std::move(wake))) {
  const int count = prepared_.answers();
  answers_.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i)
    answers_.emplace_back(prepared_, prepared_.prompt_of(i), tokenizer);
}

std::optional<ApiError> RunningCall::submit_all() {
  for (int i = 0; i < prepared_.answers(); ++i) {
    auto id = engine_.submit(to_request(prepared_, i, engine_.context()),
                             std::make_shared<AnswerSink>(inbox_, i));
    if (!id.ok()) return submit_error(id.error());
    requests_.push_back(*id);
    engine_done_.push_back(false);
  }
  return std::nullopt;
}

RunningCall::~RunningCall() {
  inbox_->close();
  end_rest();
}

void RunningCall::end_rest() {
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (!engine_done_[i]) engine_.finish(requests_[i], FinishReason::kCancelled);
    engine_done_[i] = true;
  }
}

bool RunningCall::poll() {
  const std::vector<EventInbox::Item> items = inbox_->take();
  for (const EventInbox::Item& item : items) {
    if (error_) break;
    on_item(item);
  }
  return !items.empty();
}

void RunningCall::on_item(const EventInbox::Item& item) {
  const size_t i = static_cast<size_t>(item.answer);
  Answer& answer = answers_[i];
  writer_.set_cached_tokens(item.answer, item.event.cached_tokens);
  if (item.event.kind == EngineEvent::Kind::kFinished) {
    engine_done_[i] = true;
    if (!answer.finished()) {
      if (auto error = end_error(item.event)) return fail(std::move(*error));
    }
  }
  answer.on_event(item.event);
  if (answer.stopped_by_text() && !engine_done_[i]) {
    engine_.finish(requests_[i], FinishReason::kStop);
    engine_done_[i] = true;
  }
}

bool RunningCall::finished() const {
  return error_.has_value() ||
         std::ranges::all_of(answers_, [](const Answer& a) { return a.finished(); });
}

void RunningCall::fail(ApiError error) {
  if (finished()) return;
  error_ = std::move(error);
  end_rest();
}

int RunningCall::output_tokens() const {
  int sum = 0;
  for (const Answer& answer : answers_) sum += answer.output_tokens();
  return sum;
}

std::string RunningCall::take_events() {
  const int tokens = output_tokens();
  std::string out;
  for (size_t i = 0; i < answers_.size(); ++i) {
    out += writer_.events(static_cast<int>(i), answers_[i].take(), tokens);
  }
  if (error_) {
    out += ResponseWriter::error_events(*error_);
  } else if (finished()) {
    out += writer_.last_events(tokens);
  }
  return out;
}

std::string RunningCall::take_whole() {
  std::vector<AnswerPart> parts;
  parts.reserve(answers_.size());
  for (Answer& answer : answers_) parts.push_back(answer.take());
  return writer_.whole(parts, output_tokens());
}

}  // namespace weft
