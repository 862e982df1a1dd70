#pragma once
// The OpenAI-compatible HTTP server.

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "metrics/registry.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace weft {

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;    // 0: the system chooses
  std::string model_name;  // what clients call the model
  int64_t created = 0;     // Unix time of /v1/models
  double unhealthy_after_seconds =
      60;  // /health is 503 once no layer moved for so long while work waits
  uint64_t max_body_bytes = 16U << 20U;
  int max_choices = 128;       // n at most
  int max_connections = 4096;  // at once; more are answered by 503
};

// What is served. All of it must outlive the server.
struct ServedModel {
  Engine* engine = nullptr;
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template =
      nullptr;  // null: the file has none; /v1/chat/completions is a clear 400
  MetricsRegistry* metrics = nullptr;
};

class Server {
 public:
  // Binds and listens; kIo naming the address if that fails.
  static Result<std::unique_ptr<Server>> listen(const ServedModel& model, ServerOptions options);
  ~Server();

  uint16_t port() const;
  // Serves until stop(); call once.
  void run();
  // Called again it brings the end forward. Any thread, and signal handlers through a self-pipe or
  // asio: accepts no more, lets running requests finish for at most `grace`, then cancels them;
  // run() returns.
  void stop(Duration grace);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
