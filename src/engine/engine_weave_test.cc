// What a user of the weave is promised, in the time of a device that takes what was predicted, or
// somewhat more or less.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "engine/engine_core.h"
#include "engine/fake_executor_test.h"
#include "engine/recording_sink_test.h"

namespace weft {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr Duration kTarget = milliseconds(60);

// Of about the size of a small model on two cores: a step of a stream takes 4 ms, a prompt of 1,000
// tokens 400 ms.
CostModel small_model() {
  CostModel::Costs costs;
  for (int i = 0; i < CostModel::kNodes; ++i) {
    costs.rows[static_cast<size_t>(i)] = 0.8e6 + 0.09e6 * CostModel::node_rows(i);
  }
  costs.pair = 20;
  costs.key = 50;
  costs.head = 0.4e6;
  return CostModel(costs);
}

// Hears tokens, and when.
class TimedSink : public EventSink {
 public:
  explicit TimedSink(const Clock& clock) : clock_(clock) {}
  void on_event(EngineEvent event) override {
    if (event.kind == EngineEvent::Kind::kToken) {
      times.push_back(clock_.now());
      tokens.push_back(event.token);
    }
    if (event.kind == EngineEvent::Kind::kFinished) end = event;
  }
  std::vector<TimePoint> times;
  std::vector<TokenId> tokens;
  std::optional<EngineEvent> end;

 private:
  const Clock& clock_;
};

class World {
 public:
  explicit World(Mode mode, ExecutorLimits limits = roomy(), bool split = false)
      : device(limits, 1000, split),
        metrics("weft:", "m"),
        core(device, metrics, clock, options(mode)) {
    clock.advance(milliseconds(1000));
    device.clock = &clock;
    device.duration = [this](Group group, const Quantum& quantum) {
      Work work;
      for (const Pass* pass : quantum.passes) {
        for (const Segment& s : pass->segments) {
          work.add_segment(s.first_position, s.rows);
          work.head_rows += s.outputs == Outputs::kLast ? 1 : 0;
        }
      }
      work.layers = quantum.layer_end - quantum.layer_begin;
      const Duration whole =
          model_.predict(group, work, quantum.layer_end == FakeExecutor::kLayers);
      return whole * (100 + static_cast<int>(random_() % (2 * noise_percent + 1)) - noise_percent) /
             100;
    };
  }

  static ExecutorLimits roomy() {
    return {
        .slots = 16, .passes = 9, .rows = 1040, .output_rows = 16, .context = 4096, .blocks = 400};
  }
  static EngineOptions options(Mode mode) {
    EngineOptions options;
    options.mode = mode;
    options.limits.itl_target = kTarget;
    options.costs = small_model();
    return options;
  }

  std::shared_ptr<TimedSink> add(int prompt, int outputs, Deadlines deadlines = {}) {
    Request request;
    std::mt19937 tokens(static_cast<uint32_t>(++last_id));
    for (int i = 0; i < prompt; ++i)
      request.prompt.push_back(static_cast<TokenId>(tokens() % 1000));
    request.max_tokens = outputs;
    request.sampling.temperature = 0;
    request.limits.deadlines = deadlines;
    auto sink = std::make_shared<TimedSink>(clock);
    core.add(std::make_unique<Sequence>(last_id, std::move(request), 1, core.context(), sink,
                                        clock.now()));
    return sink;
  }
  bool step() {
    core.start();
    core.deliver();
    if (!core.started()) return false;
    core.wait();
    core.commit();
    core.blocks().check();
    return true;
  }
  void run_for(Duration time) {
    const TimePoint end = clock.now() + time;
    while (clock.now() < end && step()) {
    }
  }
  void run() {
    while (step()) {
    }
  }

  int noise_percent = 5;
  FakeClock clock;
  FakeExecutor device;
  MetricsRegistry metrics;
  EngineCore core;
  RequestId last_id = 0;

