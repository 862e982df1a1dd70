// The same work in many orders: each launch of the resident kernel draws how the pipes of its
// programs run anew, and here every launch runs one step of both groups, so that one model that is
// loaded once meets as many orders as there are launches.
//
//   WEFT_TWIN_SEEDS   launches (50)
//   WEFT_TWIN_SEED    what the first of them is drawn from (1)
//   WEFT_TWIN_MODEL   a checkpoint (a tiny one of the test data)

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "ascend/kernels/kernel_testing.h"
#include "device/ascend/test_driver.h"

namespace weft {
namespace {

using test::Logits;
using test::same_bits;
using test::Sequence;
using test::Tokens;
using test::TwinDriver;
using test::TwinOptions;
using weft_ascend::testing::Setting;

Tokens text(int first, int count, int vocab) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((first + 37 * i) % vocab);
  return tokens;
}

// A prompt of three tiles of the cube on one group, its last row behind it on the other, layer by
// layer, together with a row of a stream that begins a block of the cache: every key is read by a
// row whose logits are compared. All steps of a driver use the same slots and places of the cache.
class Step {
 public:
  Step(TwinDriver& driver, int first_token)
      : driver_(driver), tokens_(text(first_token, kPromptRows + 1, driver.model().config.vocab)) {
    const Tokens history = text(5, kBlockPositions, driver.model().config.vocab);
    driver.run({TwinDriver::rows(stream_, history, Outputs::kNone)});
    const std::span tokens(tokens_);
    sender_.segments = {TwinDriver::rows(prompt_, tokens.first(kPromptRows), Outputs::kNone)};
    follower_.segments = {TwinDriver::rows(prompt_, tokens.last(1), Outputs::kLast),
                          TwinDriver::rows(stream_, tokens.first(1), Outputs::kLast)};
    driver.run(Group::kAll, {&sender_}, 0, driver.layers());
    driver.run(Group::kAll, {&follower_}, 0, driver.layers());
    wanted_ = logits();
    sender_.sends = follower_.follows = 2;
  }

  // In both groups, with the bits that all cores gave one pass after the other.
  testing::AssertionResult run() {
    driver_.start(Group::kPrefill, {&sender_}, 0, driver_.layers());
    driver_.start(Group::kDecode, {&follower_}, 0, driver_.layers());
    for (int i = 0; i < 2; ++i) {
      const Completion completion = driver_.wait();
      if (!completion.status.ok()) {
        return testing::AssertionFailure() << completion.status.error().message;
      }
    }
    return same_bits(logits(), wanted_);
  }

 private:
  static constexpr int kPromptRows = 40;

  std::vector<Logits> logits() const { return {driver_.logits(0), driver_.logits(1)}; }

  TwinDriver& driver_;
  const Tokens tokens_;
  Sequence stream_ = driver_.open(0);
  Sequence prompt_ = driver_.open(1);
  Pass sender_{0, {}};
  Pass follower_{1, {}};
  std::vector<Logits> wanted_;
};

TEST(AscendOrders, EveryLaunchGivesTheSameBits) {
  TwinOptions options;
  options.file = Setting("WEFT_TWIN_MODEL", "f32.gguf");
  options.seed = std::stoull(Setting("WEFT_TWIN_SEED", "1"));
  options.cores = 4;
  options.prefill_cores = 2;
  options.decode_cores = 2;
  options.context = 128;
  options.epoch_quanta = 2;  // the rings' entries of a step
  TwinDriver driver("qwen3", options);
  // In turns, so that what a launch finds in memory is never what it has to write there.
  std::array<Step, 2> steps = {Step(driver, 11), Step(driver, 200)};
  const int orders = weft_ascend::testing::Seeds();
  for (int order = 1; order <= orders; ++order) {
    SCOPED_TRACE(testing::Message() << "launch " << order << " of seed " << options.seed);
    const uint64_t launches = twin::acl_device().launches();
    ASSERT_TRUE(steps[static_cast<size_t>(order % 2)].run());
    ASSERT_EQ(twin::acl_device().launches(), launches + 1);
  }
  RecordProperty("orders", orders);
}

}  // namespace
}  // namespace weft
