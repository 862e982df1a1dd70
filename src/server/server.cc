#include "server/server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/log.h"
#include "server/http_session.h"
#include "server/service.h"

namespace weft {

namespace asio = boost::asio;
using asio::ip::tcp;
using Timer = asio::steady_timer;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
// Long prompts are tokenized beside the I/O thread, and one very long one does not hold up the
// next.
constexpr size_t kWorkers = 2;
constexpr auto kAcceptRetry = 100ms;  // after the system ran out of something
constexpr auto kLastWords =
    2s;  // from the cancellation of calls to the closing of their connections

// Connections at once: the option, as far as the system's limit on open files allows beside our
// own.
int connection_limit(int wanted) {
  constexpr rlim_t kOwnFiles = 64;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return wanted;
  const rlim_t room = files.rlim_cur > 2 * kOwnFiles ? files.rlim_cur - kOwnFiles : kOwnFiles;
  return static_cast<int>(std::min<rlim_t>(room, static_cast<rlim_t>(wanted)));
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServedModel& model, ServerOptions options)
      : engine_(*model.engine),
        options_(std::move(options)),
        service_(model, options_),
        max_connections_(connection_limit(options_.max_connections)),
        acceptor_(io_),
        stop_timer_(io_),
        workers_(kWorkers) {}

  ~Impl() { workers_.join(); }

  Status listen() {
    const std::string where = fmt::format("{}:{}", options_.host, options_.port);
    try {
      tcp::resolver resolver(io_);
      const auto found = resolver.resolve(options_.host, std::to_string(options_.port),
                                          tcp::resolver::passive | tcp::resolver::numeric_service);
      const tcp::endpoint endpoint = found.begin()->endpoint();
      acceptor_.open(endpoint.protocol());
      acceptor_.set_option(tcp::acceptor::reuse_address(true));
      acceptor_.bind(endpoint);
      acceptor_.listen();
      port_ = acceptor_.local_endpoint().port();
    } catch (const boost::system::system_error& e) {
      return Error{ErrorKind::kIo,
                   fmt::format("cannot listen on {}: {}", where, e.code().message())};
    }
    return {};
  }

  uint16_t port() const { return port_; }

  void run() {
    asio::co_spawn(io_, accept_loop(), asio::detached);
    io_.run();
  }

  void stop(Duration grace) {
    asio::post(io_, [this, grace] { begin_stop(grace); });
  }

 private:
  asio::awaitable<void> accept_loop() {
    while (acceptor_.is_open()) {
      auto [ec, socket] = co_await acceptor_.async_accept(kAwait);
      if (!acceptor_.is_open()) break;
      if (ec) {
        spdlog::warn("cannot accept a connection: {}", ec.message());
        Timer pause(io_, kAcceptRetry);
        co_await pause.async_wait(kAwait);
      } else if (static_cast<int>(sessions_.size()) >= max_connections_) {
        refuse(std::move(socket));
      } else {
        open_session(std::move(socket));
      }
    }
  }

  void open_session(tcp::socket socket) {
    auto session = std::make_shared<HttpSession>(std::move(socket), service_, workers_,
                                                 options_.max_body_bytes);
    sessions_.insert(session.get());
    asio::co_spawn(io_, session->run(), [this, session](const std::exception_ptr& failure) {
      if (failure) log_failure(failure);
      session->abort();
      sessions_.erase(session.get());
      if (stopping_ && sessions_.empty()) stop_timer_.cancel();
    });
  }

  // A connection over the limit costs nothing but this: what the socket takes at once.
  static void refuse(tcp::socket socket) {
    const std::string body = to_json(server_unavailable("Too many connections; try again"));
    const std::string text = fmt::format(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: "
        "{}\r\n"
        "Retry-After: 1\r\nConnection: close\r\n\r\n{}",
        body.size(), body);
    error_code ec;
    ec = socket.non_blocking(true, ec);
    char request[4096];  // a close with bytes unread would be a reset, which overtakes the answer
    socket.read_some(asio::buffer(request), ec);
    socket.write_some(asio::buffer(text), ec);
    ec = socket.shutdown(tcp::socket::shutdown_both, ec);
  }

  static void log_failure(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      spdlog::error("a connection failed: {}", e.what());
    }
  }

  // Called again it can only bring the end forward.
  void begin_stop(Duration grace) {
    const auto deadline =
        Timer::clock_type::now() + std::chrono::duration_cast<Timer::duration>(grace);
    const bool first = !std::exchange(stopping_, true);
    stop_deadline_ = first ? deadline : std::min(stop_deadline_, deadline);
    if (!first) {
      stop_timer_.cancel();
      return;
    }
    engine_.drain();
    error_code ec;
    std::ignore = acceptor_.close(ec);
    for (HttpSession* session : sessions_) session->finish();
    if (!sessions_.empty()) asio::co_spawn(io_, end_sessions(), asio::detached);
  }

  asio::awaitable<void> end_sessions() {
    co_await sessions_ended_by_deadline();
    for (HttpSession* session : sessions_) session->cancel();
    stop_deadline_ = Timer::clock_type::now() + kLastWords;
    co_await sessions_ended_by_deadline();
    for (HttpSession* session : sessions_) session->abort();
  }

  // Returns early when the last session ends.
  asio::awaitable<void> sessions_ended_by_deadline() {
    while (!sessions_.empty() && Timer::clock_type::now() < stop_deadline_) {
      stop_timer_.expires_at(stop_deadline_);
      co_await stop_timer_.async_wait(kAwait);
    }
  }

  Engine& engine_;
  const ServerOptions options_;
  const Service service_;
  const int max_connections_;
  uint16_t port_ = 0;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  Timer stop_timer_;
  Timer::time_point stop_deadline_{};
  std::unordered_set<HttpSession*> sessions_;  // each removed when its coroutine ends
  bool stopping_ = false;
  asio::thread_pool workers_;
};

Result<std::unique_ptr<Server>> Server::listen(const ServedModel& model, ServerOptions options) {
  auto impl = std::make_unique<Impl>(model, std::move(options));
  WEFT_RETURN_IF_ERROR(impl->listen());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;
uint16_t Server::port() const { return impl_->port(); }
void Server::run() { impl_->run(); }
void Server::stop(Duration grace) { impl_->stop(grace); }

}  // namespace weft
