#include "cli/mixed_player_http.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <tuple>
#include <utility>

namespace weft {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;
using Json = nlohmann::json;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr size_t kMaxAnswer = 64U << 10U;  // of an error, or the list of models
constexpr size_t kMaxLine = 16U << 20U;    // of an event
constexpr int kMaxDepth = 32;
constexpr auto kFirstAnswer = std::chrono::seconds(30);  // of a server that is asked for its name

Json parse(std::string_view text) {
  return Json::parse(
      text.begin(), text.end(),
      [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxDepth; }, false);
}

// {"error": {"message": "..."}} as OpenAI's API has it, or whatever came.
std::string error_message(std::string_view body) {
  const Json json = parse(body);
  if (json.is_object() && json.contains("error")) {
    const Json& error = json["error"];
    if (error.is_object() && error.contains("message") && error["message"].is_string())
      return error["message"].get<std::string>();
    if (error.is_string()) return error.get<std::string>();
  }
  return std::string(body.substr(0, 200));
}

http::request<http::string_body> make_request(http::verb verb, const HttpAddress& address,
                                              std::string_view path) {
  http::request<http::string_body> request(verb, address.path + std::string(path), 11);
  request.set(http::field::host, address.authority());
  request.set(http::field::user_agent, "weft/" WEFT_VERSION);
  request.set(http::field::connection, "close");
  return request;
}

// Reads what is left of a body, up to a limit.
template <class Parser>
awaitable<std::string> read_rest(tcp::socket& socket, boost::beast::flat_buffer& buffer,
                                 Parser& parser) {
  std::string text;
  std::array<char, 4096> bytes{};
  while (!parser.is_done() && text.size() < kMaxAnswer) {
    parser.get().body().data = bytes.data();
    parser.get().body().size = bytes.size();
    auto [error, n] = co_await http::async_read_some(socket, buffer, parser, kAwait);
    if (error && error != http::error::need_buffer) break;
    text.append(bytes.data(), bytes.size() - parser.get().body().size);
  }
  co_return text;
}

}  // namespace

std::string HttpAddress::authority() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port);
}

std::string HttpAddress::text() const { return fmt::format("http://{}{}", authority(), path); }

Result<HttpAddress> parse_http_address(std::string_view url) {
  const auto invalid = [&](std::string_view why) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("'{}': {}; as in http://127.0.0.1:8080", url, why)};
  };
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) return invalid("only http:// addresses can be measured");
  std::string_view rest = url.substr(kScheme.size());
  HttpAddress address;
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view path = rest.substr(slash);
  while (path.ends_with('/')) path.remove_suffix(1);
  if (path.ends_with("/v1")) path.remove_suffix(3);
  address.path = path;
  rest = rest.substr(0, slash);
  if (rest.starts_with('[')) {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) return invalid("a ] is missing");
    address.host = rest.substr(1, close - 1);
    rest = rest.substr(close + 1);
  } else {
    const size_t colon = std::min(rest.find(':'), rest.size());
    address.host = rest.substr(0, colon);
    rest = rest.substr(colon);
  }
  if (address.host.empty()) return invalid("the host is missing");
  if (!rest.empty()) {
    rest.remove_prefix(1);
    const bool digits =
        !rest.empty() && rest.size() <= 5 &&
        std::all_of(rest.begin(), rest.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || std::stoi(std::string(rest)) > 65535) return invalid("no such port");
    address.port = rest;
  }
  return address;
}

int TokenStream::push(std::string_view bytes) {
  int tokens = 0;
  while (!bytes.empty() && !done_ && error_.empty()) {
    const size_t end = bytes.find('\n');
    line_ += bytes.substr(0, end);
    if (end == std::string_view::npos) {
      if (line_.size() > kMaxLine) error_ = "an event of the stream is too long";
      break;
    }
    bytes.remove_prefix(end + 1);
    std::string_view line = line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("data:")) {
      line.remove_prefix(line.starts_with("data: ") ? 6 : 5);
      tokens += on_data(line);
    }
    line_.clear();
  }
  return tokens;
}

