#include "server/response.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <utility>

#include "server/logprobs_json.h"

namespace weft {
namespace {

constexpr std::string_view kFingerprint = "weft-" WEFT_VERSION;

std::string_view object_name(Endpoint endpoint, bool stream) {
  if (endpoint == Endpoint::kCompletions) return "text_completion";
  return stream ? "chat.completion.chunk" : "chat.completion";
}

Json head_of(const ResponseIdentity& identity, Endpoint endpoint, bool stream) {
  Json head;
  head["id"] = identity.id;
  head["object"] = object_name(endpoint, stream);
  head["created"] = identity.created;
  head["model"] = identity.model;
  head["system_fingerprint"] = kFingerprint;
  return head;
}

}  // namespace

ResponseIdentity new_identity(Endpoint endpoint, std::string model) {
  std::random_device random;
  std::string id = endpoint == Endpoint::kChat ? "chatcmpl-" : "cmpl-";
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", random());
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.id = std::move(id),
          .created = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .model = std::move(model)};
}

ResponseWriter::ResponseWriter(const PreparedCall& call, const Tokenizer& tokenizer,
                               ResponseIdentity identity)
    : call_(call),
      tokenizer_(tokenizer),
      identity_(std::move(identity)),
      cached_tokens_(static_cast<size_t>(call.answers())),
      begun_(static_cast<size_t>(call.answers())) {
  for (const Prompt& prompt : call.prompts) prompt_tokens_ += static_cast<int>(prompt.ids.size());
  event_head_ = "data: " + dump(head_of(identity_, call.call.endpoint, true));
  event_head_.back() = ',';  // in place of the closing brace
}

Json ResponseWriter::usage(int output_tokens) const {
  Json out;
  out["prompt_tokens"] = prompt_tokens_;
  out["completion_tokens"] = output_tokens;
  out["total_tokens"] = prompt_tokens_ + output_tokens;
  int cached = 0;
  for (size_t i = 0; i < cached_tokens_.size(); i += static_cast<size_t>(call_.call.n)) {
    cached += cached_tokens_[i];
  }
  out["prompt_tokens_details"]["cached_tokens"] = cached;
  return out;
}

Json ResponseWriter::token_list(const AnswerPart& part) const {
  if (!call_.call.logprobs() || (part.logprobs.empty() && call_.call.stream)) return nullptr;
  return call_.call.endpoint == Endpoint::kChat ? chat_logprobs(part.logprobs, tokenizer_)
                                                : completion_logprobs(part.logprobs, tokenizer_);
}

Json ResponseWriter::choice(int answer, const AnswerPart& part, bool whole) const {
  const bool chat = call_.call.endpoint == Endpoint::kChat;
  Json out;
  out["index"] = answer;
  if (!chat) {
    out["text"] = part.text;
  } else if (whole) {
    out["message"] = Json{{"role", "assistant"}, {"content", part.text}, {"refusal", nullptr}};
  } else {
    out["delta"] = part.text.empty() ? Json::object() : Json{{"content", part.text}};
  }
  out["logprobs"] = token_list(part);
  out["finish_reason"] = part.finish ? Json(finish_reason_name(*part.finish)) : Json(nullptr);
  if (call_.call.return_token_ids) {
    out["token_ids"] = part.tokens;
    if (!chat && (whole || !begun_[static_cast<size_t>(answer)]))
      out["prompt_token_ids"] = call_.prompt_of(answer).ids;
  }
  return out;
}

std::string ResponseWriter::whole(std::span<const AnswerPart> parts, int output_tokens) const {
  Json out = head_of(identity_, call_.call.endpoint, false);
  Json choices = Json::array();
  for (size_t i = 0; i < parts.size(); ++i)
    choices.push_back(choice(static_cast<int>(i), parts[i], true));
  out["choices"] = std::move(choices);
  out["usage"] = usage(output_tokens);
  if (call_.call.return_token_ids && call_.call.endpoint == Endpoint::kChat) {
    out["prompt_token_ids"] = call_.prompts.front().ids;
  }
  return dump(out);
}

std::string ResponseWriter::event(std::string_view choice, int output_tokens) const {
  std::string out = event_head_;
  out += "\"choices\":[";
  out += choice;
  out += ']';
  if (call_.call.continuous_usage) {
    out += ",\"usage\":" + dump(usage(output_tokens));
  } else if (call_.call.include_usage) {
    out += ",\"usage\":null";  // so that every event has the field
  }
  out += "}\n\n";
  return out;
}

std::string ResponseWriter::events(int answer, const AnswerPart& part, int output_tokens) {
  if (part.empty()) return "";
  const ApiCall& call = call_.call;
  const size_t index = static_cast<size_t>(answer);
  std::string out;
  if (call.endpoint == Endpoint::kChat && !begun_[index]) {
    Json first;
    first["index"] = answer;
    first["delta"] = Json{{"role", "assistant"}, {"content", ""}};
    first["logprobs"] = nullptr;
    first["finish_reason"] = nullptr;
    std::string text = event(dump(first), output_tokens);
    if (call.return_token_ids && std::ranges::none_of(begun_, std::identity())) {
      text.resize(text.size() - 3);  // "}\n\n"
      text += ",\"prompt_token_ids\":" + dump(Json(call_.prompts.front().ids)) + "}\n\n";
    }
    out += text;
    begun_[index] = true;
  }
  const bool shows = !part.text.empty() || part.finish || !part.logprobs.empty() ||
                     call.return_token_ids || call.continuous_usage;
  if (!shows) return out;
  out += event(dump(choice(answer, part, false)), output_tokens);
  begun_[index] = true;
  return out;
}

std::string ResponseWriter::last_events(int output_tokens) const {
  std::string out;
  if (call_.call.include_usage) {
    out += event_head_ + "\"choices\":[],\"usage\":" + dump(usage(output_tokens)) + "}\n\n";
  }
  return out + "data: [DONE]\n\n";
}

std::string ResponseWriter::error_events(const ApiError& error) {
  return "data: " + to_json(error) + "\n\ndata: [DONE]\n\n";
}

}  // namespace weft
