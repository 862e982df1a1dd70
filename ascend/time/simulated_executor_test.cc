#include "time/simulated_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "time/full_run.h"

namespace weft::timing {
namespace {

constexpr int kLayers = 4;

ModelShape shape() {
  return {.name = "small",
          .layers = kLayers,
          .hidden = 512,
          .ffn = 1536,
          .heads = 8,
          .kv_heads = 8,
          .head_dim = 64,
          .vocab = 8192,
          .qkv_bias = false,
          .qk_norm = false};
}

class SimulatedExecutorTest : public ::testing::Test {
 protected:
  SimulatedExecutorTest() {
    model_ = *find_chip_model("910b2");
    model_.cores = 4;
    // Few cores do not fill the bandwidth of a whole chip.
    model_.hbm_bandwidth = 50e9;
    all_ = std::make_unique<OperatorTimes>(model_, shape(), 4);
    half_ = std::make_unique<OperatorTimes>(model_, shape(), 2);
    other_half_ = std::make_unique<OperatorTimes>(model_, shape(), 2);
    SimulatedOptions options;
    options.limits = {
        .slots = 8, .passes = 4, .rows = 512, .output_rows = 8, .context = 4096, .blocks = 512};
    options.prefill_cores = options.decode_cores = 2;
    device_ = std::make_unique<SimulatedExecutor>(
        SimulatedExecutor::Teams{all_.get(), half_.get(), other_half_.get()}, clock_, options);
    blocks_.resize(64);
    std::iota(blocks_.begin(), blocks_.end(), 0);
    tokens_.resize(512);
  }

  Pass prompt(PassId id, int first, int rows) {
    Pass pass;
    pass.id = id;
    pass.segments.push_back({.slot = id,
                             .first_position = first,
                             .rows = rows,
                             .row_class = RowClass::kPrefill,
                             .tokens = std::span(tokens_).first(static_cast<size_t>(rows)),
                             .outputs = Outputs::kNone,
                             .targets = {},
                             .blocks = blocks_});
    return pass;
  }
  Pass stream(PassId id, int context) {
    Pass pass = prompt(id, context - 1, 1);
    pass.segments[0].tokens = {};
    pass.segments[0].outputs = Outputs::kLast;
    return pass;
  }
  static Quantum quantum(const Pass& pass, int begin = 0, int end = kLayers) {
    Quantum quantum;
    quantum.id = static_cast<uint64_t>(pass.id) + 1;
    quantum.passes = {&pass};
    quantum.layer_begin = begin;
    quantum.layer_end = end;
    return quantum;
  }
  double run(Group group, const Pass& pass) {
    device_->start(group, quantum(pass));
    EXPECT_TRUE(device_->wait(TimePoint::max(), completion_));
    return seconds(completion_.end - completion_.start);
  }

