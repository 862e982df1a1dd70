#pragma once
// What a Tokenizer is made of: the Rust encoder, and the vocabulary that decodes.

#include <optional>
#include <utility>
#include <vector>

#include "text/native.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace weft {

struct Tokenizer::State {
  State(Vocabulary words, native::TokenizerHandle handle)
      : vocabulary(std::move(words)), encoder(std::move(handle)) {}

  Vocabulary vocabulary;
  native::TokenizerHandle encoder;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  bool add_bos = false;
  bool drops_first_space = false;
  bool drops_space_after_special = false;
  std::vector<TokenId> end_ids;  // ascending
};

// `listed` and every control token whose name says that it ends a turn or a text; ascending, each
// once.
std::vector<TokenId> collect_end_ids(const Vocabulary& vocabulary, std::vector<TokenId> listed);

}  // namespace weft
