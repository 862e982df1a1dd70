#pragma once
// A byte-level BPE vocabulary of any size from 1,000 to 500,000 ids: the bytes, then made-up words
// of up to four letters, then ChatML's control tokens.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct DummyVocabulary {
  std::vector<std::string> tokens;  // in GPT-2's spelling of bytes
  std::vector<std::string> merges;  // "a b", by rank
  std::vector<int64_t> types;       // GGUF's numbers: 1 normal, 3 control
  int64_t end_of_text = 0;
  int64_t end_of_turn = 0;
};

DummyVocabulary make_dummy_vocabulary(int size);

// The template that goes with the control tokens.
extern const std::string_view kDummyChatTemplate;

}  // namespace weft
