#include "text/vocabulary.h"

#include <array>
#include <charconv>

#include "checkpoint/printable.h"

namespace weft {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

// The byte that each of GPT-2's characters U+0000 to U+0143 stands for, or -1. Printable Latin-1
// characters are themselves; the other bytes are U+0100 and up, in ascending order.
std::array<int, 0x144> byte_of_char() {
  std::array<int, 0x144> table;
  table.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    table[printable ? byte : next++] = byte;
  }
  return table;
}

// A text with a character outside the table stands for itself.
std::string byte_level_bytes(std::string_view text) {
  static const std::array<int, 0x144> table = byte_of_char();
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    int code = static_cast<unsigned char>(text[i]);
    if (code >= 0x80) {
      const bool pair = (code & 0xe0) == 0xc0 && i + 1 < text.size();
      if (!pair) return std::string(text);
      code = ((code & 0x1f) << 6) | (static_cast<unsigned char>(text[++i]) & 0x3f);
    }
    if (code >= static_cast<int>(table.size()) || table[code] < 0) return std::string(text);
    bytes += static_cast<char>(table[code]);
  }
  return bytes;
}

std::string with_spaces(std::string_view text) {
  std::string out;
  while (true) {
    const size_t mark = text.find(kSpaceMark);
    out += text.substr(0, mark);
    if (mark == std::string_view::npos) return out;
    out += ' ';
    text.remove_prefix(mark + kSpaceMark.size());
  }
}

// The byte of "<0x0A>".
std::optional<char> byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  unsigned value = 0;
  const char* const end = text.data() + 5;
  const auto [stop, error] = std::from_chars(text.data() + 3, end, value, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return static_cast<char>(value);
}

std::optional<std::string> bytes_of(std::string_view text, TokenKind kind, Spelling spelling) {
  switch (kind) {
    case TokenKind::kUnknown:
    case TokenKind::kControl:
    case TokenKind::kUserDefined:
    case TokenKind::kUnused:
      return std::string(text);
    case TokenKind::kNormal:
      return spelling == Spelling::kByteLevel ? byte_level_bytes(text) : with_spaces(text);
    case TokenKind::kByte:
      break;
  }
  if (spelling == Spelling::kByteLevel) return byte_level_bytes(text);
  const std::optional<char> byte = byte_token(text);
  if (!byte) return std::nullopt;
  return std::string(1, *byte);
}

}  // namespace

Result<Vocabulary> Vocabulary::create(std::vector<std::string> texts, std::vector<TokenKind> kinds,
                                      Spelling spelling, std::string_view source) {
  WEFT_CHECK(texts.size() == kinds.size(), "{} texts, {} kinds", texts.size(), kinds.size());
  Vocabulary vocabulary;
  vocabulary.texts_ = std::move(texts);
  vocabulary.kinds_ = std::move(kinds);
  vocabulary.bytes_.reserve(vocabulary.texts_.size());
  vocabulary.ids_.reserve(vocabulary.texts_.size());
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string& text = vocabulary.texts_[id];
    const TokenKind kind = vocabulary.kinds_[id];
    std::optional<std::string> bytes = bytes_of(text, kind, spelling);
    if (!bytes) {
      return Error{ErrorKind::kCorrupt,
                   fmt::format("{}: byte token {} is \"{}\", not of the form <0x0A>", source, id,
                               printable(text))};
    }
    vocabulary.bytes_.push_back(std::move(*bytes));
    if (text.empty() && kind == TokenKind::kUnused) continue;
    const auto [first, added] = vocabulary.ids_.emplace(text, id);
    if (!added) {
      return Error{ErrorKind::kCorrupt, fmt::format("{}: entries {} and {} are both \"{}\"", source,
                                                    first->second, id, printable(text))};
    }
  }
  return vocabulary;
}

std::string_view Vocabulary::text(TokenId id) const {
  return contains(id) ? std::string_view(texts_[id]) : std::string_view();
}

std::string_view Vocabulary::bytes(TokenId id) const {
  return contains(id) ? std::string_view(bytes_[id]) : std::string_view();
}

TokenKind Vocabulary::kind(TokenId id) const {
  return contains(id) ? kinds_[id] : TokenKind::kUnused;
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const auto found = ids_.find(text);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace weft
