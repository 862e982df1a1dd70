#pragma once
// SimulatedPlayer: the engine on a simulated device, in the device's time: no thread, no waiting.

#include <deque>
#include <memory>

#include "cli/mixed_player.h"
#include "engine/engine.h"
#include "engine/engine_core.h"
#include "metrics/registry.h"

namespace weft {

class SimulatedPlayer final : public Player {
 public:
  // The executor moves the clock when it waits. Both must outlive the player.
  SimulatedPlayer(Executor& executor, FakeClock& clock, const EngineOptions& options);

  // The engine hears of what was sent during a quantum when that has ended; for who sends, time
  // stands where the last event or deadline was.
  TimePoint now() const override { return now_; }
  Status send(PlayerRequest request) override;
  void cancel(uint64_t id) override;
  std::optional<PlayerEvent> next(TimePoint deadline) override;

  EngineStats stats() const { return core_.stats(); }
  ~SimulatedPlayer() override;

 private:
  class Sink;

  FakeClock& clock_;
  TimePoint now_;
  MetricsRegistry metrics_;
  EngineCore core_;
  std::deque<PlayerEvent> events_;
};

}  // namespace weft
