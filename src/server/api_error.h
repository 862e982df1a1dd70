#pragma once
// A failure as an HTTP client hears it: a status and OpenAI's error envelope.

#include <string>
#include <string_view>
#include <variant>

namespace weft {

struct ApiError {
  int status = 400;
  std::string message = {};  // one line: the offending value and the way out
  std::string param = {};    // the request's field, as "messages[0].role"; empty: none
  std::string code = {};     // for programs; empty: none
  std::string type = "invalid_request_error";
};

template <class T>
using ApiResult = std::variant<T, ApiError>;

// {"error": {"message", "type", "param", "code"}}
std::string to_json(const ApiError& error);

ApiError model_not_found(std::string_view model);
ApiError server_error(std::string message);  // 500
ApiError server_unavailable(
    std::string message);  // 503: the same request may succeed elsewhere or later

}  // namespace weft
