#include "cli/dummy_vocabulary.h"

#include <array>

#include "base/check.h"

namespace weft {
namespace {

constexpr int64_t kNormal = 1;
constexpr int64_t kControl = 3;
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";

std::string utf8(uint32_t code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0U | (code_point >> 6U)),
          static_cast<char>(0x80U | (code_point & 63U))};
}

// GPT-2 spells a byte as the printable Latin-1 character of its value, or as the next free one from
// 256 on.
std::array<std::string, 256> byte_spellings() {
  std::array<std::string, 256> spellings;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    spellings[byte] = utf8(printable ? byte : next++);
  }
  return spellings;
}

}  // namespace

const std::string_view kDummyChatTemplate =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n' "
    "}}{% endif %}";

DummyVocabulary make_dummy_vocabulary(int size) {
  WEFT_CHECK(size >= 1000 && size <= 500'000, "a vocabulary of {} tokens", size);
  const std::array<std::string, 3> control = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  const size_t words_end = static_cast<size_t>(size) - control.size();
  DummyVocabulary vocabulary;
  const std::array<std::string, 256> bytes = byte_spellings();
  vocabulary.tokens.assign(bytes.begin(), bytes.end());

  // Level by level: each word of the level before, and one letter more. The first level is a space
  // or a letter.
  std::vector<std::string> level = {bytes[' ']};
  for (const char letter : kLetters) level.emplace_back(1, letter);
  while (vocabulary.tokens.size() < words_end) {
    std::vector<std::string> longer;
    for (const std::string& word : level) {
      for (const char letter : kLetters) {
        if (vocabulary.tokens.size() == words_end) break;
        longer.push_back(word + letter);
        vocabulary.tokens.push_back(longer.back());
        vocabulary.merges.push_back(word + ' ' + letter);
      }
    }
    level = std::move(longer);
  }

  vocabulary.types.assign(vocabulary.tokens.size(), kNormal);
  vocabulary.types.resize(static_cast<size_t>(size), kControl);
  vocabulary.tokens.insert(vocabulary.tokens.end(), control.begin(), control.end());
  vocabulary.end_of_text = static_cast<int64_t>(words_end);
  vocabulary.end_of_turn = static_cast<int64_t>(words_end) + 2;
  return vocabulary;
}

}  // namespace weft
