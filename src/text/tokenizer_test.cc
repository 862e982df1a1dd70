#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "text/chat_template.h"
#include "text/test_data.h"

namespace weft {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Which bytes have a token of their own: a byte-level vocabulary may lack some.
std::array<bool, 256> known_bytes(const Tokenizer& tokenizer) {
  std::array<bool, 256> known = {};
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    if (bytes.size() == 1) known[static_cast<unsigned char>(bytes[0])] = true;
  }
  return known;
}

void expect_round_trips(const Tokenizer& tokenizer) {
  const std::array<bool, 256> known = known_bytes(tokenizer);
  const auto is_known = [&](char c) { return known[static_cast<unsigned char>(c)]; };
  std::mt19937 random(20);
  int tried = 0;
  for (int i = 0; i < 600; ++i) {
    const std::string text = random_text(random, i % 40);
    if (!std::ranges::all_of(text, is_known)) continue;
    ++tried;
    for (const SpecialTokens special : {SpecialTokens::kAsText, SpecialTokens::kParse}) {
      const std::vector<TokenId> ids = encode(tokenizer, text, special);
      ASSERT_EQ(tokenizer.decode(ids, false), text) << testing::PrintToString(ids);
    }
  }
  EXPECT_GT(tried, 100);
}

TEST(Tokenizer, IdsOfSmolLm2EqualTheReference) {
  const Tokenizer tokenizer = smollm2();
  const nlohmann::json reference = read_json(kData + "/smollm2.json");
  ASSERT_EQ(reference["tokenize"].size(), 20);
  for (const auto& row : reference["tokenize"]) {
    const auto text = row["text"].get<std::string>();
    EXPECT_EQ(encode(tokenizer, text), row["ids"].get<std::vector<TokenId>>()) << text;
    EXPECT_EQ(tokenizer.decode(row["ids"].get<std::vector<TokenId>>(), true), text);
  }
}

TEST(Tokenizer, ChatsOfSmolLm2EqualTheReference) {
  const Metadata metadata = read_metadata(kData + "/text/smollm2_vocab.gguf");
  const Tokenizer tokenizer = smollm2();
  auto chat = ChatTemplate::from_metadata(metadata);
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  const nlohmann::json reference = read_json(kData + "/smollm2.json");
  ASSERT_FALSE(reference["chat"].empty());
  for (const auto& row : reference["chat"]) {
    auto prompt = chat->render(row["messages"].dump(), true);
    ASSERT_TRUE(prompt.ok()) << prompt.error().message;
    EXPECT_EQ(*prompt, row["prompt"].get<std::string>());
    auto ids = tokenizer.encode_prompt(*prompt, SpecialTokens::kParse);
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(*ids, row["ids"].get<std::vector<TokenId>>());
    EXPECT_EQ(tokenizer.decode(row["greedy"].get<std::vector<TokenId>>(), true),
              row["text"].get<std::string>());
  }
}

TEST(Tokenizer, SmolLm2RoundTrips) { expect_round_trips(smollm2()); }

TEST(Tokenizer, TokenizerJsonAndGgufAgree) {
  for (const char* name : {"llama", "llama3-rope", "qwen2", "qwen3", "qwen3moe", "mixtral"}) {
    SCOPED_TRACE(name);
    const Tokenizer json =
        from_json(read_text(fmt::format("{}/tiny/{}/tokenizer.json", kData, name)));
    const Tokenizer gguf = open_gguf(fmt::format("{}/tiny/{}/f32.gguf", kData, name));
    // The GGUF may fill its list up to the model's size.
    ASSERT_LE(json.vocab_size(), gguf.vocab_size());
    for (TokenId id = 0; id < json.vocab_size(); ++id) {
      ASSERT_EQ(json.token_text(id), gguf.token_text(id));
      ASSERT_EQ(json.token_bytes(id), gguf.token_bytes(id));
      ASSERT_EQ(json.is_special(id), gguf.is_special(id));
    }
    std::mt19937 random(3);
    for (int i = 0; i < 150; ++i) {
      const std::string text = random_text(random, i % 50);
      for (const SpecialTokens special : {SpecialTokens::kAsText, SpecialTokens::kParse}) {
        ASSERT_EQ(encode(json, text, special), encode(gguf, text, special)) << text;
      }
    }
    expect_round_trips(json);
    expect_round_trips(gguf);
  }
}

