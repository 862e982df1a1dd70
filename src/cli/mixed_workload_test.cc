#include "cli/mixed_workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace weft {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<MixedPhase> workload(WorkloadKind kind, bool large = false, bool quick = false) {
  WorkloadOptions options;
  options.kind = kind;
  options.quick = quick;
  return make_workload(complete_workload(options, large)).value();
}

TEST(MixedWorkload, LongPromptsComeOneByOneAndThenAtOnce) {
  const auto phases = workload(WorkloadKind::kLong);
  ASSERT_EQ(phases.size(), 4U);
  EXPECT_EQ(phases[1].name, "3,000");
  EXPECT_EQ(phases[1].streams, 4);
  EXPECT_EQ(phases[1].requests, (std::vector<PlannedRequest>{{{}, 3000, 64}}));
  EXPECT_EQ(phases[3].name, "8 x 1,000");
  EXPECT_EQ(phases[3].requests, (std::vector<PlannedRequest>(8, {{}, 1000, 64})));
  EXPECT_EQ(longest_sequence(phases), 7064);
  EXPECT_EQ(work_of(phases), 11 * 1000U + 8 * 1000U + 11 * 64U);
}

TEST(MixedWorkload, LargeModelsGetShorterPrompts) {
  const auto phases = workload(WorkloadKind::kLong, true);
  ASSERT_EQ(phases.size(), 3U);
  EXPECT_EQ(phases[1].name, "2,000");
  EXPECT_EQ(phases[2].requests, (std::vector<PlannedRequest>(8, {{}, 500, 64})));
  EXPECT_LT(work_of(workload(WorkloadKind::kLong, true, true)), work_of(phases));
}

TEST(MixedWorkload, WhatIsAskedForStays) {
  WorkloadOptions options;
  options.prompts = {77};
  options.then = PromptGroup{};
  options.streams = 0;
  options.outputs = 5;
  const auto phases = make_workload(complete_workload(options, false)).value();
  ASSERT_EQ(phases.size(), 1U);
  EXPECT_EQ(phases[0].streams, 0);
  EXPECT_EQ(phases[0].alone, Duration::zero());
  EXPECT_EQ(phases[0].requests, (std::vector<PlannedRequest>{{{}, 77, 5}}));
}

TEST(MixedWorkload, TheClosedLoopMixesLengths) {
  const auto phases = workload(WorkloadKind::kClosed);
  ASSERT_EQ(phases.size(), 1U);
  EXPECT_EQ(phases[0].in_flight, 8);
  std::map<int, int> lengths;
  for (const PlannedRequest& request : phases[0].requests) {
    ++lengths[request.prompt];
    EXPECT_EQ(request.output, 128);
    EXPECT_EQ(request.at, Duration::zero());
  }
  EXPECT_EQ(phases[0].requests.size(), 64U);
  EXPECT_NEAR(lengths[200], 0.7 * 64, 12);
  EXPECT_NEAR(lengths[500], 0.2 * 64, 10);
  EXPECT_NEAR(lengths[2000], 0.1 * 64, 8);
}

TEST(MixedWorkload, PoissonArrivalsKeepTheirRate) {
  WorkloadOptions options;
  options.kind = WorkloadKind::kPoisson;
  options.requests = 20000;
  options.rate = 5;
  const auto phases = make_workload(complete_workload(options, false)).value();
  const auto& requests = phases[0].requests;
  EXPECT_EQ(phases[0].in_flight, 0);
  EXPECT_TRUE(std::is_sorted(requests.begin(), requests.end(),
                             [](const auto& a, const auto& b) { return a.at < b.at; }));
  EXPECT_NEAR(weft::seconds(requests.back().at), 4000, 120);
  // Of exponential gaps 1 - 1/e are below the mean.
  int below = 0;
  for (size_t i = 1; i < requests.size(); ++i)
    below += requests[i].at - requests[i - 1].at < milliseconds(200) ? 1 : 0;
  EXPECT_NEAR(below / 20000.0, 0.632, 0.02);
}

TEST(MixedWorkload, ArrivalsThatNobodyWaitsForAreAnError) {
  for (const WorkloadKind kind : {WorkloadKind::kPoisson, WorkloadKind::kBurst}) {
    WorkloadOptions options;
    options.kind = kind;
    options.in_flight = 1024;
    options.requests = 12000;
    options.rate = 1e-6;
    const auto phases = make_workload(complete_workload(options, false));
    ASSERT_FALSE(phases.ok());
    for (const char* part : {"--rate 1e-06", "12000", "1000000 s"})
      EXPECT_THAT(phases.error().message, HasSubstr(part));
  }
}

