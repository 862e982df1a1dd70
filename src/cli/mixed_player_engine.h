#pragma once
// Drives an engine in this process, with no HTTP between.

#include <map>
#include <memory>

#include "base/queue.h"
#include "cli/mixed_player.h"
#include "engine/engine.h"

namespace weft {

class EnginePlayer final : public Player {
 public:
  // Both must outlive the player.
  EnginePlayer(Engine& engine, const Clock& clock);

  TimePoint now() const override { return clock_.now(); }
  Status send(PlayerRequest request) override;
  void cancel(uint64_t id) override;
  std::optional<PlayerEvent> next(TimePoint deadline) override;

 private:
  class Sink;

  Engine& engine_;
  const Clock& clock_;
  std::shared_ptr<Queue<PlayerEvent>> events_ = std::make_shared<Queue<PlayerEvent>>();
  std::map<uint64_t, RequestId> running_;
};

}  // namespace weft
