// Quanta of two groups of cores at the same time, and of one after the other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "device/cpu/random_walk_test.h"
#include "device/cpu/test_driver.h"

namespace weft {
namespace {

using test::Driver;
using test::DriverOptions;
using test::Expected;
using test::RandomWalk;
using test::same_output;
using test::Tokens;
using ::testing::HasSubstr;

DriverOptions split(int threads, int prefill, int decode) {
  return {
      .threads = threads, .prefill_threads = prefill, .decode_threads = decode, .observe = false};
}

class RandomWalkTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, RandomWalkTest, ::testing::ValuesIn(test::kernel_names()),
                         [](const auto& info) { return info.param; });

void every_walk_gives_the_solo_run(const std::string& model, const std::string& kernels,
                                   KvType kv) {
  const std::vector<DriverOptions> machines = {split(1, 0, 0), split(2, 1, 1), split(3, 2, 1),
                                               split(3, 1, 2), split(3, 1, 1)};
  DriverOptions options = machines[0];
  options.kernels = kernels;
  options.kv_type = kv;
  const auto requests = test::requests_with_solo_runs(model, options, 6, 5);
  RandomWalk::Seen seen;
  uint32_t seed = 0;
  for (const DriverOptions& machine : machines) {
    options.threads = machine.threads;
    options.prefill_threads = machine.prefill_threads;
    options.decode_threads = machine.decode_threads;
    Driver driver(model, options);
    // Who is done first is chance, and so is how often a follower finds its sender running.
    const int followed = seen.followed + (machine.prefill_threads > 0 ? 1 : 0);
    for (int walk = 0; walk < 4 || (seen.followed < followed && walk < 200); ++walk) {
      const RandomWalk::Seen one = RandomWalk(driver, requests, ++seed).run();
      ASSERT_FALSE(::testing::Test::HasFailure())
          << model << ", " << machine.threads << " threads, seed " << seed;
      seen.joined += one.joined;
      seen.moved += one.moved;
      seen.at_once += one.at_once;
      seen.followed += one.followed;
      seen.cut += one.cut;
    }
  }
  EXPECT_GT(seen.joined, 20);
  EXPECT_GT(seen.moved, 20);
  EXPECT_GT(seen.at_once, 20);
  EXPECT_GE(seen.followed, 4);  // once on each machine that is split
  EXPECT_GT(seen.cut, 10);
}

TEST_P(RandomWalkTest, EveryTokenIsThatOfTheRunAlone) {
  every_walk_gives_the_solo_run("llama3-rope", GetParam(), KvType::kF32);
}
TEST_P(RandomWalkTest, EveryTokenIsThatOfTheRunAloneWithHeadNorms) {
  every_walk_gives_the_solo_run("qwen3", GetParam(), KvType::kF16);
}
TEST_P(RandomWalkTest, EveryTokenIsThatOfTheRunAloneWithExperts) {
  every_walk_gives_the_solo_run("qwen3moe", GetParam(), KvType::kQ8_0);
}

// A follower that starts when its sender has only begun, and waits for it at every layer.
TEST(CoreGroups, AFollowerWalksBehindItsSender) {
  const Expected expected("qwen2");
  SamplingParams sampling = test::greedy();
  sampling.top_logprobs = 5;
  Driver driver("qwen2", split(2, 1, 1));
  Executor& executor = driver.executor();
  auto alone = driver.open(0, sampling);
  const auto wanted = driver.run({Driver::rows(alone, expected.prompt, Outputs::kLast)});
  const std::span<const TokenId> prompt = expected.prompt;
  for (int round = 0; round < 20; ++round) {
    auto sequence = driver.open(1, sampling);
    const Pass sender{
        .id = 0,
        .segments = {Driver::rows(sequence, prompt.first(prompt.size() - 1), Outputs::kNone)},
        .sends = 2};
    const Pass follower{.id = 1,
                        .segments = {Driver::rows(sequence, prompt.last(1), Outputs::kLast)},
                        .follows = 2};
    const int cut = round % 4;  // the sender is left there
    Completion completion;
    if (cut > 0) {
      executor.start(Group::kPrefill, {1, {&sender}, 0, cut});
      executor.start(Group::kDecode, {2, {&follower}, 0, cut});
      EXPECT_TRUE(executor.wait(TimePoint::max(), completion));
      EXPECT_TRUE(executor.wait(TimePoint::max(), completion));
    }
    executor.start(Group::kPrefill, {3, {&sender}, cut, 4});
    executor.start(Group::kDecode, {4, {&follower}, cut, 4});
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(executor.wait(TimePoint::max(), completion));
      if (completion.quantum == 3) {
        EXPECT_TRUE(completion.outputs.empty());
      } else {
        ASSERT_EQ(completion.outputs.size(), 1U);
        EXPECT_TRUE(same_output(completion.outputs[0], wanted[0]));
      }
    }
  }
}

