#include "engine/engine.h"

#include <utility>

#include "engine/engine_loop.h"

namespace weft {

Engine::Engine(Executor& executor, MetricsRegistry& metrics, const Clock& clock,
               const EngineOptions& options)
    : loop_(std::make_unique<Loop>(executor, metrics, clock, options)) {}

Engine::~Engine() = default;

Result<RequestId> Engine::submit(Request request, std::shared_ptr<EventSink> sink) {
  return loop_->submit(std::move(request), std::move(sink));
}

void Engine::finish(RequestId id, FinishReason reason) { loop_->finish(id, reason); }
void Engine::drain() { loop_->drain(); }
bool Engine::draining() const { return loop_->draining(); }
EngineStats Engine::stats() const { return loop_->stats(); }
int Engine::context() const { return loop_->context(); }

}  // namespace weft
