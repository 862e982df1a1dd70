#include "engine/engine_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "engine/fake_executor_test.h"
#include "engine/recording_sink_test.h"
#include "engine/request_check.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr ExecutorLimits kRoomy{
    .slots = 8, .passes = 2, .rows = 264, .output_rows = 264, .context = 512, .blocks = 64};

Request make_request(int prompt, int max_tokens, uint64_t seed = 1) {
  Request request;
  std::mt19937_64 random(seed);
  for (int i = 0; i < prompt; ++i) request.prompt.push_back(static_cast<TokenId>(random() % 1000));
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.seed = seed;
  return request;
}

EngineOptions chunked(int rows) {
  EngineOptions options;
  options.mode = Mode::kChunked;
  options.chunk_rows = rows;
  options.limits.itl_target = std::chrono::milliseconds(50);
  return options;
}

// An EngineCore on its own fake device, stepped by the test.
class Bench {
 public:
  explicit Bench(ExecutorLimits limits = kRoomy, int chunk_rows = 256, int vocab = 1000)
      : device(limits, vocab),
        metrics("weft:", "m"),
        core(device, metrics, clock, chunked(chunk_rows)) {}

  std::shared_ptr<RecordingSink> add(Request request) {
    auto sink = std::make_shared<RecordingSink>();
    add(std::move(request), sink);
    return sink;
  }
  RequestId add(Request request, std::shared_ptr<EventSink> sink) {
    const Status status = check_request(request, device.vocab(), core.context());
    EXPECT_TRUE(status.ok()) << status.error().message;
    const uint64_t seed = request.seed.value_or(0);
    core.add(std::make_unique<Sequence>(++last_id, std::move(request), seed, core.context(),
                                        std::move(sink), clock.now()));
    return last_id;
  }
  bool start() {
    core.start();
    core.deliver();
    return core.started();
  }
  bool step() {
    if (!start()) return false;
    core.wait();
    core.commit();
    core.blocks().check();
    return true;
  }
  // Steps until nothing is left; fails if that takes more than `most`.
  int run(int most = 100000) {
    int steps = 0;
    while (steps < most && step()) ++steps;
    EXPECT_TRUE(core.idle()) << "not done after " << most << " steps";
    EXPECT_EQ(core.blocks().held(), 0);
    EXPECT_EQ(core.running(), 0);
    EXPECT_EQ(core.waiting(), 0);
    return steps;
  }

  FakeExecutor device;
  MetricsRegistry metrics;
  FakeClock clock;
  EngineCore core;
  RequestId last_id = 0;
};

std::shared_ptr<RecordingSink> alone(const Request& request, int vocab = 1000) {
  Bench bench(kRoomy, 256, vocab);
  auto sink = bench.add(request);
  bench.run();
  return sink;
}

TEST(EngineCore, GeneratesUntilMaxTokens) {
  Bench bench;
  auto sink = bench.add(make_request(10, 5));
  EXPECT_EQ(bench.run(), 5);
  EXPECT_EQ(sink->tokens().size(), 5U);
  const EngineEvent end = sink->end();
  EXPECT_EQ(end.reason, FinishReason::kLength);
  EXPECT_EQ(end.prompt_tokens, 10);
  EXPECT_EQ(end.output_tokens, 5);
  EXPECT_EQ(end.request, 1U);
  EXPECT_TRUE(sink->events()[0].top.empty());
  EXPECT_FALSE(bench.start());
}

TEST(EngineCore, ChunksChangeNoToken) {
  const Request request = make_request(200, 20);
  const auto expected = alone(request)->tokens();
  for (const int chunk : {1, 7, 63, 64, 65, 199, 200}) {
    Bench bench(kRoomy, chunk);
    auto sink = bench.add(request);
    EXPECT_EQ(bench.run(), (200 + chunk - 1) / chunk + 19);
    EXPECT_EQ(sink->tokens(), expected) << "chunks of " << chunk;
  }
}

TEST(EngineCore, NeighboursChangeNoToken) {
  Bench bench;
  std::vector<Request> requests;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint64_t i = 0; i < 12; ++i) {  // more than there are slots
    requests.push_back(make_request(5 + static_cast<int>(i) * 13, 30, i));
    sinks.push_back(bench.add(requests.back()));
  }
  ASSERT_TRUE(bench.step());
  EXPECT_LE(bench.core.running(), kRoomy.slots);
  EXPECT_GE(bench.core.waiting(), 4);
  bench.run();
  for (size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_EQ(sinks[i]->tokens(), alone(requests[i])->tokens());
  }
}

