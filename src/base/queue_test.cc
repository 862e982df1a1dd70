#include "base/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

TEST(Queue, KeepsTheOrderOfOneProducer) {
  Queue<int> queue;
  for (int i = 0; i < 3; ++i) queue.push(i);
  EXPECT_EQ(queue.pop(), 0);
  std::vector<int> out = {9};
  queue.drain(out);
  EXPECT_THAT(out, ElementsAre(9, 1, 2));
  queue.drain(out);
  EXPECT_EQ(out.size(), 3u);
}

TEST(Queue, PopUntilGivesUpAtTheDeadline) {
  Queue<int> queue;
  EXPECT_EQ(queue.pop_until(SteadyClock().now()), std::nullopt);
  queue.push(5);
  EXPECT_EQ(queue.pop_until(SteadyClock().now()), 5);
}

TEST(Queue, MovesWhatCannotBeCopied) {
  Queue<std::unique_ptr<int>> queue;
  queue.push(std::make_unique<int>(3));
  EXPECT_EQ(*queue.pop(), 3);
}

TEST(Queue, EveryItemArrivesOnceFromManyThreads) {
  constexpr int kProducers = 4;
  constexpr int kItems = 2000;
  Queue<int> queue;
  std::vector<std::thread> threads;
  threads.reserve(kProducers + 2);
  for (int p = 0; p < kProducers; ++p) {
    threads.emplace_back([&queue, p] {
      for (int i = 0; i < kItems; ++i) queue.push(p * kItems + i);
    });
  }
  std::vector<std::vector<int>> seen(2);
  for (auto& mine : seen) {
    threads.emplace_back([&queue, &mine] {
      for (int i = 0; i < kProducers * kItems / 2; ++i) mine.push_back(queue.pop());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int> counts(kProducers * kItems);
  for (const auto& mine : seen) {
    for (const int item : mine) ++counts[static_cast<size_t>(item)];
  }
  EXPECT_THAT(counts, ::testing::Each(1));
}

TEST(FakeClock, StandsStillUntilItIsMoved) {
  FakeClock clock;
  const TimePoint start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(1500ms);
  EXPECT_EQ(seconds(clock.now() - start), 1.5);
}

}  // namespace
}  // namespace weft
