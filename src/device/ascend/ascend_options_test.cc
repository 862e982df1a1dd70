// What an Ascend executor refuses to be made of, and what it asks of the device.

#include "device/ascend/ascend_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "device/ascend/acl_device.h"
#include "device/ascend/ascend_executor.h"
#include "device/ascend/resident.h"
#include "device/executor_driver_test.h"
#include "twin.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// The chip ends a kernel after so long, so it is asked for all that it can give.
TEST(AclDevice, KernelsHaveTheLongestTime) {
  twin::set_acl_options({});
  const auto device = AclDevice::create(0, "weft_kernels.o");
  ASSERT_TRUE(device.ok()) << device.error().message;
  EXPECT_EQ((*device)->time_limit(), std::chrono::seconds(1091));
}

// An epoch is due at half that time, but no later than after ten minutes.
TEST(AscendOptions, AnEpochEndsLongBeforeTheChipEndsIt) {
  AscendOptions options;
  options.cores = 4;
  options.epoch_quanta = 17;
  const auto epoch = [&](Duration limit) { return resident_options(options, limit).epoch_time; };
  EXPECT_EQ(epoch(std::chrono::seconds(1091)), std::chrono::milliseconds(545500));
  EXPECT_EQ(epoch(std::chrono::seconds(30)), std::chrono::seconds(15));
  EXPECT_EQ(epoch(std::chrono::hours(2)), std::chrono::minutes(10));
  EXPECT_EQ(resident_options(options, std::chrono::hours(1)).epoch_quanta, 17);
}

TEST(AscendExecutor, RefusesLimitsThatCannotBe) {
  const Checkpoint checkpoint = *Checkpoint::open(test::tiny("llama", "f32.gguf"));
  const Model model = *build_model(checkpoint);
  const auto refusal = [&](const ExecutorLimits& limits, int cores = 1) {
    twin::set_acl_options({});
    AscendOptions options;
    options.host_kernels = *find_kernels("ref");
    options.limits = limits;
    options.cores = cores;
    const auto executor = make_ascend_executor(model, checkpoint, options);
    return executor.ok() ? "accepted" : executor.error().message;
  };
  EXPECT_EQ(refusal({8, 4, 72, 8, 128, 16}), "accepted");
  EXPECT_EQ(refusal({8, 4, 71, 8, 128, 16}),
            "71 rows: a row of each of 8 sequences and a tile of 64 of a prompt need at least 72");
  EXPECT_THAT(refusal({0, 4, 72, 8, 128, 16}), HasSubstr("0 slots"));
  EXPECT_THAT(refusal({8, 4, 72, 0, 128, 16}), HasSubstr("0 output rows"));
  EXPECT_THAT(refusal({8, 4, 72, 8, 128, 16}, 65), HasSubstr("65 cores"));
}

TEST(AscendExecutor, RefusesWhatTheKernelsCannotRun) {
  const Checkpoint checkpoint = *Checkpoint::open(test::tiny("mixtral", "f32.gguf"));
  const Model model = *build_model(checkpoint);
  AscendOptions options;
  options.host_kernels = *find_kernels("ref");
  options.limits = {8, 4, 64, 8, 128, 16};
  const auto experts = make_ascend_executor(model, checkpoint, options);
  ASSERT_FALSE(experts.ok());
  EXPECT_EQ(experts.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(experts.error().message, HasSubstr("4 experts"));

  Model odd = *build_model(checkpoint);
  odd.config.experts = 0;
  odd.config.ffn = 168;
  const auto width = make_ascend_executor(odd, checkpoint, options);
  ASSERT_FALSE(width.ok());
  EXPECT_THAT(width.error().message, HasSubstr("feed-forward size of 168"));

  odd.config.ffn = 160;
  odd.config.hidden = 16400;
  const auto wide = make_ascend_executor(odd, checkpoint, options);
  ASSERT_FALSE(wide.ok());
  EXPECT_THAT(wide.error().message, HasSubstr("hidden size of 16400"));
  odd.config.hidden = model.config.hidden;
  options.cores = 4;
  options.prefill_cores = 1;
  options.decode_cores = 1;
  const auto order = make_ascend_executor(odd, checkpoint, options);
  ASSERT_FALSE(order.ok());
  EXPECT_EQ(order.error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace weft
