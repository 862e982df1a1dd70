#include "cli/mixed_player_http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>

#include <thread>

namespace weft {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using testing::HasSubstr;

TEST(HttpAddress, ReadsHostPortAndPath) {
  const auto text = [](const char* url) { return parse_http_address(url).value().text(); };
  EXPECT_EQ(text("http://localhost"), "http://localhost:80");
  EXPECT_EQ(text("http://127.0.0.1:8080/"), "http://127.0.0.1:8080");
  EXPECT_EQ(text("http://127.0.0.1:8080/v1"), "http://127.0.0.1:8080");
  EXPECT_EQ(text("http://[::1]:8080/api/v1/"), "http://[::1]:8080/api");
}

TEST(HttpAddress, TheHostHeaderHasBrackets) {
  EXPECT_EQ(parse_http_address("http://[::1]:8080/api")->authority(), "[::1]:8080");
  EXPECT_EQ(parse_http_address("http://localhost")->authority(), "localhost:80");
}

TEST(HttpAddress, AnErrorNamesTheAddress) {
  for (const char* url : {"", "localhost:8080", "https://localhost", "http://", "http://:80",
                          "http://a:", "http://a:b", "http://a:99999", "http://[::1"}) {
    const auto address = parse_http_address(url);
    ASSERT_FALSE(address.ok()) << url;
    EXPECT_THAT(address.error().message, HasSubstr(std::string("'") + url + "'"));
  }
}

TEST(TokenStream, CountsEventsWithText) {
  TokenStream stream;
  EXPECT_EQ(stream.push("data: {\"choices\":[{\"text\":\"a\"}]}\n\n"), 1);
  EXPECT_EQ(stream.push("data: {\"choices\":[{\"text\":\"\"}]}\r\n\r\n: comment\n"), 0);
  EXPECT_EQ(stream.push("data:{\"choices\":[{\"text\":\"b\"}],\"usage\":null}\n\n"
                        "data: {\"choices\":[{\"text\":\"c\"}]}\n"),
            2);
  EXPECT_EQ(stream.push("data: {\"choices\":[],\"usage\":{\"completion_tokens\":9}}\n"), 0);
  EXPECT_EQ(stream.push("data: [DONE]\n\n"), 0);
  EXPECT_TRUE(stream.done());
  EXPECT_EQ(stream.error(), "");
}

TEST(TokenStream, TakesTheServersCountWhereItComes) {
  TokenStream stream;
  const auto event = [](const char* text, int count) {
    return fmt::format(
        "data: {{\"choices\":[{{\"text\":\"{}\"}}],\"usage\":{{"
        "\"completion_tokens\":{}}}}}\n\n",
        text, count);
  };
  EXPECT_EQ(stream.push(event("", 1)), 1) << "half a character has no text yet";
  EXPECT_EQ(stream.push(event("xy", 3)), 2);
  EXPECT_EQ(stream.push(event("z", 3)), 0);
}

TEST(TokenStream, BytesMayBreakAnywhere) {
  const std::string bytes =
      "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choices\":[{\"text\":\"b\"}]}\n\n"
      "data: [DONE]\n\n";
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    TokenStream stream;
    const int tokens = stream.push(std::string_view(bytes).substr(0, cut)) +
                       stream.push(std::string_view(bytes).substr(cut));
    EXPECT_EQ(tokens, 2);
    EXPECT_TRUE(stream.done());
  }
}

TEST(TokenStream, KeepsTheServersError) {
  TokenStream error;
  error.push("data: {\"error\":{\"message\":\"too long\"}}\n\n");
  EXPECT_EQ(error.error(), "too long");
  TokenStream noise;
  noise.push("data: hello\n");
  EXPECT_THAT(noise.error(), HasSubstr("hello"));
}

// Answers connections one after the other, each with the next text, and keeps what it was asked.
class FakeServer {
 public:
  explicit FakeServer(std::vector<std::string> answers)
      : answers_(std::move(answers)),
        acceptor_(io_, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0)),
        thread_([this] { serve(); }) {}
  ~FakeServer() { thread_.join(); }

  HttpAddress address() const {
    return {.host = "127.0.0.1",
            .port = std::to_string(acceptor_.local_endpoint().port()),
            .path = "/base"};
  }
  std::vector<std::string> asked;  // after destruction of the client

 private:
  void serve() {
    for (const std::string& answer : answers_) {
      tcp::socket socket = acceptor_.accept();
      std::string request;
      boost::system::error_code ignored;
      size_t end = asio::read_until(socket, asio::dynamic_buffer(request), "\r\n\r\n", ignored);
      const size_t at = request.find("Content-Length: ");
      const size_t body = at == std::string::npos ? 0 : std::stoul(request.substr(at + 16));
      if (request.size() < end + body)
        asio::read(socket, asio::dynamic_buffer(request),
                   asio::transfer_exactly(end + body - request.size()), ignored);
      asked.push_back(request);
      asio::write(socket, asio::buffer(answer), ignored);
      // A header alone: the rest never comes, until the client leaves.
      if (answer.ends_with("\r\n\r\n"))
        asio::read(socket, asio::dynamic_buffer(request), asio::transfer_all(), ignored);
    }
  }

  std::vector<std::string> answers_;
  asio::io_context io_;
  tcp::acceptor acceptor_;
  std::thread thread_;
};

