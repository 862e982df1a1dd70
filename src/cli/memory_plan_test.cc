#include "cli/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMiB = 1U << 20U;

// 1,000 MiB free, of which the weights take 200; a block of 64 positions takes 1 MiB.
MemoryRequest request() {
  return {.available = 1000 * kMiB,
          .weight_bytes = 200 * kMiB,
          .block_bytes = kMiB,
          .trained_context = 8192,
          .max_sequences = 64};
}

TEST(MemoryPlan, TakesHalfOfWhatIsFreeAfterTheWeights) {
  const auto plan = plan_memory(request());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->blocks, 400);
  EXPECT_EQ(plan->context, 8192);
}

TEST(MemoryPlan, TakesNoMoreThanTheSequencesCanFill) {
  MemoryRequest one = request();
  one.max_sequences = 1;
  EXPECT_EQ(plan_memory(one)->blocks, 128);
  one.context = 100;
  EXPECT_EQ(plan_memory(one)->blocks, 2);
  EXPECT_EQ(plan_memory(one)->context, 100);
}

TEST(MemoryPlan, ShortensTheDefaultContextToThePool) {
  MemoryRequest small = request();
  small.kv_memory = 10 * kMiB;
  EXPECT_EQ(plan_memory(small)->blocks, 10);
  EXPECT_EQ(plan_memory(small)->context, 640);
}

TEST(MemoryPlan, AContextThatDoesNotFitSaysWhatWould) {
  MemoryRequest tight = request();
  tight.kv_memory = 10 * kMiB;
  tight.context = 641;
  const auto plan = plan_memory(tight);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().kind, ErrorKind::kExhausted);
  EXPECT_THAT(plan.error().message, HasSubstr("--context 641 needs a KV pool of 11.0 MiB"));
  EXPECT_THAT(plan.error().message, HasSubstr("set --context to 640 or less"));
  tight.context = 640;
  EXPECT_TRUE(plan_memory(tight).ok());
}

TEST(MemoryPlan, RefusesAContextBeyondTraining) {
  MemoryRequest far = request();
  far.context = 8193;
  const auto plan = plan_memory(far);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(plan.error().message, HasSubstr("8192"));
}

TEST(MemoryPlan, RefusesWhatTheMachineDoesNotHave) {
  MemoryRequest large = request();
  large.kv_memory = 801 * kMiB;
  EXPECT_EQ(plan_memory(large).error().kind, ErrorKind::kExhausted);
  large.kv_memory = 800 * kMiB;
  EXPECT_TRUE(plan_memory(large).ok());
  large.weight_bytes = 1000 * kMiB;
  EXPECT_THAT(plan_memory(large).error().message, HasSubstr("the weights need"));
}

TEST(MemoryPlan, RefusesAPoolWithoutABlock) {
  MemoryRequest tiny = request();
  tiny.kv_memory = kMiB - 1;
  EXPECT_THAT(plan_memory(tiny).error().message, HasSubstr("set --kv-memory"));
}

}  // namespace
}  // namespace weft
