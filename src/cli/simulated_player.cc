#include "cli/simulated_player.h"

#include <algorithm>
#include <utility>

#include "engine/sequence.h"

namespace weft {

class SimulatedPlayer::Sink final : public EventSink {
 public:
  Sink(uint64_t id, const Clock& clock, std::deque<PlayerEvent>& events)
      : id_(id), clock_(clock), events_(events) {}

  void on_event(EngineEvent event) override {
    PlayerEvent out{.id = id_, .at = clock_.now(), .error = {}};
    if (event.kind == EngineEvent::Kind::kFinished) {
      out.kind = PlayerEvent::Kind::kFinished;
      if (event.reason == FinishReason::kError || event.reason == FinishReason::kTimeout)
        out.error = event.message;
    }
    events_.push_back(std::move(out));
  }

 private:
  const uint64_t id_;
  const Clock& clock_;
  std::deque<PlayerEvent>& events_;
};

SimulatedPlayer::SimulatedPlayer(Executor& executor, FakeClock& clock, const EngineOptions& options)
    : clock_(clock),
      now_(clock.now()),
      metrics_("weft:", "simulated"),
      core_(executor, metrics_, clock, options) {}

SimulatedPlayer::~SimulatedPlayer() {
  while (core_.started()) {
    core_.wait();
    core_.commit();
  }
}

Status SimulatedPlayer::send(PlayerRequest request) {
  Request out;
  out.prompt = std::move(request.prompt);
  out.max_tokens = request.output;
  out.sampling.temperature = 0;
  core_.add(std::make_unique<Sequence>(request.id, std::move(out), 1, core_.context(),
                                       std::make_shared<Sink>(request.id, clock_, events_), now_));
  return {};
}

void SimulatedPlayer::cancel(uint64_t id) { core_.finish(id, FinishReason::kCancelled); }

std::optional<PlayerEvent> SimulatedPlayer::next(TimePoint deadline) {
  for (;;) {
    if (!events_.empty() && events_.front().at <= deadline) {
      PlayerEvent event = std::move(events_.front());
      events_.pop_front();
      now_ = std::max(now_, event.at);
      return event;
    }
    if (clock_.now() >= deadline) {
      now_ = std::max(now_, deadline);
      return std::nullopt;
    }
    core_.start();
    core_.deliver();
    if (core_.started()) {
      core_.wait();
      core_.commit();
    } else if (events_.empty()) {
      if (deadline == TimePoint::max()) return std::nullopt;
      clock_.advance(deadline - clock_.now());
    }
  }
}

}  // namespace weft
