#include "cli/simulate_tables.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/simulate_runs.h"
#include "cli/small_simulation_test.h"

namespace weft {
namespace {

TEST(SimulateTables, EveryConstantHasALine) {
  const std::string text = constants_text(small_chip(), true);
  for (const timing::Constant& constant : timing::constants())
    EXPECT_NE(text.find(fmt::format("| {} |", constant.name)), std::string::npos) << constant.name;
}

TEST(SimulateTables, TheCheckHasBothSides) {
  const std::string text = check_text(small_chip(), small_shape(), false);
  for (const char* line : {"3 layers, a step of 16 streams", "3 layers, 1024 rows of a prompt",
                           "gate and up, 577 rows", "attention of 8 streams, 4200 keys"})
    EXPECT_NE(text.find(line), std::string::npos) << text;
  EXPECT_GE(std::count(text.begin(), text.end(), '%'), 18);
}

TEST(SimulateTables, WhyARunHasNoFigures) {
  timing::ChipModel chip = small_chip();
  chip.hbm_bytes = 1 << 20;
  SimulateOptions options;
  SimulateProgress progress(sensitivity_work(options));
  const auto text = sensitivity_text(chip, small_shape(), options, progress);
  ASSERT_TRUE(text.ok());
  const size_t note = text->find("of memory");
  EXPECT_NE(note, std::string::npos) << *text;
  EXPECT_EQ(text->find("of memory", note + 1), std::string::npos) << "once";
  ASSERT_FALSE(progress.outcome().ok());
  EXPECT_EQ(progress.outcome().error().kind, ErrorKind::kExhausted);

  const std::vector<SimulateRow> rows = {[] {
    SimulateRow row;
    row.result.model = "m";
    row.note = "why there is none";
    return row;
  }()};
  EXPECT_NE(simulate_markdown(rows).find("why there is none"), std::string::npos);
}

TEST(SimulateSubjects, EachChipAndModelOnce) {
  SimulateOptions options;
  options.devices = {"910b3", "910b1", "910b3", "all"};
  options.models = {"qwen-7b", "qwen-7b"};
  const auto subjects = find_subjects(options);
  ASSERT_TRUE(subjects.ok()) << subjects.error().message;
  EXPECT_EQ(subjects->shapes.size(), 1U);
  std::vector<std::string> names;
  for (const timing::ChipModel& chip : subjects->chips) names.push_back(chip.name);
  EXPECT_EQ(names, (std::vector<std::string>{"910b3", "910b1", "article", "910b2", "910b4"}));
}

TEST(SimulateTables, OneRunThatHasFiguresIsAnOutcome) {
  SimulateProgress progress(1);
  SimulateRow row;
  row.note = "why there is none";
  progress.ended(row);
  EXPECT_FALSE(progress.outcome().ok());
  progress.ended({});
  EXPECT_TRUE(progress.outcome().ok());
}

}  // namespace
}  // namespace weft
