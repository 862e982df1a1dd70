#include "cli/mixed_player_engine.h"

#include <utility>

namespace weft {

// On the engine thread.
class EnginePlayer::Sink final : public EventSink {
 public:
  Sink(uint64_t id, const Clock& clock, std::shared_ptr<Queue<PlayerEvent>> events)
      : id_(id), clock_(clock), events_(std::move(events)) {}

  void on_event(EngineEvent event) override {
    PlayerEvent out{.id = id_, .at = clock_.now(), .error = {}};
    if (event.kind == EngineEvent::Kind::kFinished) {
      out.kind = PlayerEvent::Kind::kFinished;
      if (event.reason == FinishReason::kError || event.reason == FinishReason::kTimeout)
        out.error = event.message;
    }
    events_->push(std::move(out));
  }

 private:
  const uint64_t id_;
  const Clock& clock_;
  const std::shared_ptr<Queue<PlayerEvent>> events_;
};

EnginePlayer::EnginePlayer(Engine& engine, const Clock& clock) : engine_(engine), clock_(clock) {}

Status EnginePlayer::send(PlayerRequest request) {
  Request out;
  out.prompt = std::move(request.prompt);
  out.max_tokens = request.output;
  out.sampling.temperature = 0;
  WEFT_ASSIGN(const RequestId id,
              engine_.submit(std::move(out), std::make_shared<Sink>(request.id, clock_, events_)));
  running_[request.id] = id;
  return {};
}

void EnginePlayer::cancel(uint64_t id) {
  const auto found = running_.find(id);
  if (found != running_.end()) engine_.finish(found->second, FinishReason::kCancelled);
}

std::optional<PlayerEvent> EnginePlayer::next(TimePoint deadline) {
  std::optional<PlayerEvent> event = events_->pop_until(deadline);
  if (event && event->kind == PlayerEvent::Kind::kFinished) running_.erase(event->id);
  return event;
}

}  // namespace weft
