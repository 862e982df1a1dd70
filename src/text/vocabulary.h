#pragma once
// Vocabulary: what each token id is spelled as and which bytes it stands for.

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace weft {

// The numbers of tokenizer.ggml.token_type.
enum class TokenKind : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// How the spelling of a normal token becomes bytes.
enum class Spelling {
  kByteLevel,      // each character is one byte, by GPT-2's table
  kSentencePiece,  // U+2581 is a space; "<0x0A>" of kind kByte is one byte
};

// Immutable. Views live as long as the vocabulary, wherever it is moved.
class Vocabulary {
 public:
  // texts, kinds: one per id. An empty text of kind kUnused is an id without a token. kCorrupt
  // where two ids have the same text or a byte token's text is malformed; `source` names the list
  // in that error.
  static Result<Vocabulary> create(std::vector<std::string> texts, std::vector<TokenKind> kinds,
                                   Spelling spelling, std::string_view source);

  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  int size() const { return static_cast<int>(texts_.size()); }
  bool contains(int64_t id) const { return id >= 0 && id < size(); }
  const std::vector<std::string>& texts() const { return texts_; }
  const std::vector<TokenKind>& kinds() const { return kinds_; }

  // Empty, or kUnused, for an id outside the vocabulary.
  std::string_view text(TokenId id) const;
  std::string_view bytes(TokenId id) const;
  TokenKind kind(TokenId id) const;

  std::optional<TokenId> find(std::string_view text) const;

 private:
  Vocabulary() = default;
  std::vector<std::string> texts_;
  std::vector<std::string> bytes_;
  std::vector<TokenKind> kinds_;
  std::unordered_map<std::string_view, TokenId> ids_;  // keys are views of texts_
};

}  // namespace weft
