#include "base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(ProgressLine, ShowsShareAmountsAndRate) {
  EXPECT_EQ(progress_line("loading", 24'600'000, 98'400'000, ProgressUnit::kBytes, 2s, 200),
            "loading  [######                  ]  25%  24.6 MB of 98.4 MB  12.3 MB/s");
  EXPECT_EQ(progress_line("tensors", 272, 272, ProgressUnit::kItems, 1s, 200),
            "tensors  [########################] 100%  272 of 272");
  // More than was announced fills the bar and no more.
  EXPECT_THAT(progress_line("x", 3, 2, ProgressUnit::kItems, 1s, 200), HasSubstr("] 100%  3 of 2"));
  EXPECT_EQ(progress_line("x", 999, 0, ProgressUnit::kBytes, 0s, 200), "x  999 B");
  EXPECT_EQ(progress_line("x", 1'250'000'000'000, 0, ProgressUnit::kBytes, 0s, 200), "x  1.2 TB");
}

TEST(ProgressLine, FitsTheTerminal) {
  EXPECT_EQ(progress_line("loading", 1, 2, ProgressUnit::kItems, 1s, 12), "loading  [##");
  EXPECT_EQ(progress_line("loading", 1, 2, ProgressUnit::kItems, 1s, 0), "");
  EXPECT_EQ(progress_line("日本", 1, 2, ProgressUnit::kItems, 1s, 4), "日");
}

class ProgressBarTest : public ::testing::Test {
 protected:
  ProgressBarTest() : stream_(std::tmpfile()) {}
  ~ProgressBarTest() override { std::fclose(stream_); }
  ProgressBar bar(bool terminal) {
    return {"work", 100, ProgressUnit::kItems, {stream_, terminal, 80, &clock_}};
  }
  std::string drawn() {
    std::string text(static_cast<size_t>(std::ftell(stream_)), '\0');
    EXPECT_EQ(std::fseek(stream_, 0, SEEK_SET), 0);
    text.resize(std::fread(text.data(), 1, text.size(), stream_));
    return text;
  }
  static size_t redraws(const std::string& text) {
    size_t count = 0;
    for (size_t at = text.find("work"); at != std::string::npos; at = text.find("work", at + 1))
      ++count;
    return count;
  }

  std::FILE* stream_;
  FakeClock clock_;
};

TEST_F(ProgressBarTest, ShortWorkShowsNothing) {
  {
    ProgressBar progress = bar(true);
    progress.update(1);
    clock_.advance(299ms);
    progress.update(100);
  }
  EXPECT_EQ(drawn(), "");
}

TEST_F(ProgressBarTest, RedrawsAtMostTenTimesASecondAndClearsItself) {
  {
    ProgressBar progress = bar(true);
    clock_.advance(300ms);
    for (uint64_t i = 0; i < 100; ++i) {
      progress.update(i);
      clock_.advance(10ms);
    }
  }
  const std::string text = drawn();
  EXPECT_EQ(redraws(text), 10u);
  EXPECT_THAT(text, EndsWith("\r\x1b[K"));
}

TEST_F(ProgressBarTest, DrawsOnlyOnATerminal) {
  {
    ProgressBar progress = bar(false);
    clock_.advance(10s);
    progress.update(50);
  }
  EXPECT_EQ(drawn(), "");
}

}  // namespace
}  // namespace weft
