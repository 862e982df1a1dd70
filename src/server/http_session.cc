#include "server/http_session.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "server/json.h"

namespace weft {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

constexpr uint32_t kMaxHeaderBytes = 16U << 10U;
constexpr size_t kMaxPipelinedBytes = 64U << 10U;
constexpr auto kHeaderTimeout = 60s;  // from the end of one request to the whole header of the next
constexpr auto kLingerTimeout = 2s;
// Bodies, in and out: a start, and then at least this rate. Slower readers lose their call, not the
// server its memory.
constexpr auto kTransferTimeout = 30s;
constexpr size_t kLeastBytesPerSecond = 16U << 10U;
// Parsing and tokenizing so much takes a millisecond or two: less than the gap between two tokens
// of any stream.
constexpr size_t kInlineBodyBytes = 8U << 10U;

std::chrono::seconds transfer_timeout(size_t bytes) {
  return kTransferTimeout + std::chrono::seconds(bytes / kLeastBytesPerSecond);
}

using StartedCall = ApiResult<std::unique_ptr<RunningCall>>;

// On a worker thread.
awaitable<StartedCall> begin_call(const Service& service, Endpoint endpoint,
                                  const std::string& body, std::function<void()> wake) {
  co_return service.begin(endpoint, body, std::move(wake));
}

// The error a client is told about before the connection closes; none where nobody listens any
// more.
std::optional<ApiError> read_error(error_code ec) {
  if (ec == http::error::body_limit) {
    return ApiError{.status = 413,
                    .message = "The request body is larger than this server accepts",
                    .code = "body_too_large"};
  }
  if (ec == http::error::header_limit) {
    return ApiError{.status = 431,
                    .message = "The request's header is larger than this server accepts",
                    .code = "header_too_large"};
  }
  const bool silent = ec == http::error::end_of_stream || ec == http::error::partial_message;
  if (silent || ec.category() != http::make_error_code(http::error::bad_version).category())
    return std::nullopt;
  return ApiError{.status = 400,
                  .message = fmt::format("Malformed HTTP: {}", ec.message()),
                  .code = "malformed_http"};
}

ApiError unsupported_encoding(std::string_view encoding) {
  return {.status = 415,
          .message = fmt::format("Content-Encoding '{}' is not supported", excerpt(encoding)),
          .code = "unsupported_content_encoding"};
}

// A piece of a body of unknown length.
std::string chunk(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

}  // namespace

struct HttpSession::Exchange {
  std::string method;
  std::string path;
  std::string body;
  Route route = Route::kUnknown;
  bool http11 = true;
  bool keep_alive = false;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  int status = 0;        // once the answer's head is out
  bool streams = false;  // the answer's body comes in chunks
  bool broken = false;   // the connection is of no more use
  int prompt_tokens = 0;
  int output_tokens = 0;
};

HttpSession::HttpSession(tcp::socket socket, const Service& service, asio::thread_pool& workers,
                         uint64_t max_body_bytes)
    : stream_(std::move(socket)),
      service_(service),
      workers_(workers),
      max_body_bytes_(max_body_bytes),
      buffer_(kMaxPipelinedBytes + kMaxHeaderBytes),
      news_(stream_.get_executor()) {
  error_code ec;
  const auto endpoint = stream_.socket().remote_endpoint(ec);
  peer_ = ec ? "unknown" : endpoint.address().to_string();
  // A token should not wait for the next one.
  std::ignore = stream_.socket().set_option(tcp::no_delay(true), ec);
}

awaitable<void> HttpSession::run() {
  bool again = true;
  while (again && !closing_) again = co_await serve_one();
  co_await linger();
}

void HttpSession::finish() {
  closing_ = true;
  if (idle_) stream_.cancel();
}

void HttpSession::cancel() {
  closing_ = true;
  if (!call_) return;
  call_->fail(server_unavailable("The server is shutting down"));
  news_.cancel();
}

void HttpSession::abort() {
  closing_ = true;
  stream_.close();
}

// True while the connection may carry another request.
awaitable<bool> HttpSession::serve_one() {
  Exchange exchange;
  const bool complete = co_await read_request(exchange);
  if (complete) co_await answer(exchange);
  idle_ = true;
  if (exchange.status != 0) log(exchange);
  co_return (complete && exchange.keep_alive && !exchange.broken);
}

// True once a whole request is there. What is wrong with its HTTP is answered here.
awaitable<bool> HttpSession::read_request(Exchange& exchange) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(kMaxHeaderBytes);
  parser.body_limit(max_body_bytes_);
  stream_.expires_after(kHeaderTimeout);
  auto [ec, header_bytes] = co_await http::async_read_header(stream_, buffer_, parser, kAwait);
  exchange.start = std::chrono::steady_clock::now();
  idle_ = false;
  if (!ec) {
    auto& request = parser.get();
    exchange.method = request.method_string();
    exchange.path = Service::path_of(request.target());
    exchange.route = Service::route(exchange.path);
    exchange.http11 = request.version() >= 11;
    exchange.keep_alive = request.keep_alive();
    const std::string_view encoding = request[http::field::content_encoding];
    if (!encoding.empty() && encoding != "identity") {
      exchange.keep_alive = false;
      const HttpReply reply = to_reply(unsupported_encoding(encoding));
      co_await send(exchange, reply);
      co_return false;
    }
    if (beast::iequals(request[http::field::expect], "100-continue") && exchange.http11) {
      co_await write(exchange, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    stream_.expires_after(transfer_timeout(parser.content_length().value_or(max_body_bytes_)));
    auto [body_ec, body_bytes] = co_await http::async_read(stream_, buffer_, parser, kAwait);
    ec = body_ec;
  }
  stream_.expires_never();
  if (ec) {
    exchange.keep_alive = false;
    if (const auto error = read_error(ec)) {
      const HttpReply reply = to_reply(*error);
      co_await send(exchange, reply);
    }
    co_return false;
  }
  exchange.body = std::move(parser.get().body());
  co_return true;
}

awaitable<void> HttpSession::answer(Exchange& exchange) {
  if (exchange.method == "POST" && exchange.route == Route::kChat) {
    co_await answer_call(exchange, Endpoint::kChat);
  } else if (exchange.method == "POST" && exchange.route == Route::kCompletions) {
    co_await answer_call(exchange, Endpoint::kCompletions);
  } else {
    const HttpReply reply = service_.reply(exchange.route, exchange.method, exchange.path);
    co_await send(exchange, reply);
  }
}

awaitable<void> HttpSession::answer_call(Exchange& exchange, Endpoint endpoint) {
  StartedCall started;
  if (exchange.body.size() <= kInlineBodyBytes) {
    started = service_.begin(endpoint, exchange.body, waker());
  } else {
    awaitable<StartedCall> begin = begin_call(service_, endpoint, exchange.body, waker());
    started = co_await asio::co_spawn(workers_, std::move(begin), asio::use_awaitable);
  }
  exchange.body = std::string();
  if (const auto* error = std::get_if<ApiError>(&started)) {
    const HttpReply reply = to_reply(*error);
    co_await send(exchange, reply);
    co_return;
  }
  call_ = std::move(std::get<0>(started));
  exchange.prompt_tokens = call_->prompt_tokens();

  using namespace asio::experimental::awaitable_operators;
  // The first to return ends the other.
  const auto first = co_await (write_answers(exchange) || watch_peer());
  exchange.output_tokens = call_->output_tokens();
  if (first.index() == 1) {
    exchange.broken = true;
    if (exchange.status == 0)
      exchange.status = 499;  // nobody hears it; the log's usual number for that
  }
  call_.reset();
}

// The whole answer of call_, streamed or not. No exception may leave it: the watcher would go on
// alone. Nor does its end by the watcher count as one.
awaitable<void> HttpSession::write_answers(Exchange& exchange) {
  co_await asio::this_coro::throw_if_cancelled(false);
  try {
    bool finished = false;
    while (!finished && !exchange.broken) {
      const bool news = co_await wait_for_news();
      if (!news) co_return;
      finished = call_->finished();
      if (exchange.status == 0 && call_->error()) {
        const HttpReply reply = to_reply(*call_->error());
        co_await send(exchange, reply);
      } else if (call_->stream()) {
        co_await write_events(exchange, finished);
      } else if (finished) {
        const HttpReply reply{.body = call_->take_whole(), .request_id = call_->id()};
        co_await send(exchange, reply);
      }
    }
  } catch (const std::exception& e) {
    spdlog::error("an answer could not be written: {}", e.what());
    exchange.broken = true;
  }
}

// The head goes out with the first event, so that a call which fails before it still gets its own
// status.
awaitable<void> HttpSession::write_events(Exchange& exchange, bool last) {
  std::string events = call_->take_events();
  if (exchange.status == 0 && !events.empty()) {
    exchange.streams = true;
    const HttpReply reply{.body = std::move(events),
                          .content_type = "text/event-stream; charset=utf-8",
                          .request_id = call_->id()};
    co_await send(exchange, reply);
  } else if (!events.empty()) {
    const std::string bytes = exchange.http11 ? chunk(events) : std::move(events);
    co_await write(exchange, bytes);
  }
  if (last && exchange.http11 && !exchange.broken) co_await write(exchange, "0\r\n\r\n");
}

// False if the coroutine was cancelled.
awaitable<bool> HttpSession::wait_for_news() {
  for (;;) {
    const auto state = co_await asio::this_coro::cancellation_state;
    if (state.cancelled() != asio::cancellation_type::none) co_return false;
    if (call_->poll() || call_->finished()) co_return true;
    news_.expires_at(asio::steady_timer::time_point::max());
    co_await news_.async_wait(kAwait);
  }
}

// Called on the engine thread. Holds the session only while the wake-up is under way.
std::function<void()> HttpSession::waker() {
  return [weak = weak_from_this(), executor = stream_.get_executor()] {
    asio::post(executor, [weak] {
      const auto session = weak.lock();
      if (!session) return;
      session->news_.cancel();
      if (session->call_ && session->call_->overflowed()) {
        spdlog::warn("{}: ended, since its client does not read what it streams",
                     session->call_->id());
        session->abort();
      }
    });
  };
}

// Returns when the client has left. Bytes of its next request are kept for it.
awaitable<void> HttpSession::watch_peer() {
  while (buffer_.size() < kMaxPipelinedBytes) {
    const auto space = buffer_.prepare(std::min<size_t>(1024, kMaxPipelinedBytes - buffer_.size()));
    auto [ec, bytes] = co_await stream_.socket().async_read_some(space, kAwait);
    if (ec) co_return;
    buffer_.commit(bytes);
  }
  co_await stream_.socket().async_wait(tcp::socket::wait_error, kAwait);
}

awaitable<void> HttpSession::send(Exchange& exchange, const HttpReply& reply) {
  exchange.status = reply.status;
  exchange.keep_alive = exchange.keep_alive && !closing_ && (exchange.http11 || !exchange.streams);
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nServer: weft\r\n", reply.status,
                                std::string_view(http::obsolete_reason(
                                    http::int_to_status(static_cast<unsigned>(reply.status)))));
  if (!reply.allow.empty()) out += fmt::format("Allow: {}\r\n", reply.allow);
  if (!reply.request_id.empty()) out += fmt::format("X-Request-Id: {}\r\n", reply.request_id);
  if (reply.status == 503) out += "Retry-After: 1\r\n";
  if (reply.status != 204) out += fmt::format("Content-Type: {}\r\n", reply.content_type);
  out += exchange.keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
  if (exchange.streams) {
    out += "Cache-Control: no-cache\r\n";
    if (exchange.http11) {
      out += "Transfer-Encoding: chunked\r\n\r\n" + chunk(reply.body);
    } else {
      out += "\r\n" + reply.body;
    }
  } else {
    if (reply.status != 204) out += fmt::format("Content-Length: {}\r\n", reply.body.size());
    out += "\r\n";
    if (exchange.method != "HEAD") out += reply.body;
  }
  co_await write(exchange, out);
}

awaitable<void> HttpSession::write(Exchange& exchange, std::string_view bytes) {
  stream_.expires_after(transfer_timeout(bytes.size()));
  auto [ec, written] = co_await asio::async_write(stream_, asio::buffer(bytes), kAwait);
  stream_.expires_never();
  if (ec) exchange.broken = true;
}

// Closes so that the last answer arrives even if the client is still sending.
awaitable<void> HttpSession::linger() {
  error_code ec;
  ec = stream_.socket().shutdown(tcp::socket::shutdown_send, ec);
  if (!ec) {
    stream_.expires_after(kLingerTimeout);
    while (!ec) {
      buffer_.clear();
      auto [read_ec, bytes] = co_await stream_.async_read_some(buffer_.prepare(4096), kAwait);
      ec = read_ec;
    }
  }
  stream_.close();
}

void HttpSession::log(const Exchange& exchange) const {
  service_.count(exchange.route, exchange.method, exchange.status);
  const bool call = exchange.prompt_tokens > 0;
  const double ms = seconds(std::chrono::steady_clock::now() - exchange.start) * 1e3;
  spdlog::log(call ? spdlog::level::info : spdlog::level::debug,
              "{} {} {} {} {:.1f} ms, {} + {} tokens{}", peer_, exchange.method,
              Service::handler_name(exchange.route), exchange.status, ms, exchange.prompt_tokens,
              exchange.output_tokens, exchange.broken ? ", client left" : "");
}

}  // namespace weft
