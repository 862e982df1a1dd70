#pragma once
// Tokenizer: text to token ids and back, built from a GGUF's vocabulary or from a tokenizer.json.
// Immutable after construction; any thread may use it.

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "checkpoint/metadata.h"

namespace weft {

enum class SpecialTokens {
  kAsText,  // "<|im_end|>" in user text is nine characters like any others
  kParse,   // "<|im_end|>" becomes its one id: rendered chat templates
};

class Tokenizer {
 public:
  // Reads tokenizer.ggml.*: model "gpt2" with pre-tokenizer smollm, qwen2, llama-bpe or gpt-2 (and
  // their aliases), or model "llama" (SentencePiece BPE). Any other is kUnsupported and named.
  static Result<Tokenizer> from_metadata(const Metadata& metadata);
  // Reads the bytes of a tokenizer.json; special ids as in its added_tokens.
  static Result<Tokenizer> from_json(std::string_view json);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Invalid UTF-8 is an error that names the byte offset. Never adds a BOS. decode(encode(text)) is
  // the text again, but for bytes that a byte-level vocabulary lacks (some control characters,
  // unassigned planes): they are left out.
  Result<std::vector<TokenId>> encode(std::string_view text, SpecialTokens special) const;

  // The bytes one id stands for, which may be part of a character; special tokens are their own
  // text. An id outside the vocabulary gives an empty string.
  std::string_view token_bytes(TokenId id) const;
  // The bytes of a run of ids from the start of a text (a SentencePiece tokenizer drops its space
  // prefix), as they are: possibly ending inside a character.
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

  // The vocabulary's own spelling of an id ("Ġhello"), for inspection.
  std::string_view token_text(TokenId id) const;
  std::optional<TokenId> find(std::string_view token_text) const;
  int vocab_size() const;
  bool is_special(TokenId id) const;  // control tokens: hidden from text
  // True where the first token's leading space is not part of the text (SentencePiece space
  // prefix).
  bool drops_first_space() const;
  // True where the same holds for the token that follows `id`, a special one.
  bool drops_space_after(TokenId id) const;

  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  bool add_bos() const;  // the file asks for a BOS before text that has none
  // Every id that ends a turn or a text: eos, eot, and control tokens known to mean the same
  // (<|im_end|>,
  // <|eot_id|>, <|endoftext|>, <end_of_turn>, ...). Ascending.
  std::span<const TokenId> end_ids() const;

  // `text` as ids for a model: encoded, with a BOS in front if the file asks for one and the ids do
  // not begin with it.
  Result<std::vector<TokenId>> encode_prompt(std::string_view text, SpecialTokens special) const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
