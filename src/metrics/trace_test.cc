#include "metrics/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

using Json = nlohmann::json;
using std::chrono::microseconds;

std::filesystem::path temporary(const char* name) {
  return std::filesystem::path(testing::TempDir()) / name;
}

Json read(const std::filesystem::path& path) { return Json::parse(std::ifstream(path)); }

TEST(TraceWriter, WritesAnEventForEachQuantum) {
  const std::filesystem::path path = temporary("weft_trace_events.json");
  {
    auto trace = TraceWriter::create(path);
    ASSERT_TRUE(trace.ok());
    (*trace)->quantum({.group = 1,
                       .start = TimePoint(microseconds(1500)),
                       .end = TimePoint(microseconds(1750)),
                       .layer_begin = 3,
                       .layer_end = 7,
                       .decode_rows = 0,
                       .prefill_rows = 256,
                       .quantum = 42,
                       .pass = 2,
                       .predicted_seconds = 200e-6,
                       .busy_core_seconds = 480e-6});
    (*trace)->quantum({.start = TimePoint(microseconds(1750)),
                       .end = TimePoint(microseconds(1800)),
                       .layer_end = 30,
                       .decode_rows = 4});
  }
  const Json events = read(path);
  ASSERT_EQ(events.size(), 5U);
  for (int group = 0; group < 3; ++group) {
    EXPECT_EQ(events[group]["name"], "thread_name");
    EXPECT_EQ(events[group]["ph"], "M");
    EXPECT_EQ(events[group]["tid"], group);
  }
  EXPECT_EQ(events[3], Json::parse(R"({"name": "prefill", "ph": "X", "pid": 1, "tid": 1,
      "ts": 1500.0, "dur": 250.0, "args": {"quantum": 42, "pass": 2, "layer_begin": 3,
      "layer_end": 7, "decode_rows": 0, "prefill_rows": 256, "predicted_us": 200.0,
      "busy_core_us": 480.0}})"));
  EXPECT_EQ(events[4]["name"], "decode");
  EXPECT_EQ(events[4]["tid"], 0);
}

TEST(TraceWriter, KeepsOrderOverManyBuffers) {
  constexpr uint64_t kQuanta = 5000;
  const std::filesystem::path path = temporary("weft_trace_many.json");
  {
    auto trace = TraceWriter::create(path);
    ASSERT_TRUE(trace.ok());
    for (uint64_t i = 0; i < kQuanta; ++i)
      (*trace)->quantum({.decode_rows = 1, .prefill_rows = 1, .quantum = i});
  }
  const Json events = read(path);
  ASSERT_EQ(events.size(), 3 + kQuanta);
  for (uint64_t i = 0; i < kQuanta; ++i) ASSERT_EQ(events[3 + i]["args"]["quantum"], i);
}

TEST(TraceWriter, AnUnwritablePathIsAnErrorThatNamesIt) {
  const auto trace = TraceWriter::create("/no such folder/trace.json");
  ASSERT_FALSE(trace.ok());
  EXPECT_THAT(trace.error().message, testing::HasSubstr("/no such folder/trace.json"));
}

// /dev/full takes no byte.
TEST(TraceWriter, AFullDiskEndsTheTraceAlone) {
  auto trace = TraceWriter::create("/dev/full");
  ASSERT_TRUE(trace.ok());
  for (int i = 0; i < 2000; ++i) (*trace)->quantum({.quantum = 1});
}

}  // namespace
}  // namespace weft
