// Vocabularies that contradict themselves, and those that are not supported.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/test_data.h"

namespace weft {
namespace {

using test::with;
using ::testing::HasSubstr;
using Strings = std::vector<std::string>;
using Numbers = std::vector<int64_t>;

Metadata byte_level() {
  Metadata metadata;
  metadata.add("tokenizer.ggml.model", std::string("gpt2"));
  metadata.add("tokenizer.ggml.pre", std::string("qwen2"));
  metadata.add("tokenizer.ggml.tokens", MetaArray(Strings{"a", "b", "c", "ab", "abc", "<end>"}));
  metadata.add("tokenizer.ggml.token_type", MetaArray(Numbers{1, 1, 1, 1, 1, 3}));
  metadata.add("tokenizer.ggml.merges", MetaArray(Strings{"a b", "ab c"}));
  return metadata;
}

Metadata sentence_piece() {
  Metadata metadata;
  metadata.add("tokenizer.ggml.model", std::string("llama"));
  metadata.add("tokenizer.ggml.tokens",
               MetaArray(Strings{"<unk>", "\u2581", "a", "\u2581a", "<0x0A>"}));
  metadata.add("tokenizer.ggml.token_type", MetaArray(Numbers{2, 1, 1, 1, 6}));
  metadata.add("tokenizer.ggml.scores", MetaArray(std::vector<double>{0, -1, -2, 0, 0}));
  return metadata;
}

Error error_of(const Metadata& metadata) {
  const auto tokenizer = Tokenizer::from_metadata(metadata);
  EXPECT_FALSE(tokenizer.ok());
  return tokenizer.ok() ? Error{} : tokenizer.error();
}

void expect_corrupt(const Metadata& metadata, const std::string& message) {
  const Error error = error_of(metadata);
  EXPECT_EQ(error.kind, ErrorKind::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr(message));
}

TEST(GgufTokenizer, SmallVocabulariesWork) {
  EXPECT_THAT(test::encode(test::make(byte_level()), "abcab"), testing::ElementsAre(4, 3));
  const Tokenizer piece = test::make(sentence_piece());
  EXPECT_THAT(test::encode(piece, "a\nx"), testing::ElementsAre(3, 4, 0));
  EXPECT_EQ(piece.bos(), std::nullopt);
  EXPECT_FALSE(piece.add_bos());
}

TEST(GgufTokenizer, OthersAreRefusedByName) {
  const Metadata metadata = byte_level();
  Error error = error_of(with(metadata, "tokenizer.ggml.model", std::string("bert")));
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("\"bert\""));
  error = error_of(with(metadata, "tokenizer.ggml.pre", std::string("tekken")));
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("\"tekken\""));
  error = error_of(with(sentence_piece(), "tokenizer.ggml.precompiled_charsmap", std::string("x")));
  EXPECT_EQ(error.kind, ErrorKind::kUnsupported);
  EXPECT_EQ(error_of(Metadata()).kind, ErrorKind::kNotFound);
}

TEST(GgufTokenizer, NamesOfPreTokenizers) {
  for (const char* name : {"smollm", "qwen2", "deepseek-r1-qwen", "llama-bpe", "llama3", "llama-v3",
                           "gpt-2", "gpt2", "phi-2"}) {
    EXPECT_TRUE(
        Tokenizer::from_metadata(with(byte_level(), "tokenizer.ggml.pre", std::string(name))).ok());
  }
}

TEST(GgufTokenizer, HostileTokens) {
  const Metadata metadata = byte_level();
  const auto tokens = [&](Strings list) {
    return with(metadata, "tokenizer.ggml.tokens", MetaArray(std::move(list)));
  };
  expect_corrupt(tokens({}), "tokenizer.ggml.tokens is missing or empty");
  expect_corrupt(tokens({"a", "b", "c", "ab", "abc", "a"}), "entries 0 and 5 are both \"a\"");
  expect_corrupt(tokens({"a", "b", "c", "ab", "abc"}), "token_type has 6 entries");
  expect_corrupt(tokens({"a", "b", "c", "ab", "abc", "\xff"}), "token 5 is not valid UTF-8");
  expect_corrupt(tokens({"a", "b", "c", "ab", "abd", "x"}),
                 "needs \"abc\", which is not in the vocabulary");
  EXPECT_FALSE(
      Tokenizer::from_metadata(with(metadata, "tokenizer.ggml.tokens", MetaArray(Numbers{1})))
          .ok());
}