int TokenStream::on_data(std::string_view data) {
  if (data == "[DONE]") {
    done_ = true;
    return 0;
  }
  const Json json = parse(data);
  if (!json.is_object()) {
    error_ = fmt::format("an event of the stream is not JSON: {}", data.substr(0, 100));
    return 0;
  }
  if (json.contains("error") && !json["error"].is_null()) {
    error_ = error_message(data);
    return 0;
  }
  const auto choices = json.find("choices");
  if (choices == json.end() || !choices->is_array() || choices->empty()) return 0;  // a last count
  const bool text = std::any_of(choices->begin(), choices->end(), [](const Json& choice) {
    return choice.is_object() && choice.contains("text") && choice["text"].is_string() &&
           !choice["text"].get_ref<const std::string&>().empty();
  });
  int tokens = text ? 1 : 0;
  if (const auto usage = json.find("usage"); usage != json.end() && usage->is_object()) {
    const auto count = usage->find("completion_tokens");
    if (count != usage->end() && count->is_number_integer())
      tokens = static_cast<int>(std::clamp<int64_t>(count->get<int64_t>() - counted_, 0, 1 << 16));
  }
  counted_ += tokens;
  return tokens;
}

HttpPlayer::HttpPlayer(HttpAddress address, ToText to_text)
    : address_(std::move(address)),
      to_text_(std::move(to_text)),
      work_(asio::make_work_guard(io_)) {}

HttpPlayer::~HttpPlayer() {
  for (auto& [id, socket] : running_) {
    error_code ignored;
    if (socket != nullptr) std::ignore = socket->close(ignored);
  }
  // Each coroutine sees its connection closed and ends; they refer to this object.
  while (!running_.empty() && io_.run_one() > 0) {
  }
}

Result<std::unique_ptr<HttpPlayer>> HttpPlayer::connect(const HttpAddress& address,
                                                        ToText to_text) {
  std::unique_ptr<HttpPlayer> player(new HttpPlayer(address, std::move(to_text)));
  error_code error;
  player->endpoints_ = tcp::resolver(player->io_).resolve(address.host, address.port, error);
  if (error) {
    return Error{ErrorKind::kIo, fmt::format("{}: {}", address.text(), error.message())};
  }
  WEFT_RETURN_IF_ERROR(player->find_model());
  return player;
}

Status HttpPlayer::find_model() {
  std::string answer;
  std::optional<std::string> error;
  asio::co_spawn(io_, get("/v1/models", answer),
                 [&](const std::exception_ptr& thrown, std::string text) {
                   error = thrown ? "it does not answer" : std::move(text);
                 });
  const TimePoint deadline = now() + kFirstAnswer;
  while (!error && now() < deadline) io_.run_one_until(deadline);
  if (!error) {
    io_.stop();
    return Error{ErrorKind::kIo, fmt::format("{} does not answer", address_.text())};
  }
  if (!error->empty()) return Error{ErrorKind::kIo, fmt::format("{}: {}", address_.text(), *error)};
  const Json json = parse(answer);
  const auto data = json.is_object() ? json.find("data") : json.end();
  if (json.is_object() && data != json.end() && data->is_array() && !data->empty() &&
      data->front().is_object() && data->front().contains("id") &&
      data->front()["id"].is_string()) {
    model_ = data->front()["id"].get<std::string>();
    return {};
  }
  return Error{ErrorKind::kIo, fmt::format("{}/v1/models names no model: {}", address_.text(),
                                           answer.substr(0, 200))};
}

