#include "server/json.h"

#include <gtest/gtest.h>

#include <string>

namespace weft {
namespace {

std::string message_of(const std::string& body) {
  const auto result = parse_json(body);
  const auto* error = std::get_if<ApiError>(&result);
  return error == nullptr ? "" : error->message;
}

TEST(ParseJson, NamesThePlaceOfAnError) {
  EXPECT_EQ(message_of("{\"a\": 1}"), "");
  EXPECT_EQ(message_of("{\n  \"a\": x\n}"),
            "The request body is not valid JSON: unexpected character at line 2, column 8");
  EXPECT_EQ(message_of("{\"a\": "),
            "The request body is not valid JSON: unexpected end of the body at line 1, column 7");
  EXPECT_EQ(message_of(" \n"), "The request body is empty; send a JSON object");
}

TEST(ParseJson, RefusesInvalidUtf8) {
  EXPECT_NE(message_of("{\"a\": \"\xff\"}").find("invalid UTF-8"), std::string::npos);
  EXPECT_NE(message_of("{\"a\": \"\xe2\x82\"}").find("invalid UTF-8"), std::string::npos);
  EXPECT_EQ(message_of("{\"a\": \"\xe2\x82\xac\"}"), "");
  EXPECT_NE(message_of("{\"a\": \"\\ud800\"}"), "");  // half a surrogate pair is no character
}

TEST(ParseJson, RefusesDeepNestingBeforeParsing) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_EQ(message_of(nested(kMaxJsonDepth)), "");
  EXPECT_EQ(message_of(nested(kMaxJsonDepth + 1)),
            "The request body is nested deeper than 64 levels");
  EXPECT_NE(message_of(std::string(4'000'000, '[')), "");
  EXPECT_EQ(message_of("[\"" + std::string(200, '[') + "\\\"" + std::string(200, '{') + "\"]"), "");
}

TEST(ParseJson, RefusesObjectsOfManyMembers) {
  const auto object = [](int members) {
    std::string body = "{";
    for (int i = 0; i < members; ++i) body += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
    return body + "}";
  };
  EXPECT_EQ(message_of(object(kMaxJsonMembers)), "");
  EXPECT_NE(message_of(object(kMaxJsonMembers + 1)).find("more than 1024 members"),
            std::string::npos);
}

TEST(ParseJson, RefusesNumbersThatAreNone) {
  EXPECT_NE(message_of("{\"temperature\": 1e999}").find("too large"), std::string::npos);
  EXPECT_NE(message_of("{\"temperature\": NaN}"), "");
}

TEST(Dump, IsValidWhateverTheStringsHold) {
  EXPECT_EQ(dump(Json("a\xff\n")), "\"a\xef\xbf\xbd\\n\"");
}

TEST(Excerpt, EndsAtAWholeCharacter) {
  EXPECT_EQ(excerpt("short"), "short");
  std::string text = std::string(79, 'a') + "\xe2\x82\xac" + std::string(20, 'b');
  EXPECT_EQ(excerpt(text), std::string(79, 'a') + "...");
}

}  // namespace
}  // namespace weft