TEST(GgufTokenizer, HostileTypes) {
  const auto types = [](Numbers list) {
    return with(byte_level(), "tokenizer.ggml.token_type", MetaArray(std::move(list)));
  };
  expect_corrupt(types({1, 1, 1, 1, 1, 7}), "entry 5 is 7, not 1 to 6");
  expect_corrupt(types({1, -1, 1, 1, 1, 1}), "entry 1 is -1, not 1 to 6");
  expect_corrupt(types({1, 1}), "has 2 entries");
  expect_corrupt(types({1, 1, 1, 1, 3, 3}), "a control token");
}

TEST(GgufTokenizer, HostileMerges) {
  const auto merges = [](Strings list) {
    return with(byte_level(), "tokenizer.ggml.merges", MetaArray(std::move(list)));
  };
  expect_corrupt(merges({"a b", "a z"}), "entry 1 needs \"z\", which is not in the vocabulary");
  expect_corrupt(merges({"ab"}), "entry 0 is \"ab\", not two tokens");
  expect_corrupt(merges({""}), "not two tokens");
  expect_corrupt(merges({" "}), "not two tokens");
  expect_corrupt(merges({"a "}), "not two tokens");
  expect_corrupt(merges({"a b c"}), "not in the vocabulary");
  // The same pair twice, or none at all, is no contradiction.
  EXPECT_TRUE(Tokenizer::from_metadata(merges({"a b", "a b"})).ok());
  EXPECT_TRUE(Tokenizer::from_metadata(merges({})).ok());
}

TEST(GgufTokenizer, HostileIds) {
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                          "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    expect_corrupt(with(byte_level(), key, uint64_t{6}), std::string(key) + " is 6");
    expect_corrupt(with(byte_level(), key, int64_t{-1}), std::string(key) + " is -1");
    EXPECT_FALSE(Tokenizer::from_metadata(with(byte_level(), key, ~uint64_t{0})).ok());
    EXPECT_TRUE(Tokenizer::from_metadata(with(byte_level(), key, uint64_t{5})).ok());
  }
  expect_corrupt(with(byte_level(), "tokenizer.ggml.add_bos_token", true),
                 "bos_token_id is missing");
  expect_corrupt(with(sentence_piece(), "tokenizer.ggml.unknown_token_id", uint64_t{9}), "is 9");
}

TEST(GgufTokenizer, HostileScores) {
  const auto scores = [](std::vector<double> list) {
    return with(sentence_piece(), "tokenizer.ggml.scores", MetaArray(std::move(list)));
  };
  expect_corrupt(scores({1, 2}), "scores has 2 entries");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tokenizer tokenizer = test::make(scores({nan, nan, nan, nan, 1e300}));
  EXPECT_EQ(tokenizer.decode(test::encode(tokenizer, "a aa a"), false), "a aa a");
}

TEST(GgufTokenizer, SentencePieceWithoutAWayOut) {
  Metadata metadata =
      with(sentence_piece(), "tokenizer.ggml.token_type", MetaArray(Numbers{3, 1, 1, 1, 6}));
  const auto ids = test::make(metadata).encode("ax", SpecialTokens::kAsText);
  ASSERT_FALSE(ids.ok());
  EXPECT_THAT(ids.error().message, HasSubstr("neither a piece nor bytes for 'x'"));
  metadata = with(sentence_piece(), "tokenizer.ggml.token_type", MetaArray(Numbers{2, 1, 6, 1, 6}));
  expect_corrupt(metadata, "byte token 2 is \"a\"");
}

}  // namespace
}  // namespace weft
