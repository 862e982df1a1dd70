// Random arrivals, lengths, modes, costs, cancels and pools: whatever happens around a request, it
// hears what it hears alone.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <vector>

#include "engine/engine_core.h"
#include "engine/fake_executor_test.h"
#include "engine/recording_sink_test.h"
#include "engine/request_check.h"

namespace weft {
namespace {

constexpr int kVocab = 50;  // small, so that end tokens come up

class World {
 public:
  explicit World(uint32_t seed) : random_(seed) {
    limits_.slots = between(1, 10);
    limits_.passes = between(2, 9);
    limits_.rows = limits_.slots + between(1, 100);
    limits_.output_rows = 1;
    limits_.blocks = between(2, 8);
    limits_.context = std::min(limits_.blocks * kBlockPositions, between(100, 400));
    options_.mode = static_cast<Mode>(seed % 6);
    split_ = between(0, 3) > 0;
    options_.chunk_rows = between(1, 120);
    options_.limits.itl_target = std::chrono::microseconds(between(200, 20000));
    CostModel::Costs costs;
    for (int i = 0; i < CostModel::kNodes; ++i) {
      costs.rows[static_cast<size_t>(i)] = between(1, 20) * 1e3 + 1e3 * CostModel::node_rows(i);
    }
    costs.key = costs.pair = between(0, 50);
    options_.costs = CostModel(costs);
  }

  void play(int requests) {
    FakeExecutor device(limits_, kVocab, split_);
    device.clock = &clock_;
    // What quanta take is not what was predicted.
    const int slow = between(1, 4);
    device.duration = [&](Group group, const Quantum& quantum) {
      Work work;
      for (const Pass* pass : quantum.passes) {
        for (const Segment& s : pass->segments) work.add_segment(s.first_position, s.rows);
      }
      work.layers = quantum.layer_end - quantum.layer_begin;
      return slow * options_.costs.predict(group, work, false) * between(50, 150) / 100;
    };
    MetricsRegistry metrics("weft:", "m");
    EngineCore core(device, metrics, clock_, options_);
    // In each quantum somebody advances by a row and a layer at least, of twice as many rows as
    // there are positions: preemption makes some run again.
    int64_t bound = 1000;
    int64_t steps = 0;
    const int arrival = between(0, 12);
    while (static_cast<int>(entries_.size()) < requests || !core.idle() || core.started()) {
      while (static_cast<int>(entries_.size()) < requests &&
             (core.idle() || between(0, arrival) == 0)) {
        bound += add(core);
      }
      core.start();
      core.deliver();
      if (!core.started()) continue;
      if (between(0, 60) == 0) cancel(core);
      core.wait();
      ++steps;
      if (between(0, 60) == 0) cancel(core);
      core.commit();
      core.blocks().check();
      ASSERT_LE(steps, bound) << "somebody starves";
      ASSERT_LE(core.running(), limits_.slots);
    }
    core.deliver();
    EXPECT_EQ(core.blocks().held(), 0);
    EXPECT_EQ(core.running() + core.waiting(), 0);
    for (const Entry& entry : entries_) compare(entry);
    total_steps += steps;
    preemptions += static_cast<int64_t>(metrics.counter("num_preemptions_total", "").Value());
    cached += static_cast<int64_t>(metrics.counter("prefix_cache_hits_total", "").Value());
  }

  static inline int64_t total_steps = 0;
  static inline int64_t preemptions = 0;
  static inline int64_t cached = 0;
  static inline int64_t compared_tokens = 0;
  static inline int64_t stopped = 0;

 private:
  struct Entry {
    Request request;
    std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>();
    RequestId id = 0;
    bool cancelled = false;
  };

  int between(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint32_t>(high - low + 1));
  }

