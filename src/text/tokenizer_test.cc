#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "text/chat_template.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

const std::string kData = WEFT_TEST_DATA;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(read_text(path)); }

Metadata read_metadata(const std::string& path) {
  auto file = Checkpoint::open(path);
  EXPECT_TRUE(file.ok()) << file.error().message;
  return file->metadata();
}

Tokenizer open_gguf(const std::string& path) {
  auto tokenizer = Tokenizer::from_metadata(read_metadata(path));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(*tokenizer);
}

Tokenizer open_json(const std::string& path) {
  auto tokenizer = Tokenizer::from_json(read_text(path));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(*tokenizer);
}

Tokenizer smollm2() { return open_gguf(kData + "/text/smollm2_vocab.gguf"); }

std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text,
                            SpecialTokens special = SpecialTokens::kAsText) {
  auto ids = tokenizer.encode(text, special);
  EXPECT_TRUE(ids.ok()) << ids.error().message;
  return std::move(*ids);
}

// Any characters, with those that pre-tokenizers treat apart well represented.
std::string random_text(std::mt19937& random, int length) {
  constexpr std::array<std::string_view, 28> kPieces = {" ",
                                                        "  ",
                                                        "\n",
                                                        "\r\n",
                                                        "\t",
                                                        "a",
                                                        "'s",
                                                        "'LL",
                                                        "1",
                                                        "234",
                                                        "é",
                                                        "e\u0301",
                                                        "\u2581",
                                                        "你好",
                                                        "ﬁ",
                                                        "🙂",
                                                        "👩‍👩‍👧",
                                                        "\u00a0",
                                                        "\u2003",
                                                        "<|im_end|>",
                                                        "</s>",
                                                        "<0x0A>",
                                                        "-",
                                                        "...",
                                                        "\0",
                                                        "²",
                                                        "Ⅷ",
                                                        "ſ"};
  std::string text;
  for (int i = 0; i < length; ++i) {
    if (random() % 3 != 0) {
      text += kPieces[random() % kPieces.size()];
      continue;
    }
    char32_t code = random() % (random() % 2 != 0 ? 0x110000 : 0x3000);
    if (code >= 0xd800 && code < 0xe000) code = U'x';
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
    } else if (code < 0x10000) {
      text +=
          {static_cast<char>(0xe0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3f)),
           static_cast<char>(0x80 | (code & 0x3f))};
    } else {
      text +=
          {static_cast<char>(0xf0 | (code >> 18)), static_cast<char>(0x80 | ((code >> 12) & 0x3f)),
           static_cast<char>(0x80 | ((code >> 6) & 0x3f)), static_cast<char>(0x80 | (code & 0x3f))};
    }
  }
  return text;
}

// True where every byte of the text has a token of its own.
bool has_bytes_for(const Tokenizer& tokenizer, const std::string& text) {
  std::array<bool, 256> known = {};
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    if (bytes.size() == 1) known[static_cast<unsigned char>(bytes[0])] = true;
  }
  return std::ranges::all_of(text, [&](char c) { return known[static_cast<unsigned char>(c)]; });
}

void expect_round_trips(const Tokenizer& tokenizer) {
  std::mt19937 random(20);
  for (int i = 0; i < 1000; ++i) {
    const std::string text = random_text(random, i % 40);
    if (!has_bytes_for(tokenizer, text)) continue;
    for (const SpecialTokens special : {SpecialTokens::kAsText, SpecialTokens::kParse}) {
      const std::vector<TokenId> ids = encode(tokenizer, text, special);
      ASSERT_EQ(tokenizer.decode(ids, false), text) << testing::PrintToString(ids);
    }
  }
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
    const Tokenizer json = open_json(fmt::format("{}/tiny/{}/tokenizer.json", kData, name));
    const Tokenizer gguf = open_gguf(fmt::format("{}/tiny/{}/f32.gguf", kData, name));
    // The GGUF may fill its list up to the model's size.
    ASSERT_LE(json.vocab_size(), gguf.vocab_size());
    for (TokenId id = 0; id < json.vocab_size(); ++id) {
      ASSERT_EQ(json.token_text(id), gguf.token_text(id));
      ASSERT_EQ(json.token_bytes(id), gguf.token_bytes(id));
      ASSERT_EQ(json.is_special(id), gguf.is_special(id));
    }
    std::mt19937 random(3);
    for (int i = 0; i < 500; ++i) {
      const std::string text = random_text(random, i % 50);
      for (const SpecialTokens special : {SpecialTokens::kAsText, SpecialTokens::kParse}) {
        ASSERT_EQ(encode(json, text, special), encode(gguf, text, special)) << text;
      }
    }
    expect_round_trips(json);
    expect_round_trips(gguf);
  }
}

}  // namespace
}  // namespace weft
