#include "checkpoint/printable.h"

#include <fmt/format.h>

namespace weft {
namespace {

// Bytes of the UTF-8 character at the start of `text`; 0 if there is none.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xc2 && lead <= 0xdf   ? 2
                       : (lead & 0xf0) == 0xe0        ? 3
                       : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                      : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and code points past U+10FFFF show in the second byte.
  if (lead == 0xe0 && byte(1) < 0xa0) return 0;
  if (lead == 0xed && byte(1) > 0x9f) return 0;
  if (lead == 0xf0 && byte(1) < 0x90) return 0;
  if (lead == 0xf4 && byte(1) > 0x8f) return 0;
  return bytes;
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  size_t pos = 0;
  while (pos < text.size()) {
    const size_t bytes = character_bytes(text.substr(pos));
    if (pos + (bytes == 0 ? 1 : bytes) > max_bytes) {
      out += "...";
      break;
    }
    const auto c = static_cast<unsigned char>(text[pos]);
    if (bytes > 1 || (bytes == 1 && c >= 0x20 && c != 0x7f)) {
      out += text.substr(pos, bytes);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      out += fmt::format("\\x{:02x}", c);
    }
    pos += bytes == 0 ? 1 : bytes;
  }
  return out;
}

}  // namespace weft
