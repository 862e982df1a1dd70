#include "cli/simulate_tables.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace weft
