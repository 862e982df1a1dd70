#include "server/prepared_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "server/json.h"
#include "text/incremental_decoder.h"

namespace weft {
namespace {

constexpr int kDefaultCompletionTokens = 16;  // as the API documents it

ApiError text_error(const Error& error, std::string_view param) {
  if (error.kind == ErrorKind::kExhausted) return server_unavailable(error.message);
  return {.message = error.message, .param = std::string(param), .code = "invalid_value"};
}

std::optional<ApiError> check_length(const PreparedCall& prepared, const Prompt& prompt,
                                     std::string param, int context) {
  const size_t length = prompt.ids.size();
  if (length == 0) {
    return ApiError{
        .message = fmt::format("Invalid '{}': the prompt is empty; send at least one token", param),
        .param = std::move(param),
        .code = "invalid_value"};
  }
  const size_t wanted = static_cast<size_t>(prepared.call.max_tokens.value_or(1));
  if (length + wanted <= static_cast<size_t>(context)) return std::nullopt;
  return ApiError{
      .message = fmt::format(
          "This model's context is {} tokens, but the prompt has {} and {} more are asked for; "
          "shorten the prompt or lower 'max_tokens'",
          context, length, wanted),
      .param = std::move(param),
      .code = "context_length_exceeded"};
}

std::vector<TokenId> end_ids_of(const ApiCall& call, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids = call.stop_token_ids;
  if (!call.ignore_eos)
    ids.insert(ids.end(), tokenizer.end_ids().begin(), tokenizer.end_ids().end());
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

ApiResult<Prompt> chat_prompt(const ApiCall& call, const TextModel& model) {
  if (model.chat_template == nullptr) {
    return ApiError{
        .message = "This model's file has no chat template; use /v1/completions with a prompt",
        .param = "messages",
        .code = "no_chat_template"};
  }
  const auto text = model.chat_template->render(call.messages_json, call.add_generation_prompt,
                                                call.template_kwargs_json);
  if (!text.ok()) return text_error(text.error(), "messages");
  auto ids = model.tokenizer->encode_prompt(*text, SpecialTokens::kParse);
  if (!ids.ok()) return text_error(ids.error(), "messages");
  return Prompt{.ids = std::move(*ids), .echo = "", .from_text = true, .added_bos = 0};
}

ApiResult<Prompt> completion_prompt(const PromptInput& input, bool echo, bool skip_special,
                                    const Tokenizer& tokenizer) {
  Prompt prompt;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&input)) {
    prompt.from_text = false;
    prompt.ids = *ids;
    if (echo) prompt.echo = repair_utf8(tokenizer.decode(prompt.ids, skip_special));
    return prompt;
  }
  const std::string& text = std::get<std::string>(input);
  auto ids = tokenizer.encode_prompt(text, SpecialTokens::kParse);
  if (!ids.ok()) return text_error(ids.error(), "prompt");
  prompt.ids = std::move(*ids);
  if (echo) prompt.echo = text;
  const std::optional<TokenId> bos = tokenizer.bos();
  if (bos && !prompt.ids.empty() && prompt.ids.front() == *bos &&
      !text.starts_with(tokenizer.token_bytes(*bos))) {
    prompt.added_bos = 1;
  }
  return prompt;
}

}  // namespace

ApiResult<PreparedCall> prepare_call(ApiCall call, const TextModel& model) {
  PreparedCall prepared;
  prepared.call = std::move(call);
  ApiCall& c = prepared.call;
  prepared.end_ids = end_ids_of(c, *model.tokenizer);
  if (c.sampling.min_tokens > 0) c.sampling.forbidden = prepared.end_ids;

  const size_t count = c.endpoint == Endpoint::kChat ? 1 : c.prompts.size();
  for (size_t i = 0; i < count; ++i) {
    std::string param = c.endpoint == Endpoint::kChat ? "messages"
                        : c.prompts.size() == 1       ? "prompt"
                                                      : fmt::format("prompt[{}]", i);
    ApiResult<Prompt> prompt =
        c.endpoint == Endpoint::kChat
            ? chat_prompt(c, model)
            : completion_prompt(c.prompts[i], c.echo, c.skip_special_tokens, *model.tokenizer);
    if (auto* error = std::get_if<ApiError>(&prompt)) return std::move(*error);
    prepared.prompts.push_back(std::move(std::get<Prompt>(prompt)));
    if (auto error =
            check_length(prepared, prepared.prompts.back(), std::move(param), model.context)) {
      return std::move(*error);
    }
  }
  c.prompts.clear();
  return prepared;
}

Request to_request(const PreparedCall& prepared, int answer, int context) {
  const ApiCall& call = prepared.call;
  Request request;
  request.prompt = prepared.prompt_of(answer).ids;
  const int room = context - static_cast<int>(request.prompt.size());
  const int by_default =
      call.endpoint == Endpoint::kChat ? room : std::min(room, kDefaultCompletionTokens);
  request.max_tokens = call.max_tokens.value_or(by_default);
  request.sampling = call.sampling;
  request.seed = call.seed;
  request.choice = static_cast<uint32_t>(answer % call.n);
  request.end_ids = prepared.end_ids;
  request.limits = call.limits;
  if (call.echo && call.logprobs()) {
    request.prompt_logprobs = call.sampling.top_logprobs;
  } else if (request.max_tokens == 0) {
    request.prompt_logprobs = 0;  // nothing to generate: the engine is asked for something else
  }
  return request;
}

}  // namespace weft
