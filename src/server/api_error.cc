#include "server/api_error.h"

#include <fmt/format.h>

#include <utility>

#include "server/json.h"

namespace weft {

std::string to_json(const ApiError& error) {
  const auto or_null = [](const std::string& s) { return s.empty() ? Json(nullptr) : Json(s); };
  Json body;
  body["message"] = error.message;
  body["type"] = error.type;
  body["param"] = or_null(error.param);
  body["code"] = or_null(error.code);
  return dump(Json{{"error", std::move(body)}});
}

ApiError model_not_found(std::string_view model) {
  return {.status = 404,
          .message = fmt::format(
              "The model '{}' does not exist; GET /v1/models lists what is served", excerpt(model)),
          .param = "model",
          .code = "model_not_found"};
}

ApiError server_error(std::string message) {
  return {.status = 500, .message = std::move(message), .type = "server_error"};
}

ApiError server_unavailable(std::string message) {
  return {.status = 503, .message = std::move(message), .type = "service_unavailable"};
}

}  // namespace weft