  FakeClock clock_;
  ChipModel model_;
  std::unique_ptr<OperatorTimes> all_, half_, other_half_;
  std::unique_ptr<SimulatedExecutor> device_;
  std::vector<BlockId> blocks_;
  std::vector<TokenId> tokens_;
  Completion completion_;
};

TEST_F(SimulatedExecutorTest, AQuantumTakesTheTimeOfItsOperators) {
  const Pass pass = stream(0, 1000);
  double sum = model_.host_turn;
  for (const Step& step : steps_of(*all_, rows_of(quantum(pass)), {0, kLayers, kLayers}, {}))
    sum += step.time.seconds;
  EXPECT_NEAR(run(Group::kAll, pass), sum, 1e-9);
  ASSERT_EQ(completion_.outputs.size(), 1U);
  EXPECT_NEAR(run(Group::kAll, pass), sum, 1e-9);  // and the same again
  const CoreTime time = device_->core_time();
  EXPECT_NEAR(time.operators + time.barriers + time.idle, 4 * 2 * sum, 1e-8);
}

TEST_F(SimulatedExecutorTest, TheDeadlineEndsAWait) {
  const Pass pass = stream(0, 1000);
  device_->start(Group::kAll, quantum(pass));
  const TimePoint deadline = clock_.now() + std::chrono::microseconds(50);
  EXPECT_FALSE(device_->wait(deadline, completion_));
  EXPECT_EQ(clock_.now(), deadline);
  EXPECT_TRUE(device_->wait(TimePoint::max(), completion_));
  EXPECT_GT(completion_.end, deadline);
}

TEST_F(SimulatedExecutorTest, GroupsShareTheBandwidth) {
  const Pass one = stream(0, 4000);
  const Pass other = stream(1, 4000);
  const double alone = run(Group::kPrefill, one);
  const double bytes_before = device_->totals().operators.hbm_bytes;
  const TimePoint begin = clock_.now();
  device_->start(Group::kPrefill, quantum(one));
  device_->start(Group::kDecode, quantum(other));
  EXPECT_TRUE(device_->wait(TimePoint::max(), completion_));
  EXPECT_TRUE(device_->wait(TimePoint::max(), completion_));
  const double both = seconds(clock_.now() - begin);
  const double bytes = device_->totals().operators.hbm_bytes - bytes_before;
  EXPECT_GT(both, 1.2 * alone);
  EXPECT_LT(both, 2 * alone);
  EXPECT_GE(both, bytes / model_.hbm_bandwidth);
}

TEST_F(SimulatedExecutorTest, AFollowerWaitsForItsSenderLayerByLayer) {
  Pass sender = prompt(0, 0, 256);
  sender.sends = 0;
  Pass follower = stream(1, 257);
  follower.follows = 0;
  const double alone = run(Group::kDecode, stream(2, 257));
  const TimePoint begin = clock_.now();
  device_->start(Group::kPrefill, quantum(sender));
  device_->start(Group::kDecode, quantum(follower));
  EXPECT_TRUE(device_->wait(TimePoint::max(), completion_));
  EXPECT_EQ(completion_.quantum, 1U);
  const double sent = seconds(completion_.end - begin);
  EXPECT_TRUE(device_->wait(TimePoint::max(), completion_));
  const double followed = seconds(completion_.end - begin);
  EXPECT_GT(followed, sent);
  EXPECT_LT(followed, sent + alone);  // the layers before were done beside
  EXPECT_GT(completion_.barrier_core_seconds, 0);
}

// Two groups at once, against the layer programs of both in one launch.
TEST(Groups, AtOnceAreNearTheWholeLaunch) {
  ChipModel model = *find_chip_model("910b2");
  model.host_turn = 0;
  const ModelShape layers = {.name = "four layers",
                             .layers = 4,
                             .hidden = 4096,
                             .ffn = 11008,
                             .heads = 32,
                             .kv_heads = 32,
                             .head_dim = 128,
                             .vocab = 16384,
                             .qkv_bias = true,
                             .qk_norm = false};
  constexpr int kHalf = 12;
  constexpr FullQuantum kPrompt = {.first = 1024, .rows = 512, .streams = 0, .context = 0};
  constexpr FullQuantum kStreams = {.first = 0, .rows = 0, .streams = 4, .context = 2048};
  OperatorBench bench(model);
  const Timing whole =
      bench.Replay(record_groups(bench, layers, {kHalf, kHalf}, {kPrompt, kStreams}));
  std::array<double, 2> ends{};
  for (size_t i = 0; i < whole.programs.size(); ++i) {
    double& end = ends[i < kHalf * kProgramsOfCore ? 0 : 1];
    end = std::max(end, whole.programs[i].end);
  }

  OperatorTimes all(model, layers, 2 * kHalf);
  OperatorTimes half(model, layers, kHalf);
  SimulatedOptions options;
  options.fixed = measure_fixed_costs(half);
  options.limits = {
      .slots = 8, .passes = 4, .rows = 1024, .output_rows = 8, .context = 4096, .blocks = 512};
  options.prefill_cores = options.decode_cores = kHalf;
  FakeClock clock;
  SimulatedExecutor device({&all, &half, &half}, clock, options);
  const std::vector<BlockId> blocks(64);
  const std::vector<TokenId> tokens(512);
  std::array<Pass, 2> passes;
  std::array<Quantum, 2> quanta;
  passes[0].segments.push_back({.first_position = kPrompt.first,
                                .rows = kPrompt.rows,
                                .row_class = RowClass::kPrefill,
                                .tokens = tokens,
                                .targets = {},
                                .blocks = blocks});
  for (int i = 0; i < kStreams.streams; ++i) {
    passes[1].segments.push_back({.slot = i,
                                  .first_position = kStreams.context - 1,
                                  .rows = 1,
                                  .tokens = {},
                                  .outputs = Outputs::kLast,
                                  .targets = {},
                                  .blocks = blocks});
  }
  for (size_t i = 0; i < 2; ++i) {
    quanta[i].id = i;
    quanta[i].passes = {&passes[i]};
    quanta[i].layer_end = layers.layers;
  }
  device.start(Group::kPrefill, quanta[0]);
  device.start(Group::kDecode, quanta[1]);
  for (int i = 0; i < 2; ++i) {
    Completion completion;
    ASSERT_TRUE(device.wait(TimePoint::max(), completion));
    const double end = ends[completion.quantum];
    EXPECT_NEAR(seconds(completion.end - completion.start), end, 0.06 * end) << completion.quantum;
  }
}

}  // namespace
}  // namespace weft::timing