// The published pre-tokenizers, look-ahead and all, run by the crate of their makers.
nlohmann::json published_pre_tokenizer(std::string_view name) {
  nlohmann::json byte_level = {{"type", "ByteLevel"},
                               {"add_prefix_space", false},
                               {"trim_offsets", true},
                               {"use_regex", name == "gpt-2" || name == "smollm"}};
  if (name == "gpt-2") return byte_level;
  nlohmann::json first = {{"type", "Digits"}, {"individual_digits", true}};
  if (name != "smollm") {
    const std::string digits = name == "qwen2" ? R"(\p{N})" : R"(\p{N}{1,3})";
    const std::string pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" +
                                digits + R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    first = {{"type", "Split"},
             {"pattern", {{"Regex", pattern}}},
             {"behavior", "Isolated"},
             {"invert", false}};
  }
  return {{"type", "Sequence"}, {"pretokenizers", {first, byte_level}}};
}

TEST(Tokenizer, PreTokenizersCutAsThePublishedPatterns) {
  const Metadata metadata = read_metadata(kData + "/tiny/llama/f32.gguf");
  nlohmann::json json = read_json(kData + "/tiny/llama/tokenizer.json");
  for (const char* name : {"smollm", "qwen2", "llama-bpe", "gpt-2"}) {
    SCOPED_TRACE(name);
    json["pre_tokenizer"] = published_pre_tokenizer(name);
    json["model"]["ignore_merges"] = std::string_view(name) == "llama-bpe";
    const Tokenizer published = from_json(json.dump());
    const Tokenizer ours = make(with(metadata, "tokenizer.ggml.pre", std::string(name)));
    std::mt19937 random(11);
    for (int i = 0; i < 1000; ++i) {
      const std::string text = random_text(random, i % 50);
      ASSERT_EQ(encode(ours, text), encode(published, text)) << text;
    }
    expect_round_trips(ours);
  }
}

TEST(Tokenizer, SentencePieceIdsEqualTheReference) {
  const Tokenizer prefixed = sentencepiece();
  const Tokenizer plain = make(with(read_metadata(kData + "/text/sentencepiece.gguf"),
                                    "tokenizer.ggml.add_space_prefix", false));
  const nlohmann::json rows = read_json(kData + "/text/sentencepiece.json");
  ASSERT_GT(rows.size(), 50);
  for (const auto& row : rows) {
    const auto text = row["text"].get<std::string>();
    EXPECT_EQ(encode(prefixed, text), row["ids"].get<std::vector<TokenId>>()) << text;
    EXPECT_EQ(encode(plain, text), row["ids_without_prefix"].get<std::vector<TokenId>>()) << text;
  }
  expect_round_trips(prefixed);
  expect_round_trips(plain);
}

TEST(Tokenizer, SentencePieceSpecialTokens) {
  const Tokenizer tokenizer = sentencepiece();
  const TokenId turn = tokenizer.find("<|turn|>").value();
  const TokenId tool = tokenizer.find("<tool>").value();
  const std::vector<TokenId> a = encode(tokenizer, "a");
  ASSERT_EQ(a.size(), 1);
  EXPECT_EQ(tokenizer.token_text(a[0]), "\u2581a");
  EXPECT_THAT(encode(tokenizer, "a<|turn|>a", SpecialTokens::kParse),
              ElementsAre(a[0], turn, a[0]));
  EXPECT_THAT(encode(tokenizer, "a<|turn|>a"), testing::Not(testing::Contains(turn)));
  EXPECT_THAT(encode(tokenizer, "<tool>a"), ElementsAre(tool, a[0]));  // user-defined: always found
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{1, a[0], turn, a[0]}, true), "aa");
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{a[0], turn, a[0]}, false), "a<|turn|>a");
  EXPECT_TRUE(tokenizer.is_special(turn));
  EXPECT_FALSE(tokenizer.is_special(tool));
  EXPECT_TRUE(tokenizer.drops_first_space());
  // A byte token is one byte; a U+2581 of the text is no space.
  const std::vector<TokenId> mark = encode(tokenizer, "\u2581");
  ASSERT_EQ(mark.size(), 4);
  EXPECT_EQ(tokenizer.token_text(mark[1]), "<0xE2>");
  EXPECT_EQ(tokenizer.token_bytes(mark[1]), "\xe2");
}

TEST(Tokenizer, SpecialTokensAreParsedOnlyOnRequest) {
  const Tokenizer tokenizer = smollm2();
  EXPECT_THAT(encode(tokenizer, "<|im_end|>", SpecialTokens::kParse), ElementsAre(2));
  EXPECT_EQ(encode(tokenizer, "<|im_end|>").size(), 7);
  EXPECT_EQ(tokenizer.token_bytes(2), "<|im_end|>");
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{2, 19556, 1}, true), "Hello");
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{2, 19556, 1}, false),
            "<|im_end|>Hello<|im_start|>");
}

