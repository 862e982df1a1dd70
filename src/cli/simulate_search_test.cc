#include "cli/simulate_search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/simulate_mixed.h"
#include "cli/small_simulation_test.h"

namespace weft {
namespace {

SimulateOptions small_load() {
  SimulateOptions options;
  options.context = 256;
  options.output = 16;
  options.rounds = 2;
  return options;
}

double rate(const SimulateRow& row) { return row.result.figures.output_rate; }
double ttft(const SimulateRow& row) { return *row.result.figures.ttft_mean; }
double busy(const SimulateRow& row) { return row.result.figures.engine->busy; }

TEST(SimulateSearch, TheGridHasEverySplitAndTarget) {
  SimulateOptions options;
  options.searched = {Mode::kSplit};
  const auto splits = search_grid(options, 16);
  ASSERT_FALSE(splits.empty());
  for (const SimulationSettings& settings : splits) {
    EXPECT_EQ(settings.mode, Mode::kSplit);
    EXPECT_GT(settings.decode_cores, 0);
    EXPECT_LT(settings.decode_cores, 16);
    EXPECT_GT(settings.itl_target, 0);
  }
  options.searched = {Mode::kFused, Mode::kSplit};
  EXPECT_GT(search_grid(options, 16).size(), splits.size());
  options.searched = {Mode::kSplit};
  for (const SimulationSettings& settings : search_grid(options, 1))
    EXPECT_EQ(settings.decode_cores, 0);  // nothing to share
}

TEST(SimulateSearch, TheBestIsTheBestOfWhatWasTried) {
  Simulation simulation(small_chip(), small_shape());
  const SimulateOptions options = small_load();
  SimulateProgress progress(0);
  const SimulateSearch found = search(simulation, options, 4, progress);
  ASSERT_TRUE(found.note.empty()) << found.note;
  EXPECT_EQ(found.tried.size(), search_grid(options, 4).size());
  for (const SimulateRow& row : found.tried) {
    ASSERT_TRUE(row.note.empty()) << row.note;
    EXPECT_LE(rate(row), rate(*found.most_tokens()));
    EXPECT_GE(ttft(row), ttft(*found.soonest_first_token()));
    EXPECT_LE(busy(row), busy(*found.busiest()));
    if (ttft(row) <= (1 - kSooner) * ttft(found.serial)) {
      ASSERT_NE(found.most_tokens_sooner(), nullptr);
      EXPECT_LE(rate(row), rate(*found.most_tokens_sooner()));
    }
  }
  const std::vector<SimulateSearch> all = {found, found};
  const auto json = search_json(all);
  EXPECT_EQ(json["searches"].size(), 2U);
  EXPECT_EQ(json["searches"][0]["most_tokens"]["output_tokens_per_second"],
            rate(*found.most_tokens()));
  EXPECT_EQ(json["searches"][1]["tried"].size(), found.tried.size());
  const std::string table = search_markdown(all);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4);
  for (const char* name : {"serial", "most tokens", "soonest first token", "busiest"}) {
    EXPECT_NE(table.find(name), std::string::npos);
    EXPECT_NE(search_text(found).find(name), std::string::npos);
  }
}

TEST(SimulateSearch, AModelThatDoesNotFitSaysSo) {
  timing::ChipModel chip = small_chip();
  chip.hbm_bytes = 30e6;
  Simulation simulation(chip, small_shape());
  SimulateProgress progress(0);
  const SimulateSearch found = search(simulation, small_load(), 4, progress);
  EXPECT_TRUE(found.tried.empty());
  EXPECT_NE(search_text(found).find("memory"), std::string::npos);
  EXPECT_NE(search_markdown(std::span(&found, 1)).find("does not fit"), std::string::npos);
  EXPECT_TRUE(search_json(std::span(&found, 1))["searches"][0]["most_tokens"].is_null());
}

TEST(SimulateMixed, TheBenchsWorkloadHasTheBenchsRows) {
  Simulation simulation(small_chip(), small_shape());
  SimulateOptions options;
  options.workload.prompts = {256};
  options.workload.then = PromptGroup{2, 128};
  options.workload.streams = 2;
  options.workload.outputs = 8;
  options.workload.quick = true;
  options.modes = {Mode::kSerial, Mode::kSplit};
  const auto phases = simulated_workload(options);
  ASSERT_TRUE(phases.ok());
  ASSERT_EQ(phases->size(), 2U);
  SimulateProgress progress(0);
  const MixedResult result = play_workload(simulation, *phases, options, progress);
  ASSERT_EQ(result.subjects.size(), 2U);
  EXPECT_EQ(result.subjects[1].name, "split 2+2");
  const std::vector<MixedRow> rows = rows_of(result);
  EXPECT_EQ(rows.size(), 6U);  // all, and each phase
  for (const MixedRow& row : rows) {
    EXPECT_EQ(row.figures.failed, 0);
    EXPECT_GT(row.figures.requests, 0);
    EXPECT_GT(row.figures.alone.count, 0U);  // its streams' gaps
  }
  EXPECT_NE(mixed_table(result).find("in simulated time"), std::string::npos);
}

TEST(SimulateMixed, AWorkloadTakesOneNumberInFlight) {
  SimulateOptions options;
  options.workload.kind = WorkloadKind::kClosed;
  options.in_flight = {3};
  const auto phases = simulated_workload(options);
  ASSERT_TRUE(phases.ok());
  EXPECT_EQ(phases->front().in_flight, 3);
  options.in_flight = {3, 4};
  EXPECT_NE(simulated_workload(options).error().message.find("--in-flight 3,4"), std::string::npos);
}

}  // namespace
}  // namespace weft