awaitable<std::string> HttpPlayer::get(std::string path, std::string& answer) {
  tcp::socket socket(io_);
  if (auto [error, endpoint] = co_await asio::async_connect(socket, endpoints_, kAwait); error)
    co_return error.message();
  auto request = make_request(http::verb::get, address_, path);
  if (auto [error, n] = co_await http::async_write(socket, request, kAwait); error)
    co_return error.message();
  boost::beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  if (auto [error, n] = co_await http::async_read_header(socket, buffer, parser, kAwait); error)
    co_return error.message();
  answer = co_await read_rest(socket, buffer, parser);
  if (parser.get().result() == http::status::ok) co_return "";
  co_return fmt::format("{} {}", parser.get().result_int(), error_message(answer));
}

std::string HttpPlayer::body_of(const PlayerRequest& request) const {
  Json body = {{"model", model_},
               {"max_tokens", request.output},
               {"temperature", 0},
               {"ignore_eos", true},
               {"stream", true},
               {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}}};
  if (to_text_) {
    body["prompt"] = to_text_(request.prompt);
  } else {
    body["prompt"] = request.prompt;
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status HttpPlayer::send(PlayerRequest request) {
  running_[request.id] = nullptr;
  asio::co_spawn(io_, run(request.id, body_of(request)), asio::detached);
  io_.poll();  // it goes out now, not when somebody next looks for events
  return {};
}

void HttpPlayer::cancel(uint64_t id) {
  const auto found = running_.find(id);
  if (found == running_.end() || found->second == nullptr) return;
  error_code ignored;
  std::ignore = std::exchange(found->second, nullptr)->close(ignored);
}

std::optional<PlayerEvent> HttpPlayer::next(TimePoint deadline) {
  while (events_.empty()) {
    if (deadline == TimePoint::max()) {
      io_.run_one();
    } else if (io_.run_one_until(deadline) == 0) {
      break;
    }
  }
  if (events_.empty()) return std::nullopt;
  PlayerEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

awaitable<void> HttpPlayer::run(uint64_t id, std::string body) {
  std::string error;
  {
    Socket socket(io_);
    running_[id] = &socket;
    try {
      error = co_await exchange(id, body, socket);
    } catch (const std::exception& exception) {
      error = exception.what();
    }
    if (running_[id] == nullptr) error.clear();  // cancelled: whatever closing looked like
  }
  running_.erase(id);
  events_.push_back(
      {.id = id, .kind = PlayerEvent::Kind::kFinished, .at = now(), .error = std::move(error)});
}

// What went wrong; empty if nothing did.
awaitable<std::string> HttpPlayer::exchange(uint64_t id, const std::string& body, Socket& socket) {
  if (auto [error, endpoint] = co_await asio::async_connect(socket, endpoints_, kAwait); error)
    co_return fmt::format("cannot connect: {}", error.message());
  socket.set_option(tcp::no_delay(true));
  auto request = make_request(http::verb::post, address_, "/v1/completions");
  request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  if (auto [error, n] = co_await http::async_write(socket, request, kAwait); error)
    co_return fmt::format("cannot send: {}", error.message());

  boost::beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  if (auto [error, n] = co_await http::async_read_header(socket, buffer, parser, kAwait); error)
    co_return fmt::format("no answer: {}", error.message());
  if (parser.get().result() != http::status::ok) {
    const std::string answer = co_await read_rest(socket, buffer, parser);
    co_return fmt::format("{} {}", parser.get().result_int(), error_message(answer));
  }
  TokenStream stream;
  std::array<char, 8192> bytes{};
  while (!parser.is_done() && !stream.done()) {
    parser.get().body().data = bytes.data();
    parser.get().body().size = bytes.size();
    auto [error, n] = co_await http::async_read_some(socket, buffer, parser, kAwait);
    if (error && error != http::error::need_buffer)
      co_return fmt::format("the answer breaks off: {}", error.message());
    const TimePoint at = now();
    int tokens = stream.push({bytes.data(), bytes.size() - parser.get().body().size});
    for (; tokens > 0; --tokens) events_.push_back({.id = id, .at = at, .error = {}});
    if (!stream.error().empty()) co_return stream.error();
  }
  co_return stream.done() ? "" : "the answer ends without [DONE]";
}

}  // namespace weft
