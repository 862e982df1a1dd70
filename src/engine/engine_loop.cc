#include "engine/engine_loop.h"

#include <algorithm>
#include <random>
#include <utility>

#include "engine/request_check.h"

namespace weft {
namespace {

uint64_t draw_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32U) | device();
}

}  // namespace

Engine::Loop::Loop(Executor& executor, MetricsRegistry& metrics, const Clock& clock,
                   const EngineOptions& options)
    : executor_(executor),
      clock_(clock),
      vocab_(executor.vocab()),
      core_(executor, metrics, clock, options),
      context_(core_.context()) {
  publish();
  thread_ = std::thread([this] { run(); });
}

Engine::Loop::~Loop() {
  inbox_.push(Stop{});
  thread_.join();
}

Result<RequestId> Engine::Loop::submit(Request request, std::shared_ptr<EventSink> sink) {
  WEFT_CHECK(sink != nullptr, "a request without a sink");
  if (draining()) {
    return Error{ErrorKind::kExhausted, "the server is shutting down and takes no more requests"};
  }
  WEFT_RETURN_IF_ERROR(check_request(request, vocab_, context_));
  const RequestId id = next_id_.fetch_add(1);
  const uint64_t seed = request.seed ? *request.seed : draw_seed();
  inbox_.push(Submit{std::make_unique<Sequence>(id, std::move(request), seed, context_,
                                                std::move(sink), clock_.now())});
  return id;
}

EngineStats Engine::Loop::stats() const {
  const TimePoint now = clock_.now();
  MutexLock lock(mutex_);
  EngineStats stats = stats_;
  if (busy_since_) {
    const TimePoint moved = std::max(*busy_since_, executor_.last_layer_end());
    stats.seconds_since_progress = std::max(0.0, seconds(now - moved));
  }
  return stats;
}

void Engine::Loop::run() {
  for (;;) {
    read_inbox();
    if (stopping_) break;
    core_.start();
    core_.deliver();
    publish();
    if (core_.started()) {
      core_.wait();
      read_inbox();  // who was cancelled during the quantum hears nothing of it
      core_.commit();
    } else if (core_.idle()) {
      handle(inbox_.pop());  // sleeps here, and only here, while there is nothing to do
    }
  }
  while (core_.started()) {
    core_.wait();
    core_.commit();
  }
  core_.cancel_all();
  publish();
}

void Engine::Loop::read_inbox() {
  inbox_.drain(messages_);
  for (Message& message : messages_) handle(std::move(message));
  messages_.clear();
}

void Engine::Loop::handle(Message message) {
  if (auto* submit = std::get_if<Submit>(&message)) {
    core_.add(std::move(submit->sequence));
  } else if (auto* finish = std::get_if<Finish>(&message)) {
    core_.finish(finish->id, finish->reason);
  } else {
    stopping_ = true;
  }
}

void Engine::Loop::publish() {
  const EngineStats stats = core_.stats();
  const TimePoint now = clock_.now();
  MutexLock lock(mutex_);
  stats_ = stats;
  if (core_.idle()) {
    busy_since_.reset();
  } else if (!busy_since_) {
    busy_since_ = now;
  }
}

}  // namespace weft