TEST(Tokenizer, EndsAndBos) {
  const Tokenizer smol = smollm2();
  EXPECT_THAT(smol.end_ids(), ElementsAre(0, 2));
  EXPECT_EQ(smol.bos(), 1);
  EXPECT_EQ(smol.eos(), 2);
  EXPECT_FALSE(smol.add_bos());
  EXPECT_EQ(smol.encode_prompt("a", SpecialTokens::kAsText).value(), encode(smol, "a"));

  const Tokenizer piece = sentencepiece();
  EXPECT_TRUE(piece.add_bos());
  EXPECT_THAT(piece.end_ids(), ElementsAre(2));
  const std::vector<TokenId> a = encode(piece, "a");
  EXPECT_THAT(piece.encode_prompt("a", SpecialTokens::kParse).value(), ElementsAre(1, a[0]));
  EXPECT_THAT(piece.encode_prompt("<s>a", SpecialTokens::kParse).value(), ElementsAre(1, a[0]));
  EXPECT_THAT(piece.encode_prompt("", SpecialTokens::kParse).value(), ElementsAre(1));
}

TEST(Tokenizer, IdsOutsideTheVocabulary) {
  const Tokenizer tokenizer = smollm2();
  for (const TokenId id :
       {-1, 49152, std::numeric_limits<TokenId>::max(), std::numeric_limits<TokenId>::min()}) {
    EXPECT_EQ(tokenizer.token_bytes(id), "");
    EXPECT_EQ(tokenizer.token_text(id), "");
    EXPECT_FALSE(tokenizer.is_special(id));
    EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{id, 19556}, false), "Hello");
  }
}

TEST(Tokenizer, InvalidUtf8NamesTheByte) {
  for (const Tokenizer& tokenizer : {smollm2(), sentencepiece()}) {
    const auto ids = tokenizer.encode("abc\xffx", SpecialTokens::kAsText);
    ASSERT_FALSE(ids.ok());
    EXPECT_THAT(ids.error().message, HasSubstr("at byte 3"));
  }
}

// A text without a word boundary must not cost more than in proportion: this test would not end.
TEST(Tokenizer, LongWords) {
  constexpr size_t kSize = 1 << 18;
  for (const Tokenizer& tokenizer : {smollm2(), sentencepiece()}) {
    for (const char c : {'a', ' ', '\n', '='}) {
      const std::string text(kSize, c);
      EXPECT_EQ(tokenizer.decode(encode(tokenizer, text), false), text);
    }
  }
}

TEST(Tokenizer, ManyThreads) {
  const Tokenizer tokenizer = smollm2();
  const nlohmann::json reference = read_json(kData + "/smollm2.json");
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (const auto& row : reference["tokenize"]) {
        EXPECT_EQ(encode(tokenizer, row["text"].get<std::string>()),
                  row["ids"].get<std::vector<TokenId>>());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Tokenizer, JsonOfAnotherKindIsRefused) {
  nlohmann::json json = read_json(kData + "/tiny/llama/tokenizer.json");
  json["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  const auto refused = Tokenizer::from_json(json.dump());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("WordPiece"));
}

TEST(Tokenizer, BrokenJsonIsAnError) {
  for (const char* text : {"", "{", "[]", "{}", "\xff", R"({"model": {"type": "BPE"}})"}) {
    const auto broken = Tokenizer::from_json(text);
    ASSERT_FALSE(broken.ok()) << text;
    EXPECT_EQ(broken.error().kind, ErrorKind::kCorrupt) << text;
  }
  EXPECT_FALSE(Tokenizer::from_json(std::string(100000, '[')).ok());
  nlohmann::json json = read_json(kData + "/tiny/llama/tokenizer.json");
  json["model"]["merges"].push_back({"no", "such token"});
  EXPECT_FALSE(Tokenizer::from_json(json.dump()).ok());
  json = read_json(kData + "/tiny/llama/tokenizer.json");
  json["model"]["vocab"]["far away"] = 4'000'000'000U;
  EXPECT_THAT(Tokenizer::from_json(json.dump()).error().message, HasSubstr("largest id"));
  json["model"]["vocab"]["far away"] = 17;
  EXPECT_THAT(Tokenizer::from_json(json.dump()).error().message, HasSubstr("share id 17"));
}

}  // namespace
}  // namespace weft
