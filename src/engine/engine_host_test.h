#pragma once
// An engine on an executor with a tiny model, for tests that compare requests among others with
// each alone.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/recording_sink_test.h"

namespace weft {

using Sinks = std::vector<std::shared_ptr<RecordingSink>>;

class EngineHost {
 public:
  // Passes are left between layers: as predicted, one takes about a quantum, however fast this
  // machine is.
  EngineHost(std::unique_ptr<Executor> executor, Mode mode, int chunk_rows)
      : executor_(std::move(executor)) {
    EngineOptions options;
    options.mode = mode;
    options.chunk_rows = chunk_rows;
    options.limits.itl_target = std::chrono::milliseconds(4);
    CostModel::Costs costs;
    costs.rows.fill(4e5);
    options.costs = CostModel(costs);
    engine_ = std::make_unique<Engine>(*executor_, metrics_, clock_, options);
  }

  std::shared_ptr<RecordingSink> submit(const Request& request) {
    auto sink = std::make_shared<RecordingSink>();
    const auto id = engine_->submit(request, sink);
    EXPECT_TRUE(id.ok()) << id.error().message;
    return sink;
  }
  double preemptions() { return metrics_.counter("num_preemptions_total", "").Value(); }

  // Each alone, one after the other.
  Sinks play_alone(const std::vector<Request>& requests) {
    Sinks sinks;
    for (const Request& request : requests) {
      sinks.push_back(submit(request));
      sinks.back()->wait_finished();
    }
    return sinks;
  }
  Sinks play_together(const std::vector<Request>& requests) {
    Sinks sinks;
    for (const Request& request : requests) sinks.push_back(submit(request));
    for (const auto& sink : sinks) sink->wait_finished();
    return sinks;
  }

 private:
  std::unique_ptr<Executor> executor_;
  MetricsRegistry metrics_{"weft:", "tiny"};
  SteadyClock clock_;
  std::unique_ptr<Engine> engine_;
};

// To the last bit: tokens, logprobs, alternatives, and how it ended.
inline void expect_same(const Sinks& together, const Sinks& alone) {
  ASSERT_EQ(together.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_TRUE(same_events(together[i]->events(), alone[i]->events())) << "request " << i;
    EXPECT_TRUE(same_events(together[i]->prompt(), alone[i]->prompt())) << "request " << i;
    EXPECT_TRUE(same_event(together[i]->end(), alone[i]->end())) << "request " << i;
  }
}

}  // namespace weft
