#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/small_model_test.h"

namespace weft {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

class Score : public testing::Test {
 protected:
  Score() {
    options_.load = small_model();
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    options_.ids = testing::TempDir() + "weft_ids_" + name;
    options_.output = testing::TempDir() + "weft_score_" + name;
  }
  ~Score() override {
    std::filesystem::remove(options_.ids);
    std::filesystem::remove(options_.output);
  }

  Json score(const std::string& ids) {
    std::ofstream(options_.ids) << ids;
    const auto result = score_command(options_);
    EXPECT_TRUE(result.ok()) << result.error().message;
    return Json::parse(std::ifstream(options_.output));
  }
  std::string error(const std::string& ids) {
    std::ofstream(options_.ids) << ids;
    const auto result = score_command(options_);
    return result.ok() ? "no error" : result.error().message;
  }

  ScoreOptions options_;
};

std::string ids_text(int count) {
  Json ids = Json::array();
  for (int i = 0; i < count; ++i) ids.push_back((i * 37 + 11) % 1200);
  return ids.dump();
}

TEST_F(Score, ReportsEachPosition) {
  const Json out = score(ids_text(150));
  EXPECT_EQ(out["schema"], "weft.score.v1");
  EXPECT_EQ(out["tokens"], 150);
  EXPECT_GT(out["nll"], 0);
  ASSERT_EQ(out["positions"].size(), 150U);
  for (const Json& position : out["positions"]) {
    ASSERT_EQ(position["top"].size(), 8U);
    for (size_t i = 1; i < 8; ++i) EXPECT_GE(position["top"][i - 1][1], position["top"][i][1]);
  }
}

TEST_F(Score, APrefixHasTheSameBits) {
  const Json whole = score(ids_text(150));
  const Json prefix = score(ids_text(70));
  for (size_t i = 0; i < 70; ++i) EXPECT_EQ(whole["positions"][i], prefix["positions"][i]) << i;
}

TEST_F(Score, ASingleTokenHasNoNll) { EXPECT_TRUE(score("[5]")["nll"].is_null()); }

TEST_F(Score, RefusesWhatAreNoIds) {
  EXPECT_THAT(error("[1, 1200]"), HasSubstr("1200 is no token id"));
  EXPECT_THAT(error("[1, -1]"), HasSubstr("-1"));
  EXPECT_THAT(error("[1, 2.5]"), HasSubstr("2.5"));
  for (const char* text : {"", "{}", "[]", "[[1]]", "[1", "nonsense", "7"})
    EXPECT_THAT(error(text), HasSubstr("not a JSON array of token ids")) << text;
  EXPECT_THAT(error(std::string(100000, '[')), HasSubstr("not a JSON array of token ids"));
  EXPECT_THAT(error(ids_text(513)), HasSubstr("513 ids"));
}

}  // namespace
}  // namespace weft