std::string http(const std::string& status, const std::string& body) {
  return fmt::format("HTTP/1.1 {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}", status,
                     body.size(), body);
}

const std::string kModels = http("200 OK", R"({"data":[{"id":"tiny"}]})");

std::vector<PlayerEvent> events_of(HttpPlayer& player, PlayerRequest request) {
  EXPECT_TRUE(player.send(std::move(request)).ok());
  std::vector<PlayerEvent> events;
  while (events.empty() || events.back().kind != PlayerEvent::Kind::kFinished) {
    auto event = player.next(player.now() + std::chrono::seconds(20));
    if (!event) {
      ADD_FAILURE() << "no event";
      return events;
    }
    events.push_back(*event);
  }
  return events;
}

TEST(HttpPlayer, PlaysARequestAndHearsItsTokens) {
  FakeServer server({kModels, http("200 OK",
                                   "data: {\"choices\":[{\"text\":\"a\"}]}\n\n"
                                   "data: {\"choices\":[{\"text\":\"b\"}]}\n\n"
                                   "data: [DONE]\n\n")});
  auto player = HttpPlayer::connect(server.address());
  ASSERT_TRUE(player.ok()) << player.error().message;
  EXPECT_EQ((*player)->model(), "tiny");
  const auto events = events_of(**player, {.id = 7, .prompt = {1, 2, 3}, .output = 5});
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].kind, PlayerEvent::Kind::kToken);
  EXPECT_EQ(events[1].id, 7U);
  EXPECT_EQ(events[2].error, "");
  EXPECT_THAT(server.asked.at(0), HasSubstr("GET /base/v1/models HTTP/1.1"));
  EXPECT_THAT(server.asked.at(1), HasSubstr("POST /base/v1/completions HTTP/1.1"));
  EXPECT_THAT(server.asked.at(1), HasSubstr("\"prompt\":[1,2,3]"));
  EXPECT_THAT(server.asked.at(1), HasSubstr("\"max_tokens\":5"));
  EXPECT_THAT(server.asked.at(1), HasSubstr("\"ignore_eos\":true"));
}

TEST(HttpPlayer, MaySendText) {
  FakeServer server({kModels, http("200 OK", "data: [DONE]\n\n")});
  auto player = HttpPlayer::connect(server.address(), [](auto) { return "some words"; });
  ASSERT_TRUE(player.ok()) << player.error().message;
  events_of(**player, {.id = 1, .prompt = {1}, .output = 1});
  EXPECT_THAT(server.asked.at(1), HasSubstr("\"prompt\":\"some words\""));
}

TEST(HttpPlayer, SaysWhyARequestFailed) {
  FakeServer server({kModels, http("400 Bad Request", R"({"error":{"message":"too long"}})"),
                     http("200 OK", "data: {\"choices\":[{\"text\":\"a\"}]}\n\n"),
                     "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ndata: "});
  auto player = HttpPlayer::connect(server.address());
  ASSERT_TRUE(player.ok()) << player.error().message;
  EXPECT_EQ(events_of(**player, {.id = 1, .prompt = {1}, .output = 1}).back().error,
            "400 too long");
  EXPECT_THAT(events_of(**player, {.id = 2, .prompt = {1}, .output = 1}).back().error,
              HasSubstr("without [DONE]"));
  EXPECT_THAT(events_of(**player, {.id = 3, .prompt = {1}, .output = 1}).back().error,
              HasSubstr("breaks off"));
}

TEST(HttpPlayer, CancelClosesTheConnection) {
  FakeServer server({kModels, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"});
  auto player = HttpPlayer::connect(server.address());
  ASSERT_TRUE(player.ok()) << player.error().message;
  ASSERT_TRUE((*player)->send({.id = 1, .prompt = {1}, .output = 1}).ok());
  (*player)->cancel(1);
  const auto event = (*player)->next((*player)->now() + std::chrono::seconds(20));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, PlayerEvent::Kind::kFinished);
  EXPECT_EQ(event->error, "");
  (*player)->cancel(1);
}

TEST(HttpPlayer, AServerThatIsNotThereIsAnError) {
  tcp::endpoint nobody;
  {
    asio::io_context io;
    nobody =
        tcp::acceptor(io, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0)).local_endpoint();
  }
  const auto player =
      HttpPlayer::connect({.host = "127.0.0.1", .port = std::to_string(nobody.port()), .path = ""});
  ASSERT_FALSE(player.ok());
  EXPECT_THAT(player.error().message, HasSubstr("http://127.0.0.1:"));
}

TEST(HttpPlayer, AServerWithoutModelsIsAnError) {
  FakeServer server({http("200 OK", R"({"data":[]})")});
  const auto player = HttpPlayer::connect(server.address());
  ASSERT_FALSE(player.ok());
  EXPECT_THAT(player.error().message, HasSubstr("names no model"));
}

}  // namespace
}  // namespace weft
