#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "engine/fake_executor_test.h"
#include "engine/recording_sink_test.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr ExecutorLimits kLimits{
    .slots = 4, .passes = 2, .rows = 68, .output_rows = 68, .context = 300, .blocks = 12};

Request make_request(int prompt, int max_tokens, uint64_t seed) {
  Request request;
  std::mt19937_64 random(seed);
  for (int i = 0; i < prompt; ++i) request.prompt.push_back(static_cast<TokenId>(random() % 1000));
  request.max_tokens = max_tokens;
  request.seed = seed;
  return request;
}

struct Host {
  explicit Host(ExecutorLimits limits = kLimits) : device(limits) {}
  void start() {
    engine = std::make_unique<Engine>(device, metrics, clock, EngineOptions{.chunk_rows = 32});
  }
  std::vector<TokenId> tokens_of(const Request& request) {
    auto sink = std::make_shared<RecordingSink>();
    EXPECT_TRUE(engine->submit(request, sink).ok());
    sink->wait_finished();
    return sink->tokens();
  }

  FakeExecutor device;
  MetricsRegistry metrics{"weft:", "m"};
  SteadyClock clock;
  std::unique_ptr<Engine> engine;
};

// The numbers that stats() reports reach their last value shortly after the last event.
void wait_idle(const Engine& engine) {
  for (EngineStats s = engine.stats(); s.running + s.waiting > 0; s = engine.stats()) {
    std::this_thread::yield();
  }
}

TEST(Engine, ServesOneRequest) {
  Host host;
  host.start();
  auto sink = std::make_shared<RecordingSink>();
  const auto id = host.engine->submit(make_request(10, 5, 1), sink);
  ASSERT_TRUE(id.ok());
  sink->wait_finished();
  EXPECT_EQ(sink->end().request, *id);
  EXPECT_EQ(sink->tokens().size(), 5U);
  EXPECT_EQ(sink->end().reason, FinishReason::kLength);
}

TEST(Engine, ManyThreadsSubmitAndCancel) {
  constexpr int kThreads = 6;
  constexpr int kRequests = 20;
  const auto seed_of = [](int t, int i) {
    return uint64_t{1000} * static_cast<uint64_t>(t) + static_cast<uint64_t>(i);
  };
  std::vector<std::vector<std::vector<TokenId>>> expected(kThreads);
  {
    Host host;
    host.start();
    for (int t = 0; t < kThreads; ++t) {
      for (int i = 0; i < kRequests; ++i) {
        const auto seed = seed_of(t, i);
        expected[t].push_back(host.tokens_of(make_request(1 + i * 9, 10 + i, seed)));
      }
    }
  }
  Host host;
  host.start();
  std::atomic<bool> done{false};
  std::thread observer([&] {
    while (!done) {
      const EngineStats stats = host.engine->stats();
      EXPECT_LE(stats.running, kLimits.slots);
      EXPECT_LE(stats.blocks_used, stats.blocks_total);
      EXPECT_FALSE(host.metrics.expose().empty());
    }
  });
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::shared_ptr<RecordingSink>> sinks;
      std::vector<RequestId> ids;
      for (int i = 0; i < kRequests; ++i) {
        const auto seed = seed_of(t, i);
        sinks.push_back(std::make_shared<RecordingSink>());
        const auto id = host.engine->submit(make_request(1 + i * 9, 10 + i, seed), sinks.back());
        ASSERT_TRUE(id.ok());
        ids.push_back(*id);
        if (i % 5 == 4) host.engine->finish(ids[i - 2], FinishReason::kCancelled);
      }
      for (int i = 0; i < kRequests; ++i) {
        sinks[i]->wait_finished();
        auto tokens = expected[t][i];
        if (sinks[i]->end().reason == FinishReason::kCancelled) {
          tokens.resize(sinks[i]->tokens().size());
        }
        EXPECT_EQ(sinks[i]->tokens(), tokens);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  observer.join();
  wait_idle(*host.engine);
  EXPECT_EQ(host.engine->stats().blocks_used, 0);
}

TEST(Engine, CancelFromTheSinkTakesEffect) {
  struct Leaver : RecordingSink {
    void on_event(EngineEvent event) override {
      const bool leave = event.kind == EngineEvent::Kind::kToken && tokens().size() == 2;
      const RequestId id = event.request;
      RecordingSink::on_event(std::move(event));
      if (leave) engine->finish(id, FinishReason::kStop);
    }
    Engine* engine = nullptr;
  };
  Host host;
  host.start();
  auto sink = std::make_shared<Leaver>();
  sink->engine = host.engine.get();
  ASSERT_TRUE(host.engine->submit(make_request(10, 100, 1), sink).ok());
  sink->wait_finished();
  EXPECT_EQ(sink->end().reason, FinishReason::kStop);
  EXPECT_EQ(sink->tokens().size(), 3U);
}

TEST(Engine, RefusesWhatCannotRun) {
  Host host;
  host.start();
  auto sink = std::make_shared<RecordingSink>();
  const auto refused = host.engine->submit(make_request(300, 5, 1), sink);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("300 tokens"));
  EXPECT_FALSE(sink->finished());
}

TEST(Engine, DrainingFinishesWhatRuns) {
  Host host;
  host.start();
  auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(host.engine->submit(make_request(10, 50, 1), sink).ok());
  EXPECT_FALSE(host.engine->draining());
  host.engine->drain();
  EXPECT_TRUE(host.engine->draining());
  const auto refused = host.engine->submit(make_request(10, 5, 1), sink);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kExhausted);
  sink->wait_finished();
  EXPECT_EQ(sink->end().reason, FinishReason::kLength);
}

TEST(Engine, ItsEndCancelsWhatIsLeft) {
  Host host;
  host.start();
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint64_t i = 0; i < 10; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    ASSERT_TRUE(host.engine->submit(make_request(100, 180, i), sinks.back()).ok());
  }
  host.engine.reset();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->finished());
}

TEST(Engine, WithoutASeedEachRequestDrawsItsOwn) {
  Host host;
  host.start();
  Request request = make_request(10, 20, 1);
  const auto seeded = host.tokens_of(request);
  EXPECT_EQ(host.tokens_of(request), seeded);
  request.seed.reset();
  EXPECT_NE(host.tokens_of(request), host.tokens_of(request));
}

TEST(Engine, ReportsProgressOnlyWhileWorkWaits) {
  Host host;
  std::atomic<bool> held{true};
  std::atomic<bool> reached{false};
  host.device.before_completion = [&](const Quantum&) {
    reached = true;
    while (held) std::this_thread::yield();
  };
  host.start();
  EXPECT_EQ(host.engine->stats().seconds_since_progress, 0);
  auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(host.engine->submit(make_request(10, 5, 1), sink).ok());
  while (!reached) std::this_thread::yield();
  EXPECT_EQ(host.engine->stats().running, 1);
  // The device stands still and the number grows.
  const double before = host.engine->stats().seconds_since_progress;
  while (host.engine->stats().seconds_since_progress <= before) std::this_thread::yield();
  held = false;
  sink->wait_finished();
  wait_idle(*host.engine);
  const EngineStats stats = host.engine->stats();
  EXPECT_EQ(stats.seconds_since_progress, 0);
  EXPECT_EQ(stats.quanta, 5U);
  EXPECT_EQ(stats.blocks_used, 0);
  EXPECT_EQ(stats.blocks_total, kLimits.blocks);
}

}  // namespace
}  // namespace weft
