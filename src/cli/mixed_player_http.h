#pragma once
// Plays requests against a server of OpenAI's API over HTTP. All connections live on the thread
// that calls next().

#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cli/mixed_player.h"

namespace weft {

struct HttpAddress {
  std::string host;
  std::string port = "80";
  std::string path;  // in front of /v1/..., without a slash at its end
  std::string text() const;
  std::string authority() const;  // host and port, as the Host header has them
};
// "http://127.0.0.1:8080", with or without /v1 behind it.
Result<HttpAddress> parse_http_address(std::string_view url);

// What a stream of server-sent events says about tokens, from its bytes as they come.
class TokenStream {
 public:
  // How many tokens these bytes bring. Where the server counts them (usage in each event) by its
  // count, else one for each event with text.
  int push(std::string_view bytes);
  bool done() const { return done_; }                  // "[DONE]" was seen
  const std::string& error() const { return error_; }  // the server's, if it sent one

 private:
  int on_data(std::string_view data);

  std::string line_;  // not yet ended
  int counted_ = 0;   // by the server
  bool done_ = false;
  std::string error_;
};

class HttpPlayer final : public Player {
 public:
  // A prompt in a request's body.
  using ToText = std::function<std::string(std::span<const TokenId>)>;

  // Asks the server for its first model's name. Prompts are sent as token ids, or as text where
  // `to_text` is given.
  static Result<std::unique_ptr<HttpPlayer>> connect(const HttpAddress& address,
                                                     ToText to_text = {});
  ~HttpPlayer() override;

  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  Status send(PlayerRequest request) override;
  void cancel(uint64_t id) override;
  std::optional<PlayerEvent> next(TimePoint deadline) override;

  const std::string& model() const { return model_; }

 private:
  using Socket = boost::asio::ip::tcp::socket;

  HttpPlayer(HttpAddress address, ToText to_text);
  Status find_model();
  std::string body_of(const PlayerRequest& request) const;
  boost::asio::awaitable<void> run(uint64_t id, std::string body);
  boost::asio::awaitable<std::string> exchange(uint64_t id, const std::string& body,
                                               Socket& socket);
  boost::asio::awaitable<std::string> get(std::string path, std::string& answer);

  const HttpAddress address_;
  const ToText to_text_;
  std::string model_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::ip::tcp::resolver::results_type endpoints_;
  std::map<uint64_t, Socket*> running_;  // null: cancelled
  std::deque<PlayerEvent> events_;
};

}  // namespace weft
