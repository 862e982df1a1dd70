#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace weft {
namespace {

struct Outcome {
  std::string shown;
  std::string matched;
  bool operator==(const Outcome&) const = default;
};

void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << "shown '" << outcome.shown << "', matched '" << outcome.matched << "'";
}

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces,
            bool include_stop = false) {
  StopMatcher matcher(stops, include_stop);
  std::string shown;
  for (const std::string& piece : pieces) shown += matcher.push(piece);
  shown += matcher.finish();
  EXPECT_EQ(matcher.stopped(), !matcher.matched().empty());
  return {shown, matcher.matched()};
}

TEST(StopMatcher, AcrossPieces) {
  EXPECT_EQ(run({"STOP"}, {"aS", "T", "OP", "b"}), (Outcome{"a", "STOP"}));
  EXPECT_EQ(run({"STOP"}, {"aS", "T", "OP", "b"}, true), (Outcome{"aSTOP", "STOP"}));
  EXPECT_EQ(run({"STOP"}, {"aSTO", "x"}), (Outcome{"aSTOx", ""}));
  EXPECT_EQ(run({"STOP"}, {"aSTO"}), (Outcome{"aSTO", ""}));
  EXPECT_EQ(run({"STOP"}, {"STSTOP"}), (Outcome{"ST", "STOP"}));
  EXPECT_EQ(run({}, {"a", "b"}), (Outcome{"ab", ""}));
  EXPECT_EQ(run({"。\n"}, {"你好\xe3\x80", "\x82", "\n", "x"}), (Outcome{"你好", "。\n"}));
}

TEST(StopMatcher, HoldsBackOnlyWhatMayGrow) {
  StopMatcher matcher({"aab"});
  EXPECT_EQ(matcher.push("xaa"), "x");
  EXPECT_EQ(matcher.push("a"), "a");
  EXPECT_EQ(matcher.push("c"), "aac");
  EXPECT_EQ(matcher.push("aab"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, OverlappingStops) {
  EXPECT_EQ(run({"abc", "b"}, {"xabc"}), (Outcome{"xa", "b"}));
  EXPECT_EQ(run({"ab", "abc"}, {"xabc"}), (Outcome{"x", "ab"}));
  EXPECT_EQ(run({"c", "abc", "bc"}, {"xabc"}), (Outcome{"x", "abc"}));
  EXPECT_EQ(run({"abcde", "bcd"}, {"abcdef"}), (Outcome{"a", "bcd"}));
}

// The definition, without automata: the first position at which any stop string ends.
Outcome by_definition(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string longest;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop) && stop.size() > longest.size())
        longest = stop;
    }
    if (!longest.empty()) return {text.substr(0, end - longest.size()), longest};
  }
  return {text, ""};
}

TEST(StopMatcher, AnyPiecesEqualTheDefinition) {
  std::mt19937 random(9);
  const auto word = [&](size_t shortest, size_t longest) {
    std::string text(shortest + random() % (longest - shortest + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int i = 0; i < 5000; ++i) {
    std::vector<std::string> stops(1 + random() % 3);
    for (std::string& stop : stops) stop = word(1, 6);
    std::vector<std::string> pieces(random() % 10);
    std::string text;
    for (std::string& piece : pieces) text += piece = word(0, 4);
    ASSERT_EQ(run(stops, pieces), by_definition(stops, text)) << text;
  }
}

}  // namespace
}  // namespace weft