TEST(EngineCore, AnEndTokenIsDeliveredAndStops) {
  Request request = make_request(10, 50);
  const auto tokens = alone(request)->tokens();
  request.end_ids = {tokens[7]};
  const auto first = std::find(tokens.begin(), tokens.end(), tokens[7]);
  auto sink = alone(request);
  EXPECT_EQ(sink->tokens(), std::vector<TokenId>(tokens.begin(), first + 1));
  EXPECT_EQ(sink->end().reason, FinishReason::kStop);
}

TEST(EngineCore, MinTokensReachTheSampler) {
  Request request = make_request(10, 50);
  request.end_ids = {alone(request)->tokens()[0]};
  EXPECT_EQ(alone(request)->tokens().size(), 1U);
  request.sampling.forbidden = request.end_ids;
  request.sampling.min_tokens = 3;
  EXPECT_GE(alone(request)->tokens().size(), 3U);
}

TEST(EngineCore, AFullContextIsLength) {
  ExecutorLimits limits = kRoomy;
  limits.context = 40;
  Bench bench(limits);
  auto sink = bench.add(make_request(30, 1000));
  bench.run();
  EXPECT_EQ(sink->tokens().size(), 10U);
  EXPECT_EQ(sink->end().reason, FinishReason::kLength);
}

TEST(EngineCore, ThePoolBoundsTheContext) {
  ExecutorLimits limits = kRoomy;
  limits.blocks = 2;
  Bench bench(limits);
  EXPECT_EQ(bench.core.context(), 128);
  auto sink = bench.add(make_request(127, 1000));
  bench.run();
  EXPECT_EQ(sink->tokens().size(), 1U);
}

TEST(EngineCore, LogprobsAsAskedFor) {
  Request request = make_request(6, 3);
  request.sampling.top_logprobs = 2;
  auto sink = alone(request);
  for (const EngineEvent& event : sink->events()) {
    EXPECT_LE(event.logprob, 0);
    EXPECT_EQ(event.top.size(), 2U);
  }
  // Prompt logprobs with more alternatives leave the outputs' as they are.
  request.prompt_logprobs = 4;
  auto with_prompt = alone(request);
  ASSERT_EQ(with_prompt->prompt().size(), 5U);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(with_prompt->prompt()[i].token, request.prompt[i + 1]);
    EXPECT_EQ(with_prompt->prompt()[i].top.size(), 4U);
  }
  EXPECT_TRUE(same_events(with_prompt->events(), sink->events()));
}

TEST(EngineCore, EchoWithoutGeneration) {
  Request request = make_request(70, 0);
  request.prompt_logprobs = 0;
  for (const int chunk : {256, 10}) {
    Bench bench(kRoomy, chunk);
    auto sink = bench.add(request);
    // The last prompt token predicts nothing that was asked for, so it does not run.
    EXPECT_EQ(bench.run(), (69 + chunk - 1) / chunk);
    EXPECT_EQ(sink->prompt().size(), 69U);
    EXPECT_TRUE(sink->tokens().empty());
    EXPECT_EQ(sink->end().reason, FinishReason::kLength);
  }
  request.prompt.resize(1);
  Bench bench;
  auto sink = bench.add(request);
  EXPECT_EQ(bench.run(), 0);
  EXPECT_TRUE(sink->finished());
}

TEST(EngineCore, CancelInEveryStage) {
  ExecutorLimits limits = kRoomy;
  limits.slots = 2;
  Bench bench(limits, 16);
  auto decoding = bench.add(make_request(5, 100, 1));
  auto prefilling = bench.add(make_request(400, 100, 2));
  auto queued = bench.add(make_request(5, 100, 3));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(bench.step());
  bench.core.finish(3, FinishReason::kCancelled);
  bench.core.finish(2, FinishReason::kTimeout);
  bench.core.finish(77, FinishReason::kStop);
  bench.core.deliver();
  EXPECT_EQ(queued->end().reason, FinishReason::kCancelled);
  EXPECT_EQ(prefilling->end().reason, FinishReason::kTimeout);
  EXPECT_EQ(bench.core.blocks().held(), 1);
  const size_t heard = decoding->tokens().size();
  ASSERT_TRUE(bench.start());
  bench.core.wait();
  bench.core.finish(1, FinishReason::kStop);
  bench.core.finish(1, FinishReason::kStop);
  bench.core.commit();
  bench.core.deliver();
  EXPECT_EQ(decoding->tokens().size(), heard) << "a token sampled after the stop was counted";
  EXPECT_EQ(decoding->end().reason, FinishReason::kStop);
  EXPECT_EQ(bench.run(), 0);
}

