#include "server/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace weft {
namespace {

ApiError malformed(std::string_view body, size_t byte, std::string_view what) {
  const std::string_view before = body.substr(0, std::min(byte, body.size()));
  const size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t newline = before.rfind('\n');
  const size_t column = before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
  return {.status = 400,
          .message = fmt::format("The request body is not valid JSON: {} at line {}, column {}",
                                 what, line, column),
          .code = "invalid_json"};
}

ApiError beyond_limits(std::string message) {
  return {.status = 400, .message = std::move(message), .code = "invalid_json"};
}

// Holds brackets and members, counted outside of strings, against the limits; whether it is JSON is
// not asked here.
std::optional<ApiError> check_limits(std::string_view body) {
  std::vector<int> members;  // of each open bracket
  bool in_string = false;
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      members.push_back(0);
      if (members.size() > kMaxJsonDepth) {
        return beyond_limits(
            fmt::format("The request body is nested deeper than {} levels", kMaxJsonDepth));
      }
    } else if ((c == ']' || c == '}') && !members.empty()) {
      members.pop_back();
    } else if (c == ':' && !members.empty() && ++members.back() > kMaxJsonMembers) {
      return beyond_limits(
          fmt::format("The request body has an object of more than {} members", kMaxJsonMembers));
    }
  }
  return std::nullopt;
}

}  // namespace

ApiResult<Json> parse_json(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return ApiError{.message = "The request body is empty; send a JSON object",
                    .code = "invalid_json"};
  }
  if (auto error = check_limits(body)) return std::move(*error);
  try {
    return Json::parse(body);
  } catch (const Json::parse_error& e) {
    // The library counts bytes from 1, and names the last one it read.
    const size_t byte = e.byte > 0 ? e.byte - 1 : 0;
    const bool utf8 = std::string_view(e.what()).find("UTF-8") != std::string_view::npos;
    return malformed(body, byte,
                     utf8                  ? "invalid UTF-8 in a string"
                     : byte >= body.size() ? "unexpected end of the body"
                                           : "unexpected character");
  } catch (const Json::out_of_range&) {
    return beyond_limits("The request body holds a number too large to represent");
  }
}

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string_view kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    case Json::value_t::number_float:
      return "a number with a fraction";
    default:
      return "an unknown value";
  }
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string excerpt(std::string_view text) {
  constexpr size_t kShown = 80;
  if (text.size() <= kShown) return std::string(text);
  size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace weft
