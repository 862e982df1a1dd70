#pragma once
// Turns a stream of token ids into text, holding back bytes until they form whole characters.

#include <string>

#include "base/types.h"
#include "text/tokenizer.h"

namespace weft {

// One per stream; not thread-safe. The tokenizer must outlive it.
class IncrementalDecoder {
 public:
  // skip_special: control tokens give no text. at_start: the stream begins a text (see
  // drops_first_space).
  explicit IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special = true,
                              bool at_start = false);

  // The text that is complete after this token: valid UTF-8, maybe empty. Bytes that can no longer
  // become a valid character are replaced by U+FFFD as Unicode recommends (one for each maximal
  // subpart).
  std::string push(TokenId id);
  // What is left at the end of the stream; half a character becomes U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  bool drop_space_;
  std::string pending_;  // at most 3 bytes: a prefix of a character
};

// Number of bytes at the end of `text` that are a proper prefix of a UTF-8 character: 0 to 3.
size_t incomplete_suffix(std::string_view text);
// `text` with every maximal invalid subpart replaced by U+FFFD.
std::string repair_utf8(std::string_view text);

}  // namespace weft