TEST(MixedWorkload, StreamsBeyondWhatRunsAtOnceAreAnError) {
  WorkloadOptions options;
  options.streams = 256;
  EXPECT_EQ(*sequences_of(*make_workload(complete_workload(options, false)), 256), 256);
  options.streams = 257;
  const auto refused = sequences_of(*make_workload(complete_workload(options, false)), 256);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("--streams 257"));
}

TEST(MixedWorkload, ATraceThatIsEmptyOrMissingIsNamed) {
  WorkloadOptions options;
  options.kind = WorkloadKind::kTrace;
  for (const auto& [path, part] : {std::pair("/dev/null", "/dev/null has no requests"),
                                   std::pair("/dev/null/x", "cannot read /dev/null/x")}) {
    options.trace = path;
    const auto phases = make_workload(complete_workload(options, false));
    ASSERT_FALSE(phases.ok());
    EXPECT_THAT(phases.error().message, HasSubstr(part));
  }
}

TEST(MixedWorkload, BurstsArriveTogether) {
  WorkloadOptions options;
  options.kind = WorkloadKind::kBurst;
  options.requests = 20;
  options.in_flight = 8;
  const auto requests = make_workload(complete_workload(options, false)).value()[0].requests;
  EXPECT_EQ(requests[0].at, requests[7].at);
  EXPECT_LT(requests[7].at, requests[8].at);
  EXPECT_EQ(requests[16].at, requests[19].at);
}

TEST(MixedWorkload, ASeedRepeatsThePlan) {
  WorkloadOptions options;
  options.kind = WorkloadKind::kPoisson;
  const auto plan = [&](uint64_t seed) {
    options.seed = seed;
    return make_workload(complete_workload(options, false)).value()[0].requests;
  };
  EXPECT_EQ(plan(3), plan(3));
  EXPECT_NE(plan(3), plan(4));
}

TEST(MixedWorkload, AShortPromptFollowsALongOne) {
  const auto phases = workload(WorkloadKind::kShortAfterLong);
  EXPECT_EQ(phases[0].requests,
            (std::vector<PlannedRequest>{{{}, 3000, 64}, {milliseconds(200), 128, 64}}));
}

TEST(ParseArrivals, ReadsSortsAndSkips) {
  const auto requests = parse_arrivals(
      "arrival,prompt,output\n# a comment\n\n2.5, 300, 20\r\n0.25,100,10\n", "trace.csv");
  ASSERT_TRUE(requests.ok()) << requests.error().message;
  EXPECT_THAT(*requests, ElementsAre(PlannedRequest{milliseconds(250), 100, 10},
                                     PlannedRequest{milliseconds(2500), 300, 20}));
}

TEST(ParseArrivals, AnErrorNamesTheLine) {
  for (const char* line : {"1,2", "1,2,x", "-1,2,3", "nan,2,3", "1,0,3", "1,2,0", "1,2,3,4",
                           "1,2,99999999", "x,2,3"}) {
    const auto requests = parse_arrivals(std::string("0,1,1\n") + line + "\n", "trace.csv");
    ASSERT_FALSE(requests.ok()) << line;
    EXPECT_THAT(requests.error().message, HasSubstr("trace.csv, line 2")) << line;
  }
  EXPECT_FALSE(parse_arrivals("arrival,prompt,output\n", "trace.csv").ok());
}

TEST(ParsePromptGroup, ReadsCountAndLength) {
  EXPECT_EQ(parse_prompt_group("8x1000")->count, 8);
  EXPECT_EQ(parse_prompt_group("8x1000")->tokens, 1000);
  EXPECT_EQ(parse_prompt_group("none")->count, 0);
  for (const char* text : {"", "8", "x", "8x", "0x5", "8x0", "-1x5", "8x5x5"})
    EXPECT_FALSE(parse_prompt_group(text).ok()) << text;
}

TEST(RandomPrompt, RepeatsForAnIndexAndSharesNoPrefix) {
  std::vector<TokenId> vocabulary(1000);
  std::iota(vocabulary.begin(), vocabulary.end(), 5);
  const auto prompt = random_prompt(1, 2, 300, vocabulary);
  EXPECT_EQ(prompt.size(), 300U);
  EXPECT_EQ(prompt, random_prompt(1, 2, 300, vocabulary));
  for (const auto& other :
       {random_prompt(1, 3, 300, vocabulary), random_prompt(2, 2, 300, vocabulary)}) {
    EXPECT_FALSE(std::equal(prompt.begin(), prompt.begin() + 8, other.begin()));
  }
}

}  // namespace
}  // namespace weft
