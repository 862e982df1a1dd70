#include "cli/mixed_figures.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TimePoint ms(int64_t t) { return TimePoint(std::chrono::milliseconds(t)); }

// Tokens at `first`, then each `gap` ms.
RequestRecord request(int64_t sent, int64_t first, int64_t gap, int tokens, int prompt = 100) {
  RequestRecord record{.prompt = prompt, .sent = ms(sent), .tokens = {}, .error = {}};
  for (int i = 0; i < tokens; ++i) record.tokens.push_back(ms(first + i * gap));
  return record;
}

PhaseRecord phase(int64_t end, std::vector<RequestRecord> requests) {
  return {.name = "x",
          .begin = ms(0),
          .start = ms(0),
          .end = ms(end),
          .requests = std::move(requests),
          .before = {},
          .after = {}};
}

MixedFigures figures(const PhaseRecord& record, MixedTargets targets = {.itl = 0.05, .ttft = 1},
                     std::optional<int> prompt = {}) {
  const std::vector<MixedRepeat> repeats = {{&record}};
  return figures_of(repeats, targets, prompt);
}

TEST(Percentile, IsLinearBetweenTheNearest) {
  EXPECT_DOUBLE_EQ(percentile({3}, 0.99), 3);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(percentile({0, 10}, 0.99), 9.9);
  EXPECT_DOUBLE_EQ(percentile({5, 1}, 0), 1);
  EXPECT_DOUBLE_EQ(percentile({5, 1}, 1), 5);
}

// A chat stream with a token each 10 ms; a prompt is read from 100 to 160 ms, which makes one gap
// of 60 ms.
PhaseRecord stalled() {
  RequestRecord stream = request(-50, 0, 10, 11);
  stream.stream = stream.continued = stream.cut = true;
  for (int64_t t = 160; t <= 200; t += 10) stream.tokens.push_back(ms(t));
  return phase(200, {stream, request(100, 160, 20, 3, 1000)});
}

TEST(Gaps, AreToldApartByWhatRanBesideThem) {
  const PhaseRecord record = stalled();
  const std::vector<Gap> gaps = gaps_of(record);
  ASSERT_EQ(gaps.size(), 17U);
  int prompts = 0;
  for (const Gap& gap : gaps) {
    const bool stalls = gap.begin == ms(100) && gap.end == ms(160);
    EXPECT_EQ(gap.kind == GapKind::kPrompt, stalls);
    prompts += stalls ? 1 : 0;
  }
  EXPECT_EQ(prompts, 1);
}

// Tokens of one step arrive one after the other, and a step that runs when a prompt comes is not
// its work.
TEST(Gaps, ATouchIsNoOverlap) {
  RequestRecord stream = request(-50, 0, 10, 11);
  stream.stream = stream.continued = true;
  for (const GapKind kind : {GapKind::kAlone, GapKind::kPrompt}) {
    const int64_t much = kind == GapKind::kPrompt ? 3 : 2;
    const PhaseRecord record = phase(100, {stream, request(30 - much, 50 + much, 10, 1)});
    for (const Gap& gap : gaps_of(record)) {
      const bool edge = gap.begin == ms(20) || gap.begin == ms(50);
      const bool inside = gap.begin == ms(30) || gap.begin == ms(40);
      EXPECT_EQ(gap.kind, edge ? kind : inside ? GapKind::kPrompt : GapKind::kAlone);
    }
  }
}

TEST(Gaps, AChatStreamThatBeginsIsNotThePromptThatIsMeasured) {
  RequestRecord stream = request(0, 10, 10, 10);
  RequestRecord other = request(42, 48, 10, 3);
  stream.stream = other.stream = true;
  const PhaseRecord record = phase(100, {stream, other});
  for (const Gap& gap : gaps_of(record)) {
    EXPECT_EQ(gap.kind, gap.request == 0 && gap.begin == ms(40) ? GapKind::kChat : GapKind::kAlone);
  }
}

TEST(MixedFigures, OfStreamsBesideAPrompt) {
  const MixedFigures f = figures(stalled());
  EXPECT_EQ(f.requests, 1);
  EXPECT_EQ(f.failed, 0);
  EXPECT_DOUBLE_EQ(f.wall, 0.2);
  EXPECT_DOUBLE_EQ(*f.ttft_p50, 0.06);
  EXPECT_EQ(f.alone.count, 14U);
  EXPECT_DOUBLE_EQ(f.alone.p99, 0.01);
  EXPECT_EQ(f.during.count, 1U);
  EXPECT_DOUBLE_EQ(f.during.max, 0.06);
  EXPECT_EQ(f.all.count, 17U);
  EXPECT_DOUBLE_EQ(*f.stall, 0.05);
  // One token falls into the 60 ms, 14 into the other 140.
  EXPECT_NEAR(*f.rate_during, 1 / 0.06, 1e-9);
  EXPECT_NEAR(*f.rate_alone, 14 / 0.14, 1e-9);
  EXPECT_NEAR(f.output_rate, (15 + 3) / 0.2, 1e-9);
  EXPECT_FALSE(f.engine);
}

