#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Log, WritesToStandardErrorFromTheLevelOn) {
  testing::internal::CaptureStderr();
  ASSERT_TRUE(init_log("info").ok());
  spdlog::debug("too fine");
  spdlog::info("{} layers", 30);
  spdlog::default_logger()->flush();
  ASSERT_TRUE(init_log("off").ok());
  spdlog::error("silent");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, testing::HasSubstr("30 layers"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("too fine")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("silent")));
}

TEST(Log, RefusesAnUnknownLevelByName) {
  const Status status = init_log("loud");
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, testing::HasSubstr("'loud' is unknown"));
}

}  // namespace
}  // namespace weft
