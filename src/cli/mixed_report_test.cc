#include "cli/mixed_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/mixed_picture.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;

TimePoint ms(int64_t t) { return TimePoint(std::chrono::milliseconds(t)); }

PhaseRecord phase(const std::string& name, int64_t first, std::vector<int> prompts) {
  PhaseRecord record{.name = name,
                     .begin = ms(0),
                     .start = ms(10),
                     .end = ms(first + 100),
                     .requests = {},
                     .before = {},
                     .after = {}};
  RequestRecord stream;
  stream.stream = stream.continued = stream.cut = true;
  for (int64_t t = 0; t <= first + 100; t += 10) stream.tokens.push_back(ms(t));
  record.requests.push_back(stream);
  for (const int prompt : prompts) {
    record.requests.push_back(
        {.prompt = prompt, .sent = ms(10), .tokens = {ms(first), ms(first + 20)}, .error = {}});
  }
  return record;
}

MixedResult result() {
  MixedResult result;
  result.model = "tiny <model>";
  result.cpu = "a cpu";
  result.executor = "cpu ref";
  result.workload = "long";
  result.transport = "in process";
  result.targets = {.itl = 0.06, .ttft = 2};
  result.subjects = {{.name = "serial",
                      .repeats = {{phase("1,000", 2010, {1000}), phase("mix", 500, {200, 500})}},
                      .error = {}},
                     {.name = "http://127.0.0.1:1",
                      .repeats = {{phase("1,000", 1010, {1000})}},
                      .error = "it broke"}};
  return result;
}

TEST(MixedReport, RowsAreOfAllPhasesAndThenOfEach) {
  std::vector<std::string> titles;
  for (const MixedRow& row : rows_of(result()))
    titles.push_back(row.subject + "|" + row.phase + "|" + std::to_string(row.prompt.value_or(0)));
  EXPECT_EQ(titles, (std::vector<std::string>{"serial||0", "http://127.0.0.1:1||0",
                                              "serial|1,000|0", "http://127.0.0.1:1|1,000|0",
                                              "serial|mix|200", "serial|mix|500"}));
}

TEST(MixedReport, TheTableShowsFiguresAndErrors) {
  const std::string table = mixed_table(result());
  EXPECT_THAT(table, HasSubstr("targets: gaps 60 ms, first token 2.0 s"));
  EXPECT_THAT(table, HasSubstr("prompt: 1,000\n"));
  EXPECT_THAT(table, HasSubstr("prompt: mix, of 500 tokens\n"));
  EXPECT_THAT(table, HasSubstr("2.00 s"));
  EXPECT_THAT(table, HasSubstr("http://127.0.0.1:1: it broke\n"));
}

TEST(MixedReport, OfSeveralRepeatsTheLargestGapIsNamedToo) {
  MixedResult several = result();
  EXPECT_THAT(mixed_table(several), Not(HasSubstr("of all repeats")));
  PhaseRecord slow = phase("1,000", 2010, {1000});
  std::vector<TimePoint>& tokens = slow.requests.front().tokens;
  tokens.erase(tokens.begin() + 100, tokens.begin() + 130);
  several.subjects[0].repeats.push_back({slow});
  several.subjects[0].repeats.push_back({phase("1,000", 2010, {1000})});
  EXPECT_THAT(mixed_table(several), HasSubstr("of all repeats: serial 310 ms"));
  EXPECT_EQ(mixed_json(several)["rows"][0]["gaps"]["during"]["largest_ms"], 310.0);
  EXPECT_EQ(mixed_json(several)["rows"][0]["gaps"]["during"]["max_ms"], 10.0);
}

TEST(MixedReport, MoreThanTheRooflineIsExplained) {
  MixedResult fast = result();
  PhaseRecord& record = fast.subjects[0].repeats[0][0];
  EngineStats stats;
  stats.wall_seconds = 1;
  stats.busy_core_seconds = 1;
  stats.roofline_core_seconds = 0.5;
  record.before = EngineStats();
  record.after = stats;
  EXPECT_THAT(mixed_table(fast), Not(HasSubstr("over 100 %")));
  record.after->roofline_core_seconds = 1.5;
  EXPECT_THAT(mixed_table(fast), HasSubstr("150.0 %"));
  EXPECT_THAT(mixed_table(fast), HasSubstr("over 100 % of the roofline"));
}

TEST(MixedReport, JsonCarriesSchemaMachineLimitsAndRows) {
  const auto json = mixed_json(result());
  EXPECT_EQ(json["schema"], "weft.bench.mixed.v1");
  EXPECT_EQ(json["machine"]["cpu"], "a cpu");
  EXPECT_EQ(json["limits"]["itl_target_ms"], 60.0);
  ASSERT_EQ(json["rows"].size(), 6U);
  EXPECT_EQ(json["rows"][0]["phase"], "all");
  EXPECT_EQ(json["rows"][2]["ttft_seconds"]["p50"], 2.0);
  EXPECT_EQ(json["rows"][2]["engine"], nullptr);
  EXPECT_EQ(json["rows"][5]["prompt"], 500);
  EXPECT_EQ(json["errors"]["http://127.0.0.1:1"], "it broke");
}

TEST(MixedReport, NothingMeasuredIsStillAReport) {
  MixedResult empty = result();
  for (MixedSubject& subject : empty.subjects) subject.repeats.clear();
  EXPECT_TRUE(rows_of(empty).empty());
  EXPECT_THAT(mixed_table(empty), HasSubstr("it broke"));
  EXPECT_THAT(mixed_page(empty), HasSubstr("it broke"));
}

TEST(MixedPicture, ShowsEachSubjectAndEscapesNames) {
  const std::string page = mixed_page(result());
  EXPECT_THAT(page, HasSubstr("serial: a prompt of 1,000 tokens, its first token after 2.00 s"));
  EXPECT_THAT(page, HasSubstr("tiny &lt;model&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("tiny <model>")));
  EXPECT_THAT(page, Not(HasSubstr("http-equiv")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  size_t pictures = 0;
  for (size_t at = page.find("<svg "); at != std::string::npos; at = page.find("<svg ", at + 1))
    ++pictures;
  EXPECT_EQ(pictures, 2U);
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(mixed_svg(result()), Not(HasSubstr("var(")));  // unknown to many viewers
}

}  // namespace
}  // namespace weft
