#include "text/tokenizer.h"

#include <algorithm>
#include <array>

#include "text/tokenizer_state.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 15> kEndNames = {
    "</s>",          "<eos>",           "<|endoftext|>", "<|end_of_text|>", "<|im_end|>",
    "<|eot_id|>",    "<|eom_id|>",      "<|end|>",       "<|eot|>",         "<EOT>",
    "<end_of_turn>", "<|end_of_turn|>", "<turn|>",       "<|return|>",      "<end_of_utterance>"};

Result<Vocabulary> json_vocabulary(const weft_tokenizer* tokenizer,
                                   const weft_json_traits& traits) {
  std::vector<std::string> texts;
  std::vector<TokenKind> kinds;
  texts.reserve(traits.count);
  kinds.reserve(traits.count);
  for (size_t id = 0; id < traits.count; ++id) {
    uint8_t kind = 0;
    const weft_slice text = weft_json_token(tokenizer, static_cast<TokenId>(id), &kind);
    texts.emplace_back(text.data == nullptr ? "" : text.data, text.size);
    kinds.push_back(static_cast<TokenKind>(kind));
  }
  const Spelling spelling =
      traits.style == WEFT_STYLE_BYTE_LEVEL ? Spelling::kByteLevel : Spelling::kSentencePiece;
  return Vocabulary::create(std::move(texts), std::move(kinds), spelling, "tokenizer.json");
}

}  // namespace

std::vector<TokenId> collect_end_ids(const Vocabulary& vocabulary, std::vector<TokenId> listed) {
  for (const std::string_view name : kEndNames) {
    const std::optional<TokenId> id = vocabulary.find(name);
    if (id && vocabulary.kind(*id) == TokenKind::kControl) listed.push_back(*id);
  }
  std::ranges::sort(listed);
  const auto repeated = std::ranges::unique(listed);
  listed.erase(repeated.begin(), repeated.end());
  return listed;
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::from_json(std::string_view json) {
  weft_tokenizer* created = nullptr;
  weft_json_traits traits = {};
  WEFT_RETURN_IF_ERROR(
      native::take(weft_json_create(native::slice(json), &created, &traits), ErrorKind::kCorrupt));
  native::TokenizerHandle encoder(created);
  WEFT_ASSIGN(Vocabulary vocabulary, json_vocabulary(encoder.get(), traits));
  auto state = std::make_unique<State>(std::move(vocabulary), std::move(encoder));
  if (traits.bos >= 0) state->bos = traits.bos;
  state->add_bos = state->bos.has_value();
  state->drops_first_space = traits.drops_first_space;
  state->drops_space_after_special = traits.drops_space_after_special;
  state->end_ids = collect_end_ids(state->vocabulary, {});
  return Tokenizer(std::move(state));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  weft_ids ids = {};
  const bool parse = special == SpecialTokens::kParse;
  WEFT_RETURN_IF_ERROR(
      native::take(weft_encode(state_->encoder.get(), native::slice(text), parse, &ids),
                   ErrorKind::kInvalidArgument));
  std::vector<TokenId> copy(ids.data, ids.data + ids.size);
  weft_ids_free(ids);
  return copy;
}

Result<std::vector<TokenId>> Tokenizer::encode_prompt(std::string_view text,
                                                      SpecialTokens special) const {
  WEFT_ASSIGN(std::vector<TokenId> ids, encode(text, special));
  const bool begins_with_bos = !ids.empty() && bos() && ids.front() == *bos();
  if (add_bos() && !begins_with_bos) ids.insert(ids.begin(), *bos());
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string text;
  bool drop_space = drops_first_space();
  for (const TokenId id : ids) {
    std::string_view bytes = token_bytes(id);
    if (drops_space_after(id)) {
      drop_space = true;
    } else if (!bytes.empty() && !is_special(id)) {
      if (drop_space && bytes.front() == ' ') bytes.remove_prefix(1);
      drop_space = false;
    }
    if (!(skip_special && is_special(id))) text += bytes;
  }
  return text;
}

std::string_view Tokenizer::token_bytes(TokenId id) const { return state_->vocabulary.bytes(id); }
std::string_view Tokenizer::token_text(TokenId id) const { return state_->vocabulary.text(id); }
std::optional<TokenId> Tokenizer::find(std::string_view token_text) const {
  return state_->vocabulary.find(token_text);
}
int Tokenizer::vocab_size() const { return state_->vocabulary.size(); }

bool Tokenizer::is_special(TokenId id) const {
  const TokenKind kind = state_->vocabulary.kind(id);
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
}

bool Tokenizer::drops_first_space() const { return state_->drops_first_space; }

bool Tokenizer::drops_space_after(TokenId id) const {
  const TokenKind kind = state_->vocabulary.kind(id);
  return state_->drops_space_after_special &&
         (kind == TokenKind::kControl || kind == TokenKind::kUserDefined);
}

std::optional<TokenId> Tokenizer::bos() const { return state_->bos; }
std::optional<TokenId> Tokenizer::eos() const { return state_->eos; }
bool Tokenizer::add_bos() const { return state_->add_bos; }
std::span<const TokenId> Tokenizer::end_ids() const { return state_->end_ids; }

}  // namespace weft
