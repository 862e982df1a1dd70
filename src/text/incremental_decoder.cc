#include "text/incremental_decoder.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

constexpr std::string_view kReplacement = "\ufffd";

enum class Utf8 { kValid, kInvalid, kIncomplete };

struct Utf8Step {
  Utf8 state;
  size_t size;  // of the character, of the maximal invalid subpart, or of all that is left
};

// Looks at the character at the front of `text`, which is not empty. The second byte's range keeps
// out overlong forms, surrogates and what lies above U+10FFFF (Unicode, table 3-7).
Utf8Step first_character(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {Utf8::kValid, 1};
  if (lead < 0xc2 || lead > 0xf4) return {Utf8::kInvalid, 1};
  const size_t size = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  const unsigned char second_low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned char second_high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (size_t i = 1; i < size; ++i) {
    if (i == text.size()) return {Utf8::kIncomplete, i};
    const unsigned char low = i == 1 ? second_low : 0x80;
    const unsigned char high = i == 1 ? second_high : 0xbf;
    if (byte(i) < low || byte(i) > high) return {Utf8::kInvalid, i};
  }
  return {Utf8::kValid, size};
}

}  // namespace

size_t incomplete_suffix(std::string_view text) {
  for (size_t size = 1; size <= std::min<size_t>(3, text.size()); ++size) {
    const Utf8Step step = first_character(text.substr(text.size() - size));
    if (step.state == Utf8::kIncomplete) return size;
  }
  return 0;
}

std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = first_character(text);
    out += step.state == Utf8::kValid ? text.substr(0, step.size) : kReplacement;
    text.remove_prefix(step.size);
  }
  return out;
}

IncrementalDecoder::IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special, bool at_start)
    : tokenizer_(&tokenizer),
      skip_special_(skip_special),
      drop_space_(at_start && tokenizer.drops_first_space()) {}

std::string IncrementalDecoder::push(TokenId id) {
  std::string_view bytes = tokenizer_->token_bytes(id);
  const bool special = tokenizer_->is_special(id);
  if (tokenizer_->drops_space_after(id)) {
    drop_space_ = true;
  } else if (!bytes.empty() && !special) {
    if (drop_space_ && bytes.front() == ' ') bytes.remove_prefix(1);
    drop_space_ = false;
  }
  if (special && skip_special_) return {};
  pending_ += bytes;
  const size_t complete = pending_.size() - incomplete_suffix(pending_);
  std::string text = repair_utf8(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string IncrementalDecoder::finish() { return repair_utf8(std::exchange(pending_, {})); }

}  // namespace weft