TEST(EngineCore, WhatArrivesDuringAQuantumWaitsForTheNext) {
  Bench bench;
  auto first = bench.add(make_request(5, 3, 1));
  ASSERT_TRUE(bench.start());
  bench.core.wait();
  bench.core.finish(1, FinishReason::kCancelled);
  auto second = bench.add(make_request(5, 3, 2));
  bench.core.commit();
  bench.run();
  EXPECT_EQ(second->tokens(), alone(make_request(5, 3, 2))->tokens());
}

TEST(EngineCore, ANonFiniteRowEndsItsRequestAlone) {
  Bench bench;
  const Request sick = make_request(20, 30, 1);
  const Request healthy = make_request(25, 30, 2);
  bench.device.not_a_number = [&](const std::vector<TokenId>& tokens, int position) {
    return tokens[0] == sick.prompt[0] && position == 24;
  };
  auto sick_sink = bench.add(sick);
  auto healthy_sink = bench.add(healthy);
  bench.run();
  EXPECT_EQ(sick_sink->tokens().size(), 5U);
  EXPECT_EQ(sick_sink->end().reason, FinishReason::kError);
  EXPECT_THAT(sick_sink->end().message, HasSubstr("after token 24 is not a number"));
  EXPECT_EQ(healthy_sink->tokens(), alone(healthy)->tokens());
  EXPECT_EQ(healthy_sink->end().reason, FinishReason::kLength);
}

TEST(EngineCore, ANonFinitePromptRowEndsItsRequest) {
  Bench bench;
  Request request = make_request(20, 30, 1);
  request.prompt_logprobs = 1;
  bench.device.not_a_number = [](const std::vector<TokenId>&, int position) {
    return position == 7;
  };
  auto sink = bench.add(request);
  bench.run();
  EXPECT_EQ(sink->prompt().size(), 7U);
  EXPECT_EQ(sink->end().reason, FinishReason::kError);
}

TEST(EngineCore, ADeviceFaultEndsTheQuantumsRequestsAndTheEngineGoesOn) {
  ExecutorLimits limits = kRoomy;
  limits.slots = 2;
  Bench bench(limits);
  auto a = bench.add(make_request(20, 30, 1));
  auto b = bench.add(make_request(20, 30, 2));
  auto waiting = bench.add(make_request(20, 30, 3));
  bench.device.status = [](const Quantum& quantum) -> Status {
    if (quantum.id == 5) return Error{ErrorKind::kIo, "memory module 3 failed"};
    return {};
  };
  bench.run();
  for (const auto& sink : {a, b}) {
    EXPECT_EQ(sink->tokens().size(), 4U);
    EXPECT_EQ(sink->end().reason, FinishReason::kError);
    EXPECT_EQ(sink->end().message, "the device failed: memory module 3 failed");
  }
  EXPECT_EQ(waiting->tokens(), alone(make_request(20, 30, 3))->tokens());
}

// Throws at the n-th event, and at every one after it.
class ThrowingSink : public EventSink {
 public:
  explicit ThrowingSink(int good) : good_(good) {}
  void on_event(EngineEvent event) override {
    if (event.kind == EngineEvent::Kind::kFinished) ++finished;
    if (good_-- <= 0) throw std::runtime_error("the queue is gone");
  }
  int finished = 0;

 private:
  int good_;
};

TEST(EngineCore, AThrowingSinkEndsItsRequestAlone) {
  for (const int good : {0, 1, 5}) {
    Bench bench;
    auto throwing = std::make_shared<ThrowingSink>(good);
    Request request = make_request(20, 5, 1);
    request.prompt_logprobs = good == 0 ? 0 : -1;
    bench.add(request, throwing);
    auto healthy = bench.add(make_request(20, 30, 2));
    bench.run();
    EXPECT_EQ(throwing->finished, 1);
    EXPECT_EQ(healthy->tokens(), alone(make_request(20, 30, 2))->tokens());
    EXPECT_EQ(throwing.use_count(), 1) << "a finished request's sink is held";
  }
}