TEST(CoreGroups, WaitReturnsAtTheDeadlineWhileBothRun) {
  const Expected expected("llama");
  Driver driver("llama", split(2, 1, 1));
  Executor& executor = driver.executor();
  EXPECT_EQ(executor.cores(Group::kAll), 2);
  EXPECT_EQ(executor.cores(Group::kPrefill), 1);
  EXPECT_EQ(executor.cores(Group::kDecode), 1);
  EXPECT_EQ(executor.description(), "cpu ref, 2 threads, kv f32, split prefill 1 decode 1");
  auto a = driver.open(0);
  auto b = driver.open(1);
  const Pass one{0, {Driver::rows(a, expected.prompt, Outputs::kLast)}};
  const Pass two{1, {Driver::rows(b, expected.prompt, Outputs::kLast)}};
  executor.start(Group::kPrefill, {1, {&one}, 0, 4});
  executor.start(Group::kDecode, {2, {&two}, 0, 4});
  Completion completion;
  int timeouts = 0;
  std::vector<uint64_t> done;
  TimePoint deadline{};  // at first one that has passed
  while (done.size() < 2) {
    if (executor.wait(deadline, completion)) {
      done.push_back(completion.quantum);
      EXPECT_EQ(completion.outputs.at(0).token, expected.greedy[0]);
    } else {
      ++timeouts;
      EXPECT_GE(std::chrono::steady_clock::now(), deadline);
    }
    deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  }
  EXPECT_THAT(done, ::testing::UnorderedElementsAre(1, 2));
  EXPECT_GE(timeouts, 0);
}

TEST(CoreGroups, AnExecutorMayEndWhileQuantaRun) {
  const Expected expected("llama");
  for (const bool whole : {false, true}) {
    Driver driver("llama", split(2, 1, 1));
    auto a = driver.open(0);
    auto b = driver.open(1);
    const Pass one{0, {Driver::rows(a, expected.prompt, Outputs::kLast)}};
    const Pass two{1, {Driver::rows(b, expected.prompt, Outputs::kLast)}};
    driver.executor().start(whole ? Group::kAll : Group::kPrefill, {1, {&one}, 0, 4});
    if (!whole) driver.executor().start(Group::kDecode, {2, {&two}, 0, 4});
    driver.end_executor();
  }
}

TEST(CoreGroups, RefusesGroupsThatCannotBe) {
  const auto checkpoint = Checkpoint::open(test::tiny("llama", "f32.gguf"));
  ASSERT_TRUE(checkpoint.ok());
  const auto model = build_model(*checkpoint);
  const auto refusal = [&](int threads, int prefill, int decode) {
    CpuOptions options;
    options.kernels = *find_kernels("ref");
    options.threads = threads;
    options.prefill_threads = prefill;
    options.decode_threads = decode;
    options.limits = {1, 1, 8, 1, 64, 1};
    const auto executor = make_cpu_executor(*model, *checkpoint, options);
    return executor.ok() ? "accepted" : executor.error().message;
  };
  EXPECT_EQ(refusal(2, 1, 1), "accepted");
  EXPECT_THAT(refusal(1, 1, 1), HasSubstr("1 prefill and 1 decode cores"));
  EXPECT_THAT(refusal(4, 3, 2), HasSubstr("fit into 4 threads"));
  EXPECT_THAT(refusal(2, 1, 0), HasSubstr("each needs at least 1"));
  EXPECT_THAT(refusal(2, -1, 1), HasSubstr("-1 prefill"));
}

class CoreGroupsDeathTest : public ::testing::Test {
 protected:
  CoreGroupsDeathTest() : driver_("llama", split(2, 1, 1)) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    a_ = driver_.open(0);
    b_ = driver_.open(1);
    one_ = {0, {Driver::rows(a_, prompt_, Outputs::kLast)}};
    two_ = {1, {Driver::rows(b_, prompt_, Outputs::kLast)}};
  }
  Executor& executor() { return driver_.executor(); }

  const Tokens prompt_ = {5, 6, 7, 8};
  Driver driver_;
  test::Sequence a_;
  test::Sequence b_;
  Pass one_;
  Pass two_;
};

