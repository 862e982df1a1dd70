#pragma once
// Shared by the tests of this folder: tokenizers of tests/data, and texts to try them on.

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "text/tokenizer.h"

namespace weft::test {

inline const std::string kData = WEFT_TEST_DATA;

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline nlohmann::json read_json(const std::string& path) {
  return nlohmann::json::parse(read_text(path));
}

inline Metadata read_metadata(const std::string& path) {
  auto file = Checkpoint::open(path);
  EXPECT_TRUE(file.ok()) << file.error().message;
  return file->metadata();
}

inline Tokenizer make(const Metadata& metadata) {
  auto tokenizer = Tokenizer::from_metadata(metadata);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(*tokenizer);
}

inline Tokenizer open_gguf(const std::string& path) { return make(read_metadata(path)); }

inline Tokenizer from_json(const std::string& json) {
  auto tokenizer = Tokenizer::from_json(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(*tokenizer);
}

inline Tokenizer smollm2() { return open_gguf(kData + "/text/smollm2_vocab.gguf"); }
inline Tokenizer sentencepiece() { return open_gguf(kData + "/text/sentencepiece.gguf"); }

// The metadata with one value replaced or added.
inline Metadata with(const Metadata& metadata, const std::string& key, MetaValue value) {
  Metadata changed;
  for (const auto& [name, old] : metadata.entries()) {
    if (name != key) changed.add(name, old);
  }
  changed.add(key, std::move(value));
  return changed;
}

inline std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text,
                                   SpecialTokens special = SpecialTokens::kAsText) {
  auto ids = tokenizer.encode(text, special);
  EXPECT_TRUE(ids.ok()) << ids.error().message;
  return std::move(*ids);
}

inline void append_utf8(char32_t code, std::string& text) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | (code >> 12));
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xf0 | (code >> 18));
    tail(12), tail(6), tail(0);
  }
}

// Any characters, those that pre-tokenizers and special tokens treat apart well represented.
inline std::string random_text(std::mt19937& random, int pieces) {
  constexpr std::array<std::string_view, 31> kPieces = {
      " ",          "  ",     "\n",         "\r\n",    "\t",       "a",      "'s",  "'LL",
      "1",          "234",    "é",          "e\u0301", "\u2581",   "你好",   "ﬁ",   "🙂",
      "👩\u200d👧", "\u00a0", "\u2003",     "</s>",    "<0x0A>",   "-",      "...", "²",
      "Ⅷ",          "ſ",      "<|im_end|>", "<tool>",  "<|turn|>", "\u2028", "the"};
  std::string text;
  for (int i = 0; i < pieces; ++i) {
    if (random() % 3 != 0) {
      text += kPieces[random() % kPieces.size()];
      continue;
    }
    const char32_t code = random() % (random() % 2 != 0 ? 0x110000 : 0x3000);
    append_utf8(code >= 0xd800 && code < 0xe000 ? U'x' : code, text);
  }
  return text;
}

}  // namespace weft::test