TEST(EngineCore, PreemptionChangesNoEvent) {
  ExecutorLimits limits = kRoomy;
  limits.blocks = 5;
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 4; ++i) {
    requests.push_back(make_request(40, 150, i));
    requests.back().sampling.repetition_penalty = 1.1F;
    requests.back().sampling.temperature = 1;
    requests.back().sampling.top_logprobs = 1;
    requests.back().prompt_logprobs = 1;
  }
  Bench bench(limits, 16);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  sinks.reserve(requests.size());
  for (const Request& request : requests) sinks.push_back(bench.add(request));
  bench.run();
  EXPECT_GT(bench.metrics.counter("num_preemptions_total", "").Value(), 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    auto solo = alone(requests[i]);
    ASSERT_EQ(sinks[i]->events().size(), 150U);
    EXPECT_TRUE(same_events(solo->events(), sinks[i]->events()));
    ASSERT_EQ(sinks[i]->prompt().size(), 39U);
    EXPECT_TRUE(same_events(solo->prompt(), sinks[i]->prompt()));
  }
}

TEST(EngineCore, TheEndCancelsWhatIsLeft) {
  std::shared_ptr<RecordingSink> running;
  std::shared_ptr<RecordingSink> queued;
  {
    ExecutorLimits limits = kRoomy;
    limits.slots = 1;
    Bench bench(limits);
    running = bench.add(make_request(20, 30, 1));
    queued = bench.add(make_request(20, 30, 2));
    ASSERT_TRUE(bench.step());
  }
  EXPECT_EQ(running->end().reason, FinishReason::kCancelled);
  EXPECT_EQ(queued->end().reason, FinishReason::kCancelled);
}

TEST(EngineCore, Metrics) {
  Bench bench;
  bench.device.before_completion = [&](const Quantum&) {
    bench.clock.advance(std::chrono::milliseconds(30));
  };
  bench.add(make_request(20, 4));
  bench.run();
  bench.add(make_request(20, 4));
  bench.core.finish(2, FinishReason::kCancelled);
  bench.run();
  const std::string text = bench.metrics.expose();
  for (const char* line :
       {"weft:time_to_first_token_seconds_count{model_name=\"m\"} 1\n",
        "weft:time_to_first_token_seconds_sum{model_name=\"m\"} 0.03\n",
        "weft:inter_token_latency_seconds_count{model_name=\"m\"} 3\n",
        "weft:inter_token_latency_seconds_bucket{model_name=\"m\",le=\"0.025\"} 0\n",
        "weft:inter_token_latency_seconds_bucket{model_name=\"m\",le=\"0.05\"} 3\n",
        "weft:request_time_per_output_token_seconds_sum{model_name=\"m\"} 0.03\n",
        "weft:e2e_request_latency_seconds_count{model_name=\"m\"} 1\n",
        "weft:e2e_request_latency_seconds_sum{model_name=\"m\"} 0.12\n",
        "weft:request_queue_time_seconds_count{model_name=\"m\"} 1\n",
        "weft:num_requests_running{model_name=\"m\"} 0\n",
        "weft:num_requests_waiting{model_name=\"m\"} 0\n",
        "weft:kv_cache_usage_perc{model_name=\"m\"} 0\n",
        "weft:num_preemptions_total{model_name=\"m\"} 0\n",
        "weft:prompt_tokens_total{model_name=\"m\"} 20\n",
        "weft:generation_tokens_total{model_name=\"m\"} 4\n",
        "weft:iteration_tokens_total_count{model_name=\"m\"} 4\n",
        "weft:iteration_tokens_total_sum{model_name=\"m\"} 23\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  for (const auto& [reason, count] :
       {std::pair{"length", 1}, {"abort", 1}, {"stop", 0}, {"timeout", 0}, {"error", 0}}) {
    auto& counter =
        bench.metrics.counter("request_success_total", "", {{"finished_reason", reason}});
    EXPECT_EQ(counter.Value(), count) << reason;
  }
}

}  // namespace
}  // namespace weft