TEST_F(CoreGroupsDeathTest, AllCoresNeverRunBesideAPartOfThem) {
  EXPECT_DEATH(
      {
        executor().start(Group::kDecode, {1, {&one_}, 0, 4});
        executor().start(Group::kAll, {2, {&two_}, 0, 4});
      },
      "all cores and a part of them");
}
TEST_F(CoreGroupsDeathTest, APassIsRunByOneGroup) {
  EXPECT_DEATH(
      {
        executor().start(Group::kDecode, {1, {&one_}, 0, 4});
        executor().start(Group::kPrefill, {2, {&one_}, 0, 4});
      },
      "pass 0 is run by another group");
}
TEST_F(CoreGroupsDeathTest, NobodyFollowsWhatNobodySends) {
  one_.sends = 3;
  two_.follows = 3;
  EXPECT_DEATH(executor().start(Group::kDecode, {1, {&two_}, 0, 4}), "follows board 3");
  EXPECT_DEATH(
      {
        executor().start(Group::kPrefill, {1, {&one_}, 0, 2});
        executor().start(Group::kDecode, {2, {&two_}, 0, 3});
      },
      "nobody sends layer 2");
}

// Over any run the spans of all cores add up to the time that passed, whoever ran.
TEST(CoreGroups, CoreTimeAddsUp) {
  const Expected expected("llama");
  Driver driver("llama", split(3, 1, 1));
  Executor& executor = driver.executor();
  auto a = driver.open(0);
  auto b = driver.open(1);
  const CoreTime at_first = executor.core_time();
  const TimePoint begin = std::chrono::steady_clock::now();
  double busy = 0;
  double barriers = 0;
  Completion completion;
  for (int i = 0; i < 12; ++i) {
    a.position = b.position = 0;
    const Pass one{0, {Driver::rows(a, expected.prompt, Outputs::kLast)}};
    const Pass two{1, {Driver::rows(b, expected.prompt, Outputs::kLast)}};
    const bool whole = i % 3 == 0;
    executor.start(whole ? Group::kAll : Group::kPrefill, {1, {&one}, 0, 4});
    if (!whole) executor.start(Group::kDecode, {2, {&two}, 0, 4});
    for (int done = 0; done < (whole ? 1 : 2); ++done) {
      ASSERT_TRUE(executor.wait(TimePoint::max(), completion));
      busy += completion.busy_core_seconds;
      barriers += completion.barrier_core_seconds;
      EXPECT_LE(completion.busy_core_seconds + completion.barrier_core_seconds,
                3 * seconds(completion.end - completion.start) + 1e-6);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const CoreTime now = executor.core_time();
  const double wall = seconds(std::chrono::steady_clock::now() - begin);
  EXPECT_NEAR(now.operators - at_first.operators, busy, 1e-6);
  EXPECT_NEAR(now.barriers - at_first.barriers, barriers, 1e-6);
  const double idle = now.idle - at_first.idle;
  EXPECT_GE(idle, 3 * 12 * 0.002);
  EXPECT_LE(busy + barriers + idle, 3 * wall + 1e-6);
  EXPECT_GT(busy + barriers + idle, 0);
}

TEST(CoreGroups, TheEndOfALayerIsTold) {
  const Expected expected("llama");
  Driver driver("llama", split(2, 1, 1));
  auto a = driver.open(0);
  const Pass pass{0, {Driver::rows(a, expected.prompt, Outputs::kLast)}};
  for (const Group g : {Group::kAll, Group::kPrefill, Group::kDecode}) {
    const TimePoint before = std::chrono::steady_clock::now();
    EXPECT_LT(driver.executor().last_layer_end(), before);
    driver.executor().start(g, {1, {&pass}, 0, 1});
    Completion completion;
    ASSERT_TRUE(driver.executor().wait(TimePoint::max(), completion));
    EXPECT_GE(driver.executor().last_layer_end(), completion.start);
    EXPECT_LE(driver.executor().last_layer_end(), completion.end);
    driver.executor().drop_pass(0);
  }
}

}  // namespace
}  // namespace weft
