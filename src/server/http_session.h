#pragma once
// One client connection.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/running_call.h"
#include "server/service.h"

namespace weft {

// Lives on the server's I/O thread; every function is called there. Requests come one after the
// other; a call's answer is written while the connection is watched, so that a client that leaves
// cancels its call.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  // The service and the workers must outlive the session. Bodies too long to be tokenized between
  // two packets of other streams are prepared by `workers`.
  HttpSession(boost::asio::ip::tcp::socket socket, const Service& service,
              boost::asio::thread_pool& workers, uint64_t max_body_bytes);

  // Until the client leaves or the server lets it go.
  boost::asio::awaitable<void> run();

  // No further request: closes an idle connection, and a busy one after its answer.
  void finish();
  // Fails the running call; its client still hears about it.
  void cancel();
  // Closes the connection as it is.
  void abort();

 private:
  struct Exchange;  // one request and its answer

  boost::asio::awaitable<bool> serve_one();
  boost::asio::awaitable<bool> read_request(Exchange& exchange);
  boost::asio::awaitable<void> answer(Exchange& exchange);
  boost::asio::awaitable<void> answer_call(Exchange& exchange, Endpoint endpoint);
  boost::asio::awaitable<void> write_answers(Exchange& exchange);
  boost::asio::awaitable<void> write_events(Exchange& exchange, bool last);
  boost::asio::awaitable<bool> wait_for_news();
  boost::asio::awaitable<void> watch_peer();
  boost::asio::awaitable<void> send(Exchange& exchange, const HttpReply& reply);
  boost::asio::awaitable<void> write(Exchange& exchange, std::string_view bytes);
  boost::asio::awaitable<void> linger();
  std::function<void()> waker();
  void log(const Exchange& exchange) const;

  boost::beast::tcp_stream stream_;
  const Service& service_;
  boost::asio::thread_pool& workers_;
  uint64_t max_body_bytes_;
  std::string peer_;
  boost::beast::flat_buffer buffer_;   // bytes after the current request
  boost::asio::steady_timer news_;     // cancelled when the running call has news
  std::unique_ptr<RunningCall> call_;  // while one runs
  bool idle_ = true;                   // no request is being read or answered
  bool closing_ = false;               // the current request is the last one
};

}  // namespace weft
