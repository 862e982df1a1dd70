#pragma once
// The endpoints without HTTP's bytes: what each path and method answers.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/api_call.h"
#include "server/api_error.h"
#include "server/running_call.h"
#include "server/server.h"

namespace weft {

enum class Route : uint8_t {
  kChat,         // POST /v1/chat/completions
  kCompletions,  // POST /v1/completions
  kModels,       // GET /v1/models
  kModel,        // GET /v1/models/{id}
  kHealth,       // GET /health: 503 once work waits and nothing moves
  kReady,        // GET /ready: 503 while draining
  kMetrics,      // GET /metrics
  kVersion,      // GET /version
  kUnknown,
};

struct HttpReply {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  std::string allow = {};       // 405 and OPTIONS: the methods of this path
  std::string request_id = {};  // of an answer
};
HttpReply to_reply(const ApiError& error);

// Thread-safe. The model's parts must outlive it.
class Service {
 public:
  Service(const ServedModel& model, const ServerOptions& options);

  // The path of a request target, without its query, and what it names.
  static std::string_view path_of(std::string_view target);
  static Route route(std::string_view path);
  static std::string_view handler_name(Route route);  // a label: "/v1/models/{id}"
  static std::string_view methods(Route route);       // as in Allow

  // Every answer but those of begin(): GET and HEAD, OPTIONS, 404, 405.
  HttpReply reply(Route route, std::string_view method, std::string_view path) const;

  // Parses, checks, renders and tokenizes a body and submits it. Long prompts take long: not for
  // the I/O thread. wake: see RunningCall::start.
  ApiResult<std::unique_ptr<RunningCall>> begin(Endpoint endpoint, std::string_view body,
                                                std::function<void()> wake) const;

  void count(Route route, std::string_view method, int status) const;

 private:
  HttpReply get(Route route, std::string_view path) const;
  HttpReply models() const;
  HttpReply model(std::string_view path) const;
  HttpReply health() const;
  HttpReply ready() const;

  ServedModel model_;
  ServerOptions options_;
};

}  // namespace weft
