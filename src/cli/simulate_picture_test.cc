#include <gtest/gtest.h>

#include <string_view>

#include "cli/simulate_timeline.h"
#include "cli/small_simulation_test.h"

namespace weft {
namespace {

int count(std::string_view text, std::string_view part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

// What a program without a browser's style sheets draws too.
void expect_plain_svg(const std::string& svg) {
  EXPECT_TRUE(svg.starts_with("<svg xmlns='http://www.w3.org/2000/svg'"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* part : {"var(", "nan", "inf", "href", "@media"})
    EXPECT_EQ(count(svg, part), 0) << part;
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
}

SimulateRow closed(Simulation& simulation, int in_flight, Mode mode) {
  MixedPhase phase;
  phase.in_flight = in_flight;
  phase.requests.assign(static_cast<size_t>(2 * in_flight), {{}, 256, 16});
  return row_of(simulation, phase, in_mode(mode));
}

TEST(SimulatePicture, OnePointIsSeen) {
  Simulation simulation(small_chip(), small_shape());
  const SimulateRow row = closed(simulation, 3, Mode::kFused);
  const std::string svg = simulate_svg(std::span(&row, 1));
  expect_plain_svg(svg);
  EXPECT_EQ(count(svg, "<circle"), 3);  // one a chart
  EXPECT_EQ(count(svg, ">3</text>"), 3);
  EXPECT_EQ(count(svg, ">1</text>") + count(svg, ">2</text>"), 0);  // did not run
  EXPECT_EQ(count(svg, "dasharray"), 0);
}

TEST(SimulatePicture, APointForEachRunAndAutoDashed) {
  Simulation simulation(small_chip(), small_shape());
  std::vector<SimulateRow> rows;
  for (const int in_flight : {1, 3}) {
    for (const Mode mode : {Mode::kFused, Mode::kAuto})
      rows.push_back(closed(simulation, in_flight, mode));
  }
  rows.emplace_back().note = "does not fit";
  const std::string svg = simulate_svg(rows);
  expect_plain_svg(svg);
  EXPECT_EQ(count(svg, "<circle"), 12);
  EXPECT_EQ(count(svg, "dasharray"), 4);  // of its lines and its place in the legend
  for (const char* unit : {"tokens a second", "seconds", "milliseconds"})
    EXPECT_EQ(count(svg, std::string(">") + unit + "<"), 1) << unit;
  EXPECT_EQ(count(svg, "requests in flight"), 3);
}

TEST(SimulateTimeline, EachModeHasItsLanes) {
  Simulation simulation(small_chip(), small_shape());
  const MixedPhase phase = timeline_phase(2, 1000, 64);
  std::vector<SimulateRow> rows;
  for (const Mode mode : {Mode::kSerial, Mode::kFused, Mode::kSplit})
    rows.push_back(row_of(simulation, phase, in_mode(mode), true));
  rows.emplace_back().note = "does not fit";
  const std::string svg = simulate_timeline(rows);
  expect_plain_svg(svg);
  EXPECT_EQ(count(svg, ">all cores<"), 2);
  EXPECT_EQ(count(svg, ">prompts' cores<"), 1);
  EXPECT_EQ(count(svg, "first token after"), 3);
  EXPECT_NE(svg.find("a prompt of 1,000 tokens comes to 2 running streams"), std::string::npos);
}

// Two streams, one of which ended and has its next, and modes of which one is done long before
// the other has a first token.
TEST(SimulateTimeline, ShowsTheLastFirstTokenAndStreamsOnce) {
  const auto at = [](int ms) { return TimePoint(std::chrono::milliseconds(ms)); };
  const auto row = [&](int first_token) {
    SimulateRow row;
    row.result.cores = 4;
    PhaseRecord& record = row.result.records.emplace_back();
    record.streams = 2;
    record.end = at(first_token + 10);
    record.requests = {
        {.stream = true, .prompt = 1, .sent = at(0), .tokens = {at(1), at(40)}, .error = {}},
        {.stream = true, .cut = true, .prompt = 1, .sent = at(0), .tokens = {at(2)}, .error = {}},
        {.stream = true, .cut = true, .prompt = 1, .sent = at(40), .tokens = {at(50)}, .error = {}},
        {.prompt = 9, .sent = at(0), .tokens = {at(first_token)}, .error = {}}};
    return row;
  };
  const std::vector<SimulateRow> rows = {row(100), row(5000)};
  const std::string svg = simulate_timeline(rows);
  expect_plain_svg(svg);
  EXPECT_NE(svg.find("comes to 2 running streams"), std::string::npos);
  EXPECT_EQ(count(svg, "stroke='#2f6fd0'"), 6);
  EXPECT_NE(svg.find(">5000"), std::string::npos) << svg;
}

TEST(SimulateTimeline, NothingToShowIsAPictureToo) {
  SimulateRow row;
  row.note = "does not fit";
  expect_plain_svg(simulate_timeline(std::span(&row, 1)));
  expect_plain_svg(simulate_timeline({}));
}

}  // namespace
}  // namespace weft
