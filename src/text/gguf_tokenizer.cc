// Tokenizer::from_metadata: a GGUF's vocabulary, checked whole before it is built.

#include <array>

#include "checkpoint/printable.h"

#include "text/tokenizer_state.h"

namespace weft {
namespace {

constexpr const char* kTokens = "tokenizer.ggml.tokens";

Error corrupt(std::string message) { return {ErrorKind::kCorrupt, std::move(message)}; }

// A pre-tokenizer, by any of the names that converters write for it.
struct PreTokenizer {
  std::string_view name;
  int32_t split;
  bool whole_words;  // a word of the vocabulary is one token even where the merges lead elsewhere
  bool add_bos;      // where the file does not say
};

constexpr std::array kPreTokenizers = {
    PreTokenizer{"smollm", WEFT_SPLIT_SMOLLM, false, false},
    PreTokenizer{"qwen2", WEFT_SPLIT_QWEN2, false, false},
    PreTokenizer{"deepseek-r1-qwen", WEFT_SPLIT_QWEN2, false, false},
    PreTokenizer{"llama-bpe", WEFT_SPLIT_LLAMA3, true, true},
    PreTokenizer{"llama3", WEFT_SPLIT_LLAMA3, true, true},
    PreTokenizer{"llama-v3", WEFT_SPLIT_LLAMA3, true, true},
    PreTokenizer{"gpt-2", WEFT_SPLIT_GPT2, false, false},
    PreTokenizer{"gpt2", WEFT_SPLIT_GPT2, false, false},
    PreTokenizer{"phi-2", WEFT_SPLIT_GPT2, false, false},
};

Result<PreTokenizer> find_pre_tokenizer(const Metadata& metadata) {
  constexpr std::string_view kSupported = "smollm, qwen2, llama-bpe and gpt-2 are supported";
  WEFT_ASSIGN(const std::optional<std::string> name, metadata.get_string("tokenizer.ggml.pre"));
  if (!name) {
    return Error{ErrorKind::kUnsupported,
                 fmt::format("the file does not name its pre-tokenizer (tokenizer.ggml.pre); {}",
                             kSupported)};
  }
  for (const PreTokenizer& known : kPreTokenizers) {
    if (known.name == *name) return known;
  }
  return Error{ErrorKind::kUnsupported,
               fmt::format("pre-tokenizer \"{}\" (tokenizer.ggml.pre) is not supported; {}",
                           printable(*name), kSupported)};
}

Result<std::vector<TokenKind>> read_kinds(const Metadata& metadata, size_t count) {
  constexpr const char* kKey = "tokenizer.ggml.token_type";
  WEFT_ASSIGN(const auto numbers, metadata.get_ints(kKey));
  if (!numbers) return std::vector<TokenKind>(count, TokenKind::kNormal);
  if (numbers->size() != count) {
    return corrupt(
        fmt::format("{} has {} entries, {} has {}", kKey, numbers->size(), kTokens, count));
  }
  std::vector<TokenKind> kinds;
  kinds.reserve(count);
  for (const int64_t number : *numbers) {
    if (number < 1 || number > 6) {
      return corrupt(fmt::format("{}: entry {} is {}, not 1 to 6", kKey, kinds.size(), number));
    }
    kinds.push_back(static_cast<TokenKind>(number));
  }
  return kinds;
}

Result<Vocabulary> read_vocabulary(const Metadata& metadata, Spelling spelling) {
  WEFT_ASSIGN(const auto* const tokens, metadata.get_strings(kTokens));
  if (tokens == nullptr || tokens->empty()) {
    return corrupt(fmt::format("{} is missing or empty", kTokens));
  }
  constexpr size_t kMostTokens = size_t{1} << 30;
  if (tokens->size() > kMostTokens) {
    return corrupt(fmt::format("{} has {} entries", kTokens, tokens->size()));
  }
  WEFT_ASSIGN(std::vector<TokenKind> kinds, read_kinds(metadata, tokens->size()));
  return Vocabulary::create(*tokens, std::move(kinds), spelling, kTokens);
}

Result<std::optional<TokenId>> read_id(const Metadata& metadata, const Vocabulary& vocabulary,
                                       const char* key) {
  WEFT_ASSIGN(const std::optional<int64_t> id, metadata.get_int(key));
  if (!id) return std::optional<TokenId>();
  if (!vocabulary.contains(*id)) {
    return corrupt(
        fmt::format("{} is {}, but the vocabulary has {} tokens", key, *id, vocabulary.size()));
  }
  return std::optional<TokenId>(static_cast<TokenId>(*id));
}

// The id of one part of a merge. Control tokens have no part in merging: no text may become one.
Result<TokenId> merge_id(const Vocabulary& vocabulary, std::string_view text, size_t merge) {
  const std::optional<TokenId> id = vocabulary.find(text);
  if (!id || vocabulary.kind(*id) == TokenKind::kControl) {
    return corrupt(fmt::format("tokenizer.ggml.merges: entry {} needs \"{}\", which is {}", merge,
                               printable(text), id ? "a control token" : "not in the vocabulary"));
  }
  return *id;
}

// [merges, 2] ids.
Result<std::vector<int32_t>> read_merges(const Metadata& metadata, const Vocabulary& vocabulary) {
  constexpr const char* kKey = "tokenizer.ggml.merges";
  WEFT_ASSIGN(const auto* const merges, metadata.get_strings(kKey));
  if (merges == nullptr) return corrupt(fmt::format("{} is missing", kKey));
  std::vector<int32_t> ids;
  ids.reserve(2 * merges->size());
  std::string joined;
  for (size_t i = 0; i < merges->size(); ++i) {
    const std::string_view merge = (*merges)[i];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return corrupt(
          fmt::format("{}: entry {} is \"{}\", not two tokens", kKey, i, printable(merge)));
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    WEFT_ASSIGN(const TokenId left_id, merge_id(vocabulary, left, i));
    WEFT_ASSIGN(const TokenId right_id, merge_id(vocabulary, right, i));
    WEFT_RETURN_IF_ERROR(merge_id(vocabulary, joined, i));
    ids.push_back(left_id);
    ids.push_back(right_id);
  }
  return ids;
}

// The vocabulary as the Rust library takes it, valid as long as the vocabulary.
struct NativeTokens {
  explicit NativeTokens(const Vocabulary& vocabulary) {
    for (const std::string& text : vocabulary.texts()) texts.push_back(native::slice(text));
    for (const TokenKind kind : vocabulary.kinds()) kinds.push_back(static_cast<uint8_t>(kind));
  }
  std::vector<weft_slice> texts;
  std::vector<uint8_t> kinds;
};

Result<native::TokenizerHandle> create_bpe(const Metadata& metadata, const Vocabulary& vocabulary,
                                           const PreTokenizer& pre_tokenizer) {
  WEFT_ASSIGN(const std::vector<int32_t> merges, read_merges(metadata, vocabulary));
  const NativeTokens tokens(vocabulary);
  const weft_bpe_spec spec = {.texts = tokens.texts.data(),
                              .kinds = tokens.kinds.data(),
                              .count = tokens.texts.size(),
                              .merges = merges.data(),
                              .merge_count = merges.size() / 2,
                              .split = pre_tokenizer.split,
                              .whole_words = pre_tokenizer.whole_words};
  weft_tokenizer* created = nullptr;
  WEFT_RETURN_IF_ERROR(native::take(weft_bpe_create(&spec, &created), ErrorKind::kCorrupt));
  return native::TokenizerHandle(created);
}

Result<std::vector<float>> read_scores(const Metadata& metadata, int count) {
  constexpr const char* kKey = "tokenizer.ggml.scores";
  WEFT_ASSIGN(const auto scores, metadata.get_floats(kKey));
  if (!scores) return corrupt(fmt::format("{} is missing", kKey));
  if (scores->size() != static_cast<size_t>(count)) {
    return corrupt(
        fmt::format("{} has {} entries, {} has {}", kKey, scores->size(), kTokens, count));
  }
  return std::vector<float>(scores->begin(), scores->end());
}

Result<native::TokenizerHandle> create_spm(const Metadata& metadata, const Vocabulary& vocabulary,
                                           bool space_prefix) {
  WEFT_ASSIGN(const std::vector<float> scores, read_scores(metadata, vocabulary.size()));
  WEFT_ASSIGN(std::optional<TokenId> unknown,
              read_id(metadata, vocabulary, "tokenizer.ggml.unknown_token_id"));
  for (TokenId id = 0; !unknown && id < vocabulary.size(); ++id) {
    if (vocabulary.kind(id) == TokenKind::kUnknown) unknown = id;
  }
  const NativeTokens tokens(vocabulary);
  const weft_spm_spec spec = {.texts = tokens.texts.data(),
                              .kinds = tokens.kinds.data(),
                              .scores = scores.data(),
                              .count = tokens.texts.size(),
                              .unknown = unknown.value_or(-1),
                              .space_prefix = space_prefix};
  weft_tokenizer* created = nullptr;
  WEFT_RETURN_IF_ERROR(native::take(weft_spm_create(&spec, &created), ErrorKind::kCorrupt));
  return native::TokenizerHandle(created);
}

// Keys of a SentencePiece file that would change the text before it is cut.
Status refuse_normalization(const Metadata& metadata) {
  WEFT_ASSIGN(const std::optional<bool> trims,
              metadata.get_bool("tokenizer.ggml.remove_extra_whitespaces"));
  const bool maps = metadata.contains("tokenizer.ggml.precompiled_charsmap");
  if (!maps && !trims.value_or(false)) return {};
  return Error{ErrorKind::kUnsupported,
               fmt::format("a SentencePiece vocabulary with {} is not supported",
                           maps ? "tokenizer.ggml.precompiled_charsmap"
                                : "tokenizer.ggml.remove_extra_whitespaces")};
}

}  // namespace

Result<Tokenizer> Tokenizer::from_metadata(const Metadata& metadata) {
  WEFT_ASSIGN(const std::optional<std::string> model, metadata.get_string("tokenizer.ggml.model"));
  if (!model) {
    return Error{ErrorKind::kNotFound,
                 "the file has no tokenizer (tokenizer.ggml.model is missing)"};
  }
  std::unique_ptr<State> state;
  bool add_bos_by_default = false;
  if (*model == "gpt2") {
    WEFT_ASSIGN(const PreTokenizer pre_tokenizer, find_pre_tokenizer(metadata));
    WEFT_ASSIGN(Vocabulary vocabulary, read_vocabulary(metadata, Spelling::kByteLevel));
    WEFT_ASSIGN(auto encoder, create_bpe(metadata, vocabulary, pre_tokenizer));
    state = std::make_unique<State>(std::move(vocabulary), std::move(encoder));
    add_bos_by_default = pre_tokenizer.add_bos;
  } else if (*model == "llama") {
    WEFT_RETURN_IF_ERROR(refuse_normalization(metadata));
    WEFT_ASSIGN(const std::optional<bool> prefix,
                metadata.get_bool("tokenizer.ggml.add_space_prefix"));
    WEFT_ASSIGN(Vocabulary vocabulary, read_vocabulary(metadata, Spelling::kSentencePiece));
    WEFT_ASSIGN(auto encoder, create_spm(metadata, vocabulary, prefix.value_or(true)));
    state = std::make_unique<State>(std::move(vocabulary), std::move(encoder));
    state->drops_first_space = prefix.value_or(true);
    state->drops_space_after_special = prefix.value_or(true);
    add_bos_by_default = true;
  } else {
    return Error{
        ErrorKind::kUnsupported,
        fmt::format("tokenizer model \"{}\" (tokenizer.ggml.model) is not supported; gpt2 and "
                    "llama are",
                    printable(*model))};
  }

  WEFT_ASSIGN(state->bos, read_id(metadata, state->vocabulary, "tokenizer.ggml.bos_token_id"));
  WEFT_ASSIGN(state->eos, read_id(metadata, state->vocabulary, "tokenizer.ggml.eos_token_id"));
  WEFT_ASSIGN(const std::optional<bool> add_bos, metadata.get_bool("tokenizer.ggml.add_bos_token"));
  if (add_bos.value_or(false) && !state->bos) {
    return corrupt(
        "tokenizer.ggml.add_bos_token is true, but tokenizer.ggml.bos_token_id is missing");
  }
  state->add_bos = add_bos.value_or(add_bos_by_default && state->bos.has_value());
  std::vector<TokenId> ends;
  if (state->eos) ends.push_back(*state->eos);
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    WEFT_ASSIGN(const std::optional<TokenId> id, read_id(metadata, state->vocabulary, key));
    if (id) ends.push_back(*id);
  }
  state->end_ids = collect_end_ids(state->vocabulary, std::move(ends));
  return Tokenizer(std::move(state));
}

}  // namespace weft
