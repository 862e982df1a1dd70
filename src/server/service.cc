#include "server/service.h"

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <utility>

#include "base/log.h"
#include "server/json.h"

namespace weft {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";

struct RouteEntry {
  Route route;
  std::string_view path;
  std::string_view methods;
};
constexpr RouteEntry kRoutes[] = {
    {Route::kChat, "/v1/chat/completions", "POST, OPTIONS"},
    {Route::kCompletions, "/v1/completions", "POST, OPTIONS"},
    {Route::kModels, "/v1/models", "GET, HEAD, OPTIONS"},
    {Route::kModel, "/v1/models/{id}", "GET, HEAD, OPTIONS"},
    {Route::kHealth, "/health", "GET, HEAD, OPTIONS"},
    {Route::kReady, "/ready", "GET, HEAD, OPTIONS"},
    {Route::kMetrics, "/metrics", "GET, HEAD, OPTIONS"},
    {Route::kVersion, "/version", "GET, HEAD, OPTIONS"},
};

const RouteEntry* entry_of(Route route) {
  for (const RouteEntry& entry : kRoutes) {
    if (entry.route == route) return &entry;
  }
  return nullptr;
}

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
    const auto low = high ? hex_digit(text[i + 2]) : std::nullopt;
    if (low) {
      out += static_cast<char>(*high * 16 + *low);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// A label must not be the client's to choose: each value is kept for ever.
std::string_view method_label(std::string_view method) {
  for (const std::string_view known :
       {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    if (method == known) return known;
  }
  return "other";
}

Json model_object(const ServerOptions& options, int context) {
  Json out;
  out["id"] = options.model_name;
  out["object"] = "model";
  out["created"] = options.created;
  out["owned_by"] = "weft";
  out["max_model_len"] = context;
  return out;
}

}  // namespace

HttpReply to_reply(const ApiError& error) {
  return {.status = error.status, .body = to_json(error)};
}

Service::Service(const ServedModel& model, const ServerOptions& options)
    : model_(model), options_(options) {
  WEFT_CHECK(model.engine != nullptr && model.tokenizer != nullptr && model.metrics != nullptr);
}

std::string_view Service::path_of(std::string_view target) {
  return target.substr(0, target.find('?'));
}

Route Service::route(std::string_view path) {
  for (const RouteEntry& entry : kRoutes) {
    if (entry.route != Route::kModel && entry.path == path) return entry.route;
  }
  return path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size() ? Route::kModel
                                                                             : Route::kUnknown;
}

std::string_view Service::handler_name(Route route) {
  const RouteEntry* entry = entry_of(route);
  return entry == nullptr ? "other" : entry->path;
}

std::string_view Service::methods(Route route) {
  const RouteEntry* entry = entry_of(route);
  return entry == nullptr ? "" : entry->methods;
}

HttpReply Service::reply(Route route, std::string_view method, std::string_view path) const {
  if (route == Route::kUnknown) {
    return to_reply({.status = 404,
                     .message = fmt::format("Unknown path '{}'", excerpt(path)),
                     .code = "unknown_url"});
  }
  const bool reads = method == "GET" || method == "HEAD";
  if (reads && route != Route::kChat && route != Route::kCompletions) return get(route, path);
  if (method == "OPTIONS") return {.status = 204, .allow = std::string(methods(route))};
  HttpReply reply = to_reply({.status = 405,
                              .message = fmt::format("{} takes {}, not {}", handler_name(route),
                                                     methods(route), excerpt(method)),
                              .code = "method_not_allowed"});
  reply.allow = methods(route);
  return reply;
}

HttpReply Service::get(Route route, std::string_view path) const {
  switch (route) {
    case Route::kModels:
      return models();
    case Route::kModel:
      return model(path);
    case Route::kHealth:
      return health();
    case Route::kReady:
      return ready();
    case Route::kMetrics:
      return {.body = model_.metrics->expose(),
              .content_type = "text/plain; version=0.0.4; charset=utf-8"};
    case Route::kVersion:
      return {.body = dump(Json{{"version", WEFT_VERSION}})};
    case Route::kChat:
    case Route::kCompletions:
    case Route::kUnknown:
      break;
  }
  return to_reply(server_error("This path has no answer"));
}

HttpReply Service::models() const {
  Json out;
  out["object"] = "list";
  out["data"] = Json::array({model_object(options_, model_.engine->context())});
  return {.body = dump(out)};
}

HttpReply Service::model(std::string_view path) const {
  const std::string id = percent_decoded(path.substr(kModelPrefix.size()));
  if (id != options_.model_name) return to_reply(model_not_found(id));
  return {.body = dump(model_object(options_, model_.engine->context()))};
}

HttpReply Service::health() const {
  const EngineStats stats = model_.engine->stats();
  const bool moves = stats.seconds_since_progress <= options_.unhealthy_after_seconds;
  Json out;
  out["status"] = moves ? "ok" : "stalled";
  out["running"] = stats.running;
  out["waiting"] = stats.waiting;
  out["seconds_since_progress"] = stats.seconds_since_progress;
  return {.status = moves ? 200 : 503, .body = dump(out)};
}

HttpReply Service::ready() const {
  const bool ready = !model_.engine->draining();
  return {.status = ready ? 200 : 503,
          .body = dump(Json{{"status", ready ? "ready" : "draining"}})};
}

ApiResult<std::unique_ptr<RunningCall>> Service::begin(Endpoint endpoint, std::string_view body,
                                                       std::function<void()> wake) const {
  try {
    if (model_.engine->draining()) return server_unavailable("The server is shutting down");
    const ApiLimits limits{.model_name = options_.model_name,
                           .vocab_size = model_.tokenizer->vocab_size(),
                           .max_choices = options_.max_choices};
    ApiResult<ApiCall> call = parse_call(endpoint, body, limits);
    if (auto* error = std::get_if<ApiError>(&call)) return std::move(*error);
    const TextModel text{.tokenizer = model_.tokenizer,
                         .chat_template = model_.chat_template,
                         .context = model_.engine->context()};
    ApiResult<PreparedCall> prepared = prepare_call(std::move(std::get<ApiCall>(call)), text);
    if (auto* error = std::get_if<ApiError>(&prepared)) return std::move(*error);
    return RunningCall::start(*model_.engine, std::move(std::get<PreparedCall>(prepared)),
                              *model_.tokenizer, new_identity(endpoint, options_.model_name),
                              std::move(wake));
  } catch (const std::exception&
               e) {  // out of memory, above all: this request's failure, not the server's
    spdlog::error("a request could not be prepared: {}", e.what());
    return server_error("The server could not prepare this request");
  }
}

void Service::count(Route route, std::string_view method, int status) const {
  model_.metrics
      ->counter("http_requests_total", "HTTP requests by handler, method and status",
                {{"handler", std::string(handler_name(route))},
                 {"method", std::string(method_label(method))},
                 {"status", std::to_string(status)}})
      .Increment();
}

}  // namespace weft
