#include "text/incremental_decoder.h"

#include <gtest/gtest.h>

#include "text/test_data.h"

namespace weft {
namespace {

using test::encode;
using test::sentencepiece;
using test::smollm2;

constexpr const char* kBad = "\ufffd";

std::string repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(Utf8, IncompleteSuffix) {
  EXPECT_EQ(incomplete_suffix(""), 0);
  EXPECT_EQ(incomplete_suffix("abc"), 0);
  EXPECT_EQ(incomplete_suffix("é"), 0);
  EXPECT_EQ(incomplete_suffix("a\xc3"), 1);
  EXPECT_EQ(incomplete_suffix("a\xe4\xbd"), 2);
  EXPECT_EQ(incomplete_suffix("\xf0\x9f\x99"), 3);
  EXPECT_EQ(incomplete_suffix("\xf0\x9f\x99\x82"), 0);
  // What can never become a character is not held back.
  EXPECT_EQ(incomplete_suffix("\xc0"), 0);      // overlong
  EXPECT_EQ(incomplete_suffix("\xe0\x80"), 0);  // overlong
  EXPECT_EQ(incomplete_suffix("\xed\xa0"), 0);  // surrogate
  EXPECT_EQ(incomplete_suffix("\xf4\x90"), 0);  // above U+10FFFF
  EXPECT_EQ(incomplete_suffix("\xf5"), 0);
  EXPECT_EQ(incomplete_suffix("\x80\x80\x80"), 0);
  EXPECT_EQ(incomplete_suffix("\xf0\x9f\x80\xe4"), 1);
}

// The examples of the Unicode standard, section 3.9, table 3-8 and its neighbours.
TEST(Utf8, RepairReplacesMaximalSubparts) {
  EXPECT_EQ(repair_utf8("plain é 你 🙂"), "plain é 你 🙂");
  EXPECT_EQ(repair_utf8("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), repeat(kBad, 8) + "A");
  EXPECT_EQ(repair_utf8("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), repeat(kBad, 8) + "A");
  EXPECT_EQ(repair_utf8("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"),
            repeat(kBad, 5) + "A" + repeat(kBad, 2) + "B");
  EXPECT_EQ(repair_utf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), repeat(kBad, 4) + "A");
  EXPECT_EQ(repair_utf8("a\xf0\x9f\x99"), std::string("a") + kBad);
  EXPECT_EQ(repair_utf8(std::string("a\0b", 3)), std::string("a\0b", 3));
}

// Whatever the ids, the pieces joined are the whole decoded at once and repaired, and each piece is
// valid.
void expect_equal_to_whole(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip) {
  IncrementalDecoder decoder(tokenizer, skip, true);
  std::string joined;
  for (const TokenId id : ids) {
    const std::string piece = decoder.push(id);
    ASSERT_EQ(piece, repair_utf8(piece));
    joined += piece;
  }
  joined += decoder.finish();
  EXPECT_EQ(decoder.finish(), "");
  ASSERT_EQ(joined, repair_utf8(tokenizer.decode(ids, skip)));
}

TEST(IncrementalDecoder, EqualsTheWholeForAnyIds) {
  std::mt19937 random(5);
  for (const Tokenizer& tokenizer : {smollm2(), sentencepiece()}) {
    for (int i = 0; i < 2000; ++i) {
      std::vector<TokenId> ids(random() % 30);
      // The first few hundred ids hold the control tokens and the single bytes.
      for (TokenId& id : ids) {
        id = static_cast<TokenId>(random() %
                                  (random() % 2 == 0 ? 300U : tokenizer.vocab_size() + 2U));
      }
      expect_equal_to_whole(tokenizer, ids, i % 2 == 0);
    }
    for (int i = 0; i < 300; ++i) {
      expect_equal_to_whole(tokenizer, encode(tokenizer, test::random_text(random, i % 30)), true);
    }
  }
}

TEST(IncrementalDecoder, HoldsHalfACharacter) {
  const Tokenizer tokenizer = smollm2();
  const std::vector<TokenId> ids = encode(tokenizer, "你");
  ASSERT_EQ(ids.size(), 2);
  IncrementalDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push(ids[0]), "");
  EXPECT_EQ(decoder.push(ids[1]), "你");
  EXPECT_EQ(decoder.push(ids[0]), "");
  EXPECT_EQ(decoder.finish(), kBad);
  EXPECT_EQ(decoder.push(ids[0]), "");
  const TokenId hello = encode(tokenizer, "Hello").front();
  EXPECT_EQ(decoder.push(hello), std::string(kBad) + "Hello");
}

TEST(IncrementalDecoder, SpecialTokens) {
  const Tokenizer tokenizer = smollm2();
  IncrementalDecoder hiding(tokenizer);
  EXPECT_EQ(hiding.push(2), "");
  IncrementalDecoder showing(tokenizer, false);
  EXPECT_EQ(showing.push(2), "<|im_end|>");
}

TEST(IncrementalDecoder, TheSpacePrefix) {
  const Tokenizer tokenizer = sentencepiece();
  const TokenId a = encode(tokenizer, "a").front();
  IncrementalDecoder in_the_middle(tokenizer);
  EXPECT_EQ(in_the_middle.push(a), " a");
  IncrementalDecoder at_start(tokenizer, true, true);
  EXPECT_EQ(at_start.push(*tokenizer.bos()), "");
  EXPECT_EQ(at_start.push(a), "a");
  EXPECT_EQ(at_start.push(a), " a");
}

}  // namespace
}  // namespace weft
