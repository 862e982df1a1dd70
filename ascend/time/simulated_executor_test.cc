#include "time/simulated_executor.h"

#include <gtest/gtest.h>

#include <numeric>

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
  for (const Step& step : steps_of(*all_, rows_of(quantum(pass)), 0, kLayers, {}))
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

}  // namespace
}  // namespace weft::timing
