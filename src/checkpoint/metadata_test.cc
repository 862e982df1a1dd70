#include "checkpoint/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/printable.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Metadata sample() {
  Metadata metadata;
  metadata.add("int", int64_t{-3});
  metadata.add("unsigned", uint64_t{7});
  metadata.add("huge", std::numeric_limits<uint64_t>::max());
  metadata.add("float", 0.5);
  metadata.add("bool", true);
  metadata.add("string", std::string("text"));
  metadata.add("strings", MetaArray(std::vector<std::string>{"a", "b"}));
  metadata.add("ints", MetaArray(std::vector<int64_t>{-1, 2}));
  metadata.add("unsigneds", MetaArray(std::vector<uint64_t>{3, 4}));
  metadata.add("huges", MetaArray(std::vector<uint64_t>{3, std::numeric_limits<uint64_t>::max()}));
  metadata.add("floats", MetaArray(std::vector<double>{0.5, 1.5}));
  metadata.add("bools", MetaArray(std::vector<bool>{true, false}));
  return metadata;
}

TEST(Metadata, GettersConvertWhatFits) {
  const Metadata metadata = sample();
  EXPECT_EQ(*metadata.get_int("int"), -3);
  EXPECT_EQ(*metadata.get_int("unsigned"), 7);
  EXPECT_EQ(*metadata.get_float("float"), 0.5);
  EXPECT_EQ(*metadata.get_float("int"), -3.0);
  EXPECT_EQ(*metadata.get_float("unsigned"), 7.0);
  EXPECT_EQ(*metadata.get_bool("bool"), true);
  EXPECT_EQ(*metadata.get_string("string"), "text");
  EXPECT_THAT(**metadata.get_strings("strings"), ElementsAre("a", "b"));
  EXPECT_THAT(**metadata.get_ints("ints"), ElementsAre(-1, 2));
  EXPECT_THAT(**metadata.get_ints("unsigneds"), ElementsAre(3, 4));
  EXPECT_THAT(**metadata.get_floats("floats"), ElementsAre(0.5, 1.5));
  EXPECT_THAT(**metadata.get_floats("ints"), ElementsAre(-1.0, 2.0));
}

TEST(Metadata, AbsentKeysAreNoError) {
  const Metadata metadata = sample();
  EXPECT_FALSE(metadata.contains("no"));
  EXPECT_EQ(metadata.get_int("no").value(), std::nullopt);
  EXPECT_EQ(metadata.get_float("no").value(), std::nullopt);
  EXPECT_EQ(metadata.get_bool("no").value(), std::nullopt);
  EXPECT_EQ(metadata.get_string("no").value(), std::nullopt);
  EXPECT_EQ(metadata.get_strings("no").value(), nullptr);
  EXPECT_EQ(metadata.get_ints("no").value(), std::nullopt);
  EXPECT_EQ(metadata.get_floats("no").value(), std::nullopt);
}

template <class T>
std::string message(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : result.error().message;
}

TEST(Metadata, WrongTypesNameKeyAndValue) {
  const Metadata metadata = sample();
  EXPECT_EQ(message(metadata.get_int("string")),
            "metadata key 'string' is text, but must be an integer of at most 63 bits");
  EXPECT_THAT(message(metadata.get_int("huge")), HasSubstr("'huge' is 18446744073709551615"));
  EXPECT_THAT(message(metadata.get_int("float")), HasSubstr("'float' is 0.5"));
  EXPECT_THAT(message(metadata.get_int("bool")), HasSubstr("'bool' is true"));
  EXPECT_THAT(message(metadata.get_float("bool")), HasSubstr("must be a number"));
  EXPECT_THAT(message(metadata.get_bool("int")), HasSubstr("must be true or false"));
  EXPECT_THAT(message(metadata.get_string("ints")),
              HasSubstr("'ints' is [-1, 2], but must be a string"));
  EXPECT_THAT(message(metadata.get_strings("ints")), HasSubstr("must be an array of strings"));
  EXPECT_THAT(message(metadata.get_strings("string")), HasSubstr("must be an array of strings"));
  EXPECT_THAT(message(metadata.get_ints("huges")), HasSubstr("must be an array of integers"));
  EXPECT_THAT(message(metadata.get_ints("int")), HasSubstr("must be an array of integers"));
  EXPECT_THAT(message(metadata.get_ints("floats")), HasSubstr("must be an array of integers"));
  EXPECT_THAT(message(metadata.get_floats("bools")), HasSubstr("must be an array of numbers"));
}

TEST(Describe, ShowsOneShortLine) {
  EXPECT_EQ(describe(std::string("a\nb\x01")), "a\\nb\\x01");
  EXPECT_EQ(describe(std::string(100, 'x')), std::string(64, 'x') + "...");
  EXPECT_EQ(describe(static_cast<double>(1e-5F)), "1e-05");
  EXPECT_EQ(describe(0.1), "0.1");
  EXPECT_EQ(describe(false), "false");
  EXPECT_EQ(describe(MetaArray(std::vector<int64_t>{})), "[]");
  EXPECT_EQ(describe(MetaArray(std::vector<bool>{true, false})), "[true, false]");
  EXPECT_EQ(describe(MetaArray(std::vector<std::string>(49152, "a"))),
            R"(["a", "a", "a", "a", ... 49152 strings])");
  EXPECT_EQ(describe(MetaArray(std::vector<uint64_t>(9, 1))), "[1, 1, 1, 1, ... 9 integers]");
  EXPECT_EQ(describe(MetaArray(std::vector<uint64_t>(8, 1))), "[1, 1, 1, 1, 1, 1, 1, 1]");
}

TEST(Printable, KeepsCharactersWholeAndEscapesTheRest) {
  EXPECT_EQ(printable("grüße 日本 🙂"), "grüße 日本 🙂");
  EXPECT_EQ(printable("日本語", 7), "日本...");
  EXPECT_EQ(printable("日本語", 9), "日本語");
  EXPECT_EQ(printable("\t\x7f\x1b[0m"), "\\t\\x7f\\x1b[0m");
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(printable("\xe0\x80\x80"), "\\xe0\\x80\\x80");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // past U+10FFFF
  EXPECT_EQ(printable("\xe6\x97"), "\\xe6\\x97");                    // cut short
}

}  // namespace
}  // namespace weft
