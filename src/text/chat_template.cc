#include "text/chat_template.h"

#include "text/native.h"

namespace weft {

struct ChatTemplate::State {
  native::TemplateHandle compiled;
  std::string bos_token;
  std::string eos_token;
};

namespace {

// The text of the token that `key` names; empty if the file names none.
Result<std::string> token_text(const Metadata& metadata, const char* key) {
  WEFT_ASSIGN(const std::optional<int64_t> id, metadata.get_int(key));
  if (!id) return std::string();
  WEFT_ASSIGN(const auto* const tokens, metadata.get_strings("tokenizer.ggml.tokens"));
  const size_t count = tokens == nullptr ? 0 : tokens->size();
  if (*id < 0 || static_cast<uint64_t>(*id) >= count) {
    return Error{ErrorKind::kCorrupt,
                 fmt::format("{} is {}, but the vocabulary has {} tokens", key, *id, count)};
  }
  return (*tokens)[static_cast<size_t>(*id)];
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::from_metadata(const Metadata& metadata) {
  WEFT_ASSIGN(const std::optional<std::string> source,
              metadata.get_string("tokenizer.chat_template"));
  if (!source) {
    return Error{ErrorKind::kNotFound, "the file has no chat template (tokenizer.chat_template)"};
  }
  WEFT_ASSIGN(const std::string bos, token_text(metadata, "tokenizer.ggml.bos_token_id"));
  WEFT_ASSIGN(const std::string eos, token_text(metadata, "tokenizer.ggml.eos_token_id"));
  return from_source(*source, bos, eos);
}

Result<ChatTemplate> ChatTemplate::from_source(std::string_view jinja, std::string_view bos_token,
                                               std::string_view eos_token) {
  weft_template* compiled = nullptr;
  WEFT_RETURN_IF_ERROR(
      native::take(weft_template_create(native::slice(jinja), &compiled), ErrorKind::kCorrupt));
  auto state = std::make_unique<State>();
  state->compiled.reset(compiled);
  state->bos_token = bos_token;
  state->eos_token = eos_token;
  return ChatTemplate(std::move(state));
}

Result<std::string> ChatTemplate::render(std::string_view messages_json, bool add_generation_prompt,
                                         std::string_view extra_json) const {
  const weft_render_input input = {.messages = native::slice(messages_json),
                                   .extra = native::slice(extra_json),
                                   .bos_token = native::slice(state_->bos_token),
                                   .eos_token = native::slice(state_->eos_token),
                                   .add_generation_prompt = add_generation_prompt};
  weft_string out = {};
  WEFT_RETURN_IF_ERROR(native::take(weft_template_render(state_->compiled.get(), &input, &out),
                                    ErrorKind::kInvalidArgument));
  return native::String(out).copy();
}

}  // namespace weft
