#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/log.h"
#include "base/mutex.h"
#include "cli/byte_size.h"
#include "cli/commands.h"
#include "cli/signal_watcher.h"
#include "engine/engine.h"

namespace weft {
namespace {

// The first SIGINT or SIGTERM drains, the second ends what still runs. Before the server listens,
// either just leaves.
class ServerStopper {
 public:
  explicit ServerStopper(Duration grace) : grace_(grace) {}

  void watch(Server* server) {
    MutexLock lock(mutex_);
    server_ = server;
  }

  void on_signal() {
    MutexLock lock(mutex_);
    if (server_ == nullptr) std::_Exit(kExitInterrupted);
    if (signals_ == 0) {
      spdlog::info("stopping: running requests may finish for {:.0f} s; another signal ends them",
                   seconds(grace_));
    } else {
      spdlog::info("stopping now");
    }
    server_->stop(signals_++ == 0 ? grace_ : Duration::zero());
  }

 private:
  const Duration grace_;
  Mutex mutex_;
  Server* server_ GUARDED_BY(mutex_) = nullptr;
  int signals_ GUARDED_BY(mutex_) = 0;
};

void print_banner(const LoadedModel& model, const Engine& engine, Mode mode,
                  const ServerOptions& options, uint16_t port) {
  const ExecutorLimits& limits = model.executor->limits();
  const bool ipv6 = options.host.find(':') != std::string::npos;
  fmt::print(stderr,
             "weft {} at http://{}{}{}:{}\n"
             "  model    {} ({}, {} layers, weights {})\n"
             "  device   {}\n"
             "  context  {} tokens; KV pool {} for {} tokens; {} sequences at once\n"
             "  mode     {}; gaps between a stream's tokens are held to {:.0f} ms\n"
             "  stop     Ctrl-C or SIGTERM\n",
             WEFT_VERSION, ipv6 ? "[" : "", options.host, ipv6 ? "]" : "", port, options.model_name,
             model.model->config.architecture, model.model->config.layers,
             format_bytes(model.weight_bytes), model.executor->description(), limits.context,
             format_bytes(model.kv_bytes), static_cast<int64_t>(limits.blocks) * kBlockPositions,
             limits.slots, mode_name(mode), seconds(engine.stats().itl_target) * 1e3);
}

}  // namespace

Result<int> serve_command(const ServeOptions& options) {
  WEFT_RETURN_IF_ERROR(init_log(options.log_level));
  std::signal(SIGPIPE, SIG_IGN);  // a connection or a log that closes must not end the server
  ServerStopper stopper(
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.drain_seconds)));
  const SignalWatcher watcher({SIGINT, SIGTERM}, [&](int) { stopper.on_signal(); });

  LoadOptions load = options.load;
  WEFT_RETURN_IF_ERROR(prepare_load(options.scheduling, load));
  WEFT_ASSIGN(const LoadedModel model, load_model(load));
  ServerOptions server_options = options.server;
  if (server_options.model_name.empty()) server_options.model_name = model.name;
  server_options.created = std::time(nullptr);

  const SteadyClock clock;
  MetricsRegistry metrics(options.metrics_prefix, server_options.model_name);
  WEFT_ASSIGN(const MachineCosts costs, measure_costs(model));
  WEFT_ASSIGN(const ServingEngine serving,
              start_engine(model, metrics, clock, options.scheduling, costs));
  WEFT_ASSIGN(const std::unique_ptr<Server> server,
              Server::listen({.engine = serving.engine.get(),
                              .tokenizer = model.tokenizer.get(),
                              .chat_template = model.chat_template.get(),
                              .metrics = &metrics},
                             server_options));
  print_banner(model, *serving.engine, options.scheduling.mode, server_options, server->port());
  stopper.watch(server.get());
  server->run();
  stopper.watch(nullptr);
  spdlog::info("stopped");
  return kExitOk;
}

}  // namespace weft
