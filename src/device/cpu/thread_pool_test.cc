#include "device/cpu/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "base/cpu.h"

namespace weft {
namespace {

using ::testing::Each;

std::unique_ptr<ThreadPool> make_pool(int threads, std::span<const int> cpus = {}) {
  auto pool = ThreadPool::create(threads, cpus);
  EXPECT_TRUE(pool.ok());
  return std::move(pool).value();
}

// Takes a time that depends on the item, so that shares are uneven.
void work(int64_t item) {
  volatile int64_t sink = 0;
  for (int64_t i = 0; i < item * 37 % 101; ++i) sink = sink + i;
}

class ThreadPoolTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, ::testing::Values(1, 2, 3, 4));

TEST_P(ThreadPoolTest, EveryItemOfThousandsOfLoopsRunsExactlyOnce) {
  auto pool = make_pool(GetParam());
  std::vector<int> hits(97);  // plain: items are exclusive and barriers order the loops
  for (int round = 0; round < 2000; ++round) {
    const int64_t items = round % 97;
    const int64_t grain = 1 + round % 7;
    auto job = [&](ThreadPool::Worker& worker) {
      const auto hit = [&](int64_t begin, int64_t end) {
        ASSERT_EQ(begin % grain, 0);
        ASSERT_EQ(end, std::min(begin + grain, items));
        for (int64_t i = begin; i < end; ++i) work(i), ++hits[i];
      };
      for (int loop = 0; loop < 3; ++loop) worker.parallel_for(items, grain, hit);
    };
    pool->start(job);
    if (round % 3 == 0) work(round);
    pool->join();
    ASSERT_EQ(std::accumulate(hits.begin(), hits.end(), 0), 3 * items) << "round " << round;
    for (int64_t i = 0; i < items; ++i) ASSERT_EQ(hits[i], 3) << "item " << i << " round " << round;
    std::fill(hits.begin(), hits.end(), 0);
  }
}

TEST_P(ThreadPoolTest, ALoopSeesWhatTheLoopBeforeItWrote) {
  auto pool = make_pool(GetParam());
  constexpr int kItems = 64;
  std::vector<int> from(kItems, 0);
  std::vector<int> to(kItems, 0);
  pool->run([&](ThreadPool::Worker& worker) {
    for (int loop = 0; loop < 1000; ++loop) {
      std::vector<int>& a = loop % 2 == 0 ? from : to;
      std::vector<int>& b = loop % 2 == 0 ? to : from;
      worker.parallel_for(kItems, 1, [&](int64_t i, int64_t) { b[kItems - 1 - i] = a[i] + 1; });
    }
  });
  EXPECT_THAT(from, Each(1000));
}

TEST_P(ThreadPoolTest, WorkersAreTheCallerAndTheOthers) {
  auto pool = make_pool(GetParam());
  std::vector<std::thread::id> ids(GetParam());
  pool->run([&](ThreadPool::Worker& worker) {
    ASSERT_EQ(worker.count(), GetParam());
    ids[worker.index()] = std::this_thread::get_id();
  });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

// The other workers finish every item of the first loop, worker 0's share too, before it joins.
TEST(ThreadPool, ALateCallerFindsItsShareDone) {
  for (const int threads : {2, 4}) {
    auto pool = make_pool(threads);
    for (int round = 0; round < 100; ++round) {
      std::atomic<int> first{0};
      std::atomic<int> second{0};
      std::vector<int> by_caller(2, 0);
      auto job = [&](ThreadPool::Worker& worker) {
        worker.parallel_for(64, 1, [&](int64_t, int64_t) {
          if (worker.index() == 0) ++by_caller[0];
          first.fetch_add(1);
          first.notify_all();
        });
        worker.parallel_for(64, 1, [&](int64_t, int64_t) { second.fetch_add(1); });
      };
      pool->start(job);
      for (int seen = first.load(); seen != 64; seen = first.load()) first.wait(seen);
      EXPECT_EQ(second.load(), 0);  // the barrier waits for the caller
      pool->join();
      EXPECT_EQ(by_caller[0], 0);
      EXPECT_EQ(second.load(), 64);
    }
  }
}

TEST(ThreadPool, WakesFromParking) {
  auto pool = make_pool(3);
  std::atomic<int> done{0};
  for (int round = 0; round < 20; ++round) {
    // Longer than the workers spin; what is tested does not depend on it.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    auto job = [&](ThreadPool::Worker& worker) {
      worker.parallel_for(8, 1, [&](int64_t, int64_t) { done.fetch_add(1); });
    };
    pool->start(job);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool->join();
    EXPECT_EQ(done.load(), 8 * (round + 1));
  }
}

TEST(ThreadPool, CountsWhereTimeWent) {
  WaitCounter finished;
  for (WaitCounter* own : {static_cast<WaitCounter*>(nullptr), &finished}) {
    const TimePoint begin = std::chrono::steady_clock::now();
    auto pool = std::move(ThreadPool::create(2, {}, own)).value();
    constexpr auto kSpan = std::chrono::milliseconds(30);
    std::this_thread::sleep_for(kSpan);
    // One worker has an item, the other only waits; then both wait for something else.
    pool->run([&](ThreadPool::Worker& worker) {
      worker.parallel_for(1, 1, [&](int64_t, int64_t) { std::this_thread::sleep_for(kSpan); });
      worker.wait([&] { std::this_thread::sleep_for(kSpan); });
    });
    std::this_thread::sleep_for(kSpan);
    const TimePoint now = std::chrono::steady_clock::now();
    ThreadPool::Time time = pool->time(now);
    EXPECT_GE(time.operators, kSpan);
    EXPECT_GE(time.barriers, 2 * kSpan);
    EXPECT_GE(time.idle, 4 * kSpan);
    EXPECT_LE(time.operators + time.barriers + time.idle, 2 * (now - begin));

    pool->pause(now);
    std::this_thread::sleep_for(kSpan);
    EXPECT_EQ(pool->time(std::chrono::steady_clock::now()).idle, time.idle);
    const TimePoint later = std::chrono::steady_clock::now();
    pool->resume(later);
    EXPECT_EQ(pool->time(later + kSpan).idle, time.idle + 2 * kSpan);
  }
}

TEST(ThreadPool, AllWorkersMayBeItsOwn) {
  for (const int threads : {1, 2, 3}) {
    WaitCounter finished;
    auto pool = std::move(ThreadPool::create(threads, {}, &finished)).value();
    std::vector<std::thread::id> ids(static_cast<size_t>(threads));
    std::vector<int> hits(64);
    auto job = [&](ThreadPool::Worker& worker) {
      ids[static_cast<size_t>(worker.index())] = std::this_thread::get_id();
      worker.parallel_for(64, 1, [&](int64_t i, int64_t) { ++hits[static_cast<size_t>(i)]; });
    };
    for (uint32_t round = 0; round < 200; ++round) {
      ASSERT_TRUE(pool->done());
      pool->start(job);
      finished.wait_past(round, {});
      ASSERT_EQ(finished.value(), round + 1);
      ASSERT_TRUE(pool->done());
      pool->join();
    }
    EXPECT_THAT(hits, Each(200));
    ids.push_back(std::this_thread::get_id());
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
  }
}

TEST(ThreadPool, PinsItsThreads) {
  const std::vector<int> cores = read_cpu_topology().cores;
  const std::vector<int> cpus = {cores.front(), cores.back()};
  auto pool = make_pool(2, cpus);
  int cpu = -1;
  pool->run([&](ThreadPool::Worker& worker) {
    if (worker.index() == 1) cpu = sched_getcpu();
  });
  EXPECT_EQ(cpu, cpus[1]);
}

TEST(ThreadPool, RefusesWhatCannotBe) {
  EXPECT_THAT(ThreadPool::create(0).error().message, ::testing::HasSubstr("0 threads"));
  const std::vector<int> cpus = {0, 99999};
  EXPECT_THAT(ThreadPool::create(2, cpus).error().message, ::testing::HasSubstr("CPU 99999"));
  EXPECT_THAT(pin_this_thread(-1).error().message, ::testing::HasSubstr("CPU -1"));
}

}  // namespace
}  // namespace weft
