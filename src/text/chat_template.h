#pragma once
// ChatTemplate: the model's own Jinja template.

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/metadata.h"

namespace weft {

// Immutable after construction; any thread may render.
class ChatTemplate {
 public:
  // From tokenizer.chat_template and the texts of the BOS and EOS tokens; kNotFound if the file has
  // no template.
  static Result<ChatTemplate> from_metadata(const Metadata& metadata);
  static Result<ChatTemplate> from_source(std::string_view jinja, std::string_view bos_token,
                                          std::string_view eos_token);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // messages_json: a JSON array of OpenAI messages. extra_json: a JSON object of further template
  // variables (tools, enable_thinking, ...); "{}" for none. A raise_exception() of the template
  // becomes the error's text.
  Result<std::string> render(std::string_view messages_json, bool add_generation_prompt,
                             std::string_view extra_json = "{}") const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