 private:
  const CostModel model_ = small_model();
  std::mt19937 random_{7};
};

Duration largest_gap(const TimedSink& sink, TimePoint from) {
  Duration largest{};
  for (size_t i = 1; i < sink.times.size(); ++i) {
    if (sink.times[i] > from) largest = std::max(largest, sink.times[i] - sink.times[i - 1]);
  }
  return largest;
}

TEST(Weave, GapsStayWithinTheTargetWhateverThePromptsLength) {
  for (const int length : {500, 1000, 2000, 4000}) {
    World world(Mode::kFused);
    std::vector<std::shared_ptr<TimedSink>> streams;
    for (int i = 0; i < 4; ++i) streams.push_back(world.add(24, 2000));
    world.run_for(milliseconds(200));
    const TimePoint sent = world.clock.now();
    auto prompt = world.add(length, 2);
    while (prompt->times.empty()) ASSERT_TRUE(world.step());
    for (const auto& stream : streams) EXPECT_LE(largest_gap(*stream, sent), kTarget) << length;
    // The prompt has what the streams leave of each window.
    World alone(Mode::kSerial);
    auto undisturbed = alone.add(length, 2);
    const TimePoint start = alone.clock.now();
    while (undisturbed->times.empty()) ASSERT_TRUE(alone.step());
    const double serial = seconds(undisturbed->times[0] - start);
    EXPECT_LE(seconds(prompt->times[0] - sent), 1.15 * serial * 60 / (60 - 5)) << length;
    world.core.cancel_all();
  }
}

TEST(Weave, SerialStopsStreamsForAWholePrompt) {
  World world(Mode::kSerial);
  auto stream = world.add(24, 100);
  world.run_for(milliseconds(50));
  const TimePoint sent = world.clock.now();
  world.add(4000, 2);
  world.run();
  EXPECT_GT(largest_gap(*stream, sent), 10 * kTarget);
}

TEST(Weave, AloneAPromptTakesTheQuantaOfSerial) {
  std::map<Mode, uint64_t> quanta;
  for (const Mode mode : {Mode::kSerial, Mode::kFused, Mode::kSplit}) {
    World world(mode, World::roomy(), true);
    world.noise_percent = 0;
    world.add(600, 1);
    world.run();
    quanta[mode] = world.device.quanta();
  }
  EXPECT_EQ(quanta[Mode::kFused], quanta[Mode::kSerial]);
  EXPECT_EQ(quanta[Mode::kSplit], quanta[Mode::kSerial]);
}

TEST(Weave, AShortPromptOvertakesALongOne) {
  std::map<Mode, double> ttft;
  for (const Mode mode : {Mode::kSerial, Mode::kFused}) {
    World world(mode);
    world.add(3000, 2);
    world.run_for(milliseconds(200));
    const TimePoint sent = world.clock.now();
    auto prompt = world.add(128, 2);
    while (prompt->times.empty()) ASSERT_TRUE(world.step());
    ttft[mode] = seconds(prompt->times[0] - sent);
    world.core.cancel_all();
  }
  EXPECT_LE(ttft[Mode::kFused], 0.25 * ttft[Mode::kSerial]);
}

TEST(Weave, PromptsKeepTheirFloorWhenStreamsHaveNoSlack) {
  World world(Mode::kFused);
  // A stream whose own step takes more than the target that it asks for.
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 2000;
  request.limits.itl_target = milliseconds(1);
  auto sink = std::make_shared<TimedSink>(world.clock);
  world.core.add(std::make_unique<Sequence>(77, std::move(request), 1, world.core.context(), sink,
                                            world.clock.now()));
  world.run_for(milliseconds(50));
  const TimePoint sent = world.clock.now();
  auto prompt = world.add(1000, 2);
  while (prompt->times.empty()) ASSERT_TRUE(world.step());
  // 400 ms of work at a fifth of the time.
  EXPECT_LE(seconds(prompt->times[0] - sent), 2.5);
  EXPECT_GT(world.core.missed_steps(), 0U);
  EXPECT_EQ(world.metrics.counter("target_missed_quanta_total", "").Value(),
            static_cast<double>(world.core.missed_steps()));
  EXPECT_FALSE(sink->end.has_value());
  world.core.cancel_all();
}

TEST(Weave, CancelFreesBlocksWithinAQuantum) {
  World world(Mode::kFused);
  auto stream = world.add(24, 200);
  auto prompt = world.add(3000, 2);
  world.run_for(milliseconds(300));
  const int held = world.core.blocks().held();
  world.core.start();
  ASSERT_TRUE(world.core.started());
  const uint64_t quanta = world.device.quanta();
  world.core.finish(2, FinishReason::kCancelled);
  world.core.wait();
  world.core.commit();
  EXPECT_EQ(world.device.quanta(), quanta + 1);
  EXPECT_LE(world.core.blocks().held(), held - 46);
  world.run();
  EXPECT_EQ(prompt->end->reason, FinishReason::kCancelled);
  EXPECT_EQ(stream->tokens.size(), 200U);
}

TEST(Weave, EachDeadlineEndsItsRequestAlone) {
  for (const Mode mode : {Mode::kFused, Mode::kSplit}) {
    ExecutorLimits limits = World::roomy();
    limits.slots = 4;
    World world(mode, limits, true);
    world.add(24, 300);
    auto other = world.add(24, 300);
    auto in_prefill = world.add(3000, 300, {.first_token = milliseconds(100)});
    auto in_decode = world.add(24, 3000, {.request = milliseconds(400)});
    auto in_queue = world.add(24, 5, {.first_token = milliseconds(60)});
    world.run();
    const auto expect_timeout = [](const TimedSink& sink, Deadline deadline, const char* text) {
      ASSERT_TRUE(sink.end);
      EXPECT_EQ(sink.end->reason, FinishReason::kTimeout);
      EXPECT_EQ(sink.end->deadline, deadline);
      EXPECT_THAT(sink.end->message, HasSubstr(text));
    };
    expect_timeout(*in_prefill, Deadline::kFirstToken, "100 ms (ttft_timeout_ms)");
    expect_timeout(*in_decode, Deadline::kRequest, "400 ms (request_timeout_ms)");
    expect_timeout(*in_queue, Deadline::kFirstToken, "60 ms (ttft_timeout_ms)");
    EXPECT_TRUE(in_queue->tokens.empty());
    EXPECT_GT(in_decode->tokens.size(), 3U);
    World alone(Mode::kChunked);
    alone.add(24, 300);
    auto undisturbed = alone.add(24, 300);
    alone.run();
    EXPECT_EQ(other->tokens, undisturbed->tokens);
  }
}

TEST(Weave, ATokenDeadlineCountsFromTheLastToken) {
  World world(Mode::kSerial);
  auto stream = world.add(24, 300, {.token = milliseconds(100)});
  world.run_for(milliseconds(100));
  ASSERT_FALSE(stream->end);
  world.add(3000, 2);  // stops the stream, in this mode
  world.run();
  ASSERT_TRUE(stream->end);
  EXPECT_EQ(stream->end->deadline, Deadline::kToken);
}

TEST(Weave, ThreeTimesThePoolIsServed) {
  ExecutorLimits limits = World::roomy();
  limits.blocks = 64;
  World world(Mode::kFused, limits);
  std::vector<std::shared_ptr<TimedSink>> sinks;
  for (int i = 0; i < 16; ++i) sinks.push_back(world.add(200 + 40 * i, 300));
  world.run();
  EXPECT_GT(world.core.preemptions(), 0U);
  EXPECT_EQ(world.metrics.counter("num_preemptions_total", "").Value(),
            static_cast<double>(world.core.preemptions()));
  EXPECT_EQ(world.core.blocks().held(), 0);
  World alone(Mode::kChunked);
  for (size_t i = 0; i < sinks.size(); ++i) {
    auto solo = alone.add(200 + 40 * static_cast<int>(i), 300);
    alone.run();
    EXPECT_EQ(sinks[i]->tokens, solo->tokens) << i;
  }
}

TEST(Weave, TheStallMetricIsWhatClientsSee) {
  World world(Mode::kSerial);
  world.noise_percent = 0;
  auto stream = world.add(24, 100);
  world.run_for(milliseconds(150));
  const Duration own = stream->times.back() - stream->times[stream->times.size() - 2];
  const size_t before = stream->times.size();
  for (int i = 0; i < 3; ++i) {
    auto prompt = world.add(1000, 1);
    while (!prompt->end) ASSERT_TRUE(world.step());
  }
  world.run();
  Duration stall{};
  for (size_t i = before; i < stream->times.size(); ++i) {
    const Duration gap = stream->times[i] - stream->times[i - 1];
    if (gap > 2 * own) stall += gap - own;
  }
  const double counted = world.metrics.counter("stall_seconds_total", "").Value();
  EXPECT_NEAR(counted, seconds(stall), 0.05 * seconds(stall));
  EXPECT_GT(counted, 0.5);
}

// Prompts of a stated mix of lengths on a device of 64-row tiles.
TEST(Weave, PromptsOfOneLengthShareTiles) {
  ExecutorLimits limits = World::roomy();
  limits.tile_rows = 64;
  limits.blocks = 2000;
  limits.slots = 64;
  limits.rows = 1024 + limits.slots;
  std::mt19937 random(1);
  std::vector<int> lengths;
  for (int i = 0; i < 60; ++i) {
    const uint32_t kind = random() % 10;
    lengths.push_back(static_cast<int>(kind < 7   ? 20 + random() % 100
                                       : kind < 9 ? 200 + random() % 150
                                                  : 500 + random() % 300));
  }
  World world(Mode::kFused, limits);
  for (const int length : lengths) world.add(length, 1);
  world.run();
  const double padded = world.metrics.counter("padded_rows_total", "").Value();
  // First come, first served: as many as fit into a pass, each as long as the longest.
  double first_come = 0;
  for (size_t i = 0; i < lengths.size();) {
    int longest = 0;
    int rows = 0;
    size_t end = i;
    while (end < lengths.size()) {
      const int padded_to = (std::max(longest, lengths[end]) + 63) / 64 * 64;
      if (end > i && padded_to * static_cast<int>(end - i + 1) > 1024) break;
      longest = std::max(longest, lengths[end]);
      rows += lengths[end++];
    }
    first_come += (longest + 63) / 64 * 64 * static_cast<double>(end - i) - rows;
    i = end;
  }
  EXPECT_LE(padded, 0.5 * first_come);
  EXPECT_GT(padded, 0);
}

TEST(Weave, ASplitDeviceServesBothAtOnce) {
  World world(Mode::kSplit, World::roomy(), true);
  std::vector<std::shared_ptr<TimedSink>> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(world.add(24, 2000));
  world.run_for(milliseconds(200));
  const TimePoint sent = world.clock.now();
  auto prompt = world.add(3000, 2);
  while (prompt->times.empty()) ASSERT_TRUE(world.step());
  for (const auto& stream : streams) EXPECT_LE(largest_gap(*stream, sent), kTarget);
  world.core.cancel_all();
}

}  // namespace
}  // namespace weft