  int64_t add(EngineCore& core) {
    Entry entry;
    Request& request = entry.request;
    const int longest = core.context();
    const int length = between(1, between(0, 3) == 0 ? longest - 1 : longest / 3);
    // Some begin like another one.
    if (!entries_.empty() && between(0, 2) == 0) {
      request.prompt = entries_[random_() % entries_.size()].request.prompt;
      request.prompt.resize(std::min(request.prompt.size(), static_cast<size_t>(length)));
    }
    while (static_cast<int>(request.prompt.size()) < length) {
      request.prompt.push_back(between(0, kVocab - 1));
    }
    request.max_tokens = between(1, 250);
    request.seed = random_();
    request.choice = static_cast<uint32_t>(between(0, 2));
    request.sampling.temperature = static_cast<float>(between(0, 1));
    if (between(0, 2) == 0) request.sampling.repetition_penalty = 1.2F;
    if (between(0, 3) == 0) request.sampling.top_logprobs = between(0, 4);
    if (between(0, 1) == 0) request.end_ids = {between(0, kVocab - 1)};
    if (between(0, 3) == 0) {
      request.sampling.forbidden = request.end_ids;
      request.sampling.min_tokens = between(0, 20);
    }
    if (between(0, 4) == 0) {
      request.prompt_logprobs = between(0, 3);
      if (between(0, 1) == 0) request.max_tokens = 0;
    }
    EXPECT_TRUE(check_request(request, kVocab, longest).ok());
    entry.id = entries_.size() + 1;
    core.add(std::make_unique<Sequence>(entry.id, request, *request.seed, longest, entry.sink,
                                        clock_.now()));
    entries_.push_back(std::move(entry));
    return int64_t{2} * FakeExecutor::kLayers *
           (length + std::min(entries_.back().request.max_tokens, longest - length));
  }

  void cancel(EngineCore& core) {
    Entry& entry = entries_[static_cast<size_t>(between(0, static_cast<int>(entries_.size()) - 1))];
    if (entry.sink->finished()) return;
    core.finish(entry.id, FinishReason::kCancelled);
    entry.cancelled = true;
  }

  // With nobody beside it, on a device with room for all of it.
  std::shared_ptr<RecordingSink> alone(const Request& request) {
    const ExecutorLimits roomy{.slots = 1,
                               .passes = 2,
                               .rows = 1001,
                               .output_rows = 1,
                               .context = limits_.context,
                               .blocks = 16};
    FakeExecutor device(roomy, kVocab);
    MetricsRegistry metrics("weft:", "m");
    EngineOptions options = options_;
    options.mode = Mode::kChunked;
    options.chunk_rows = 999;
    EngineCore core(device, metrics, clock_, options);
    auto sink = std::make_shared<RecordingSink>();
    core.add(
        std::make_unique<Sequence>(1, request, *request.seed, core.context(), sink, clock_.now()));
    do {
      core.start();
      core.deliver();
      if (!core.started()) break;
      core.wait();
      core.commit();
    } while (true);
    return sink;
  }

  void compare(const Entry& entry) {
    ASSERT_TRUE(entry.sink->finished());
    const auto solo = alone(entry.request);
    auto expected = solo->events();
    auto expected_prompt = solo->prompt();
    // One that was told to stop may have come to its end in the same quantum.
    if (entry.cancelled && entry.sink->end().reason == FinishReason::kCancelled) {
      ASSERT_LE(entry.sink->events().size(), expected.size());
      ASSERT_LE(entry.sink->prompt().size(), expected_prompt.size());
      expected.resize(entry.sink->events().size());
      expected_prompt.resize(entry.sink->prompt().size());
    } else {
      EXPECT_TRUE(same_event(entry.sink->end(), solo->end()));
    }
    EXPECT_TRUE(same_events(entry.sink->events(), expected)) << "request " << entry.id;
    EXPECT_TRUE(same_events(entry.sink->prompt(), expected_prompt)) << "request " << entry.id;
    compared_tokens += static_cast<int64_t>(expected.size());
    if (entry.sink->end().reason == FinishReason::kStop) ++stopped;
  }

  std::mt19937 random_;
  ExecutorLimits limits_;
  bool split_ = false;
  EngineOptions options_;
  FakeClock clock_;
  std::vector<Entry> entries_;
};

TEST(EngineProperty, EveryRequestHearsWhatItHearsAlone) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    World(seed).play(20);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  // The worlds are hard enough to mean something.
  EXPECT_GT(World::total_steps, 20000);
  EXPECT_GT(World::preemptions, 200);
  EXPECT_GT(World::cached, 1000);
  EXPECT_GT(World::compared_tokens, 20000);
  EXPECT_GT(World::stopped, 100);
  RecordProperty("steps", static_cast<int>(World::total_steps));
  RecordProperty("preemptions", static_cast<int>(World::preemptions));
}

}  // namespace
}  // namespace weft
