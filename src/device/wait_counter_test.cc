#include "device/wait_counter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace weft {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(WaitCounter, ReturnsAtTheDeadlineAndNotBefore) {
  WaitCounter counter;
  for (const Duration spin : {Duration{0}, Duration{milliseconds(3)}, Duration{milliseconds(50)}}) {
    const TimePoint deadline = steady_clock::now() + milliseconds(10);
    EXPECT_FALSE(counter.wait_past(0, spin, deadline));
    EXPECT_GE(steady_clock::now(), deadline);
  }
  EXPECT_FALSE(counter.wait_past(0, {}, TimePoint{}));
  counter.advance();
  EXPECT_TRUE(counter.wait_past(0, {}, TimePoint{}));
}

TEST(WaitCounter, HandsOverThousandsOfTimes) {
  for (const Duration spin : {Duration{0}, Duration{std::chrono::microseconds(5)}}) {
    WaitCounter there;
    WaitCounter back;
    int value = 0;  // plain: each side touches it in its turn only
    std::thread other([&] {
      for (uint32_t i = 0; i < 3000; ++i) {
        there.wait_past(i, spin);
        ++value;
        back.advance();
      }
    });
    for (uint32_t i = 0; i < 3000; ++i) {
      ++value;
      there.advance();
      EXPECT_TRUE(back.wait_past(i, spin, TimePoint::max()));
      ASSERT_EQ(value, 2 * static_cast<int>(i + 1));
    }
    other.join();
  }
}

}  // namespace
}  // namespace weft
