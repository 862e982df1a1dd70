#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace weft {
namespace {

Result<int> positive(int value) {
  if (value <= 0)
    return Error{ErrorKind::kInvalidArgument, fmt::format("{} is not positive", value)};
  return value;
}

Result<int> sum_of_positives(int a, int b) {
  WEFT_ASSIGN(const int first, positive(a));
  WEFT_ASSIGN(const int second, positive(b));
  return first + second;
}

Status both_positive(int a, int b) {
  WEFT_RETURN_IF_ERROR(positive(a));
  WEFT_RETURN_IF_ERROR(positive(b));
  return {};
}

TEST(Result, CarriesAValueOrAnError) {
  EXPECT_EQ(*sum_of_positives(1, 2), 3);
  const Result<int> failed = sum_of_positives(1, -2);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(failed.error().message, "-2 is not positive");
  EXPECT_TRUE(both_positive(1, 2).ok());
  EXPECT_EQ(both_positive(0, 2).error().message, "0 is not positive");
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> value = *std::move(result);
  EXPECT_EQ(*value, 7);
}

TEST(ResultDeathTest, ValueOfAnErrorEndsTheProcess) {
  EXPECT_DEATH(static_cast<void>(*positive(-1)), "-1 is not positive");
}

TEST(CheckDeathTest, NamesTheConditionAndTheMessage) {
  const int left = 3;
  WEFT_CHECK(left == 3);
  EXPECT_DEATH(WEFT_CHECK(left == 0, "{} blocks left", left),
               "result_test.cc:[0-9]+: left == 0 does not hold. 3 blocks left");
}

}  // namespace
}  // namespace weft