TEST(MixedFigures, GoodRequestsMeetBothTargets) {
  const PhaseRecord record = stalled();
  // The stream's gap of 60 ms misses, its mean does not; the prompt meets both.
  EXPECT_DOUBLE_EQ(figures(record).goodput, 1 / 0.2);
  EXPECT_DOUBLE_EQ(figures(record).goodput_tpot, 2 / 0.2);
  EXPECT_DOUBLE_EQ(figures(record, {.itl = 0.06, .ttft = 1}).goodput, 2 / 0.2);
  EXPECT_DOUBLE_EQ(figures(record, {.itl = 0.06, .ttft = 0.05}).goodput, 1 / 0.2);
  EXPECT_DOUBLE_EQ(figures(record, {.itl = 0.001, .ttft = 1}).goodput, 0);
}

TEST(MixedFigures, WithoutStreamsGapsAreOfAllRequests) {
  const PhaseRecord record =
      phase(1000, {request(0, 100, 10, 11), request(150, 175, 10, 11, 2000)});
  const MixedFigures f = figures(record);
  EXPECT_EQ(f.during.count, 3U);  // of the first, from 150 to 180
  EXPECT_EQ(f.alone.count, 17U);
  EXPECT_FALSE(f.rate_during);
  EXPECT_DOUBLE_EQ(*f.short_ttft_mean, 0.1);
  EXPECT_DOUBLE_EQ(*f.ttft_mean, 0.0625);
  EXPECT_DOUBLE_EQ(*f.tpot_p50, 0.01);
  const MixedFigures longer = figures(record, {.itl = 0.05, .ttft = 1}, 2000);
  EXPECT_EQ(longer.requests, 1);
  EXPECT_DOUBLE_EQ(*longer.ttft_mean, 0.025);
  EXPECT_FALSE(longer.short_ttft_mean);
}

TEST(MixedFigures, AFailedRequestCountsAndIsNotGood) {
  PhaseRecord record = phase(100, {request(0, 10, 10, 3), request(0, 0, 0, 0)});
  record.requests[1].error = "503";
  const MixedFigures f = figures(record);
  EXPECT_EQ(f.requests, 2);
  EXPECT_EQ(f.failed, 1);
  EXPECT_DOUBLE_EQ(f.goodput, 1 / 0.1);
  EXPECT_FALSE(f.stall) << "its prompt was being read all the time";
}

TEST(MixedFigures, TheLargestGapIsTheMedianOfRepeats) {
  const PhaseRecord small = phase(100, {request(0, 10, 10, 3)});
  const PhaseRecord middle = phase(100, {request(0, 10, 20, 3)});
  const PhaseRecord large = phase(100, {request(0, 10, 40, 3)});
  const std::vector<MixedRepeat> repeats = {{&small}, {&large}, {&middle}};
  EXPECT_DOUBLE_EQ(figures_of(repeats, {}).alone.max, 0.02);
  const std::vector<MixedRepeat> one = {{&small, &large, &middle}};
  EXPECT_DOUBLE_EQ(figures_of(one, {}).alone.max, 0.04);
}

TEST(MixedFigures, EngineTimesAreSharesOfTheCores) {
  PhaseRecord record = stalled();
  record.before.emplace();
  record.before->busy_core_seconds = 1;
  record.before->wall_seconds = 1;
  record.after = record.before;
  record.after->busy_core_seconds += 1.8;
  record.after->barrier_core_seconds += 0.15;
  record.after->idle_core_seconds += 0.05;
  record.after->roofline_core_seconds = 0.9;
  record.after->wall_seconds += 1;
  record.after->host_seconds += 0.01;
  record.after->quanta += 7;
  const MixedFigures f = figures(record);
  ASSERT_TRUE(f.engine);
  EXPECT_NEAR(f.engine->busy, 0.9, 1e-12);
  EXPECT_NEAR(f.engine->barrier, 0.075, 1e-12);
  EXPECT_NEAR(f.engine->idle, 0.025, 1e-12);
  EXPECT_NEAR(f.engine->roofline.value(), 0.45, 1e-12);
  EXPECT_NEAR(f.engine->host, 0.01, 1e-12);
  EXPECT_EQ(f.engine->quanta, 7U);
  record.after->roofline_core_seconds.reset();  // of a device whose limits nobody measured
  EXPECT_FALSE(figures(record).engine->roofline);
}

}  // namespace
}  // namespace weft
