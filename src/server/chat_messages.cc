// The `messages` of a chat request.

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "server/api_call.h"
#include "server/json_fields.h"

namespace weft {
namespace {

std::string text_part(const Json& part, std::string path, std::optional<ApiError>& error) {
  JsonFields fields(part, std::move(path), error);
  const std::string type = fields.string("type").value_or("");
  if (type != "text") {
    fields.fail(
        "type",
        fmt::format("Unsupported content part '{}': this model reads text only", excerpt(type)),
        "unsupported_value");
    return "";
  }
  const std::optional<std::string> text = fields.string("text");
  if (!text) {
    fields.fail("text", fmt::format("Missing required parameter: '{}'", fields.param("text")),
                "missing_required_parameter");
  }
  fields.refuse_unknown();
  return text.value_or("");
}

// A string, or an array of text parts, which are joined by line breaks.
std::string message_content(JsonFields& fields, std::optional<ApiError>& error) {
  const Json* content = fields.find("content");
  if (content == nullptr) {
    fields.fail("content", fmt::format("Missing required parameter: '{}'", fields.param("content")),
                "missing_required_parameter");
    return "";
  }
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    fields.fail_type("content", *content, "a string or an array of text parts");
    return "";
  }
  std::string joined;
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const std::string name = fmt::format("content[{}]", i);
    if (!part.is_object()) {
      fields.fail_type(name, part, "an object");
      return "";
    }
    if (i > 0) joined += '\n';
    joined += text_part(part, fields.param(name), error);
  }
  return joined;
}

Json parse_message(const Json& message, std::string path, std::optional<ApiError>& error) {
  JsonFields fields(message, std::move(path), error);
  std::string role = fields.string("role").value_or("");
  if (role.empty()) {
    fields.fail("role", fmt::format("Missing required parameter: '{}'", fields.param("role")),
                "missing_required_parameter");
  } else if (role == "developer") {
    role = "system";  // the API's newer name for it; templates know the older one
  } else if (role == "tool" || role == "function") {
    fields.fail("role",
                fmt::format("Unsupported role '{}': tools are not supported by this server", role),
                "unsupported_value");
  } else if (role != "system" && role != "user" && role != "assistant") {
    fields.fail("role",
                fmt::format("Invalid '{}': '{}' is none of system, developer, user, assistant",
                            fields.param("role"), excerpt(role)),
                "invalid_value");
  }

  Json out;
  out["role"] = role;
  out["content"] = message_content(fields, error);
  for (const char* name : {"name", "reasoning_content"}) {  // some templates use them
    if (auto text = fields.string(name)) out[name] = std::move(*text);
  }
  // What the official client sends back of an earlier answer: null or empty, unless it means
  // something.
  fields.refuse({"tool_calls", "function_call", "tool_call_id", "refusal", "audio", "annotations"},
                true);
  fields.refuse_unknown();
  return out;
}

}  // namespace

Json parse_messages(JsonFields& fields, std::optional<ApiError>& error) {
  Json out = Json::array();
  const Json* messages = fields.find("messages");
  if (messages == nullptr) {
    fields.fail("messages", "Missing required parameter: 'messages'", "missing_required_parameter");
    return out;
  }
  if (!messages->is_array()) {
    fields.fail_type("messages", *messages, "an array of messages");
    return out;
  }
  if (messages->empty()) {
    fields.fail("messages", "Invalid 'messages': empty array; send at least one message",
                "invalid_value");
  }
  for (size_t i = 0; i < messages->size() && !error; ++i) {
    const Json& message = (*messages)[i];
    std::string path = fmt::format("messages[{}]", i);
    if (message.is_object()) {
      out.push_back(parse_message(message, std::move(path), error));
    } else {
      fields.fail_type(path, message, "an object");
    }
  }
  return out;
}

}  // namespace weft
