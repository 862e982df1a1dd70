#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace weft {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kHello = R"([{"role": "user", "content": "Hello"}])";

ChatTemplate compile(std::string_view source) {
  auto compiled = ChatTemplate::from_source(source, "<s>", "</s>");
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  return std::move(*compiled);
}

std::string error_of(std::string_view source, std::string_view messages = kHello,
                     std::string_view extra = "{}") {
  const auto text = compile(source).render(messages, true, extra);
  EXPECT_FALSE(text.ok()) << text.value().size() << " bytes";
  return text.ok() ? "" : text.error().message;
}

TEST(ChatTemplate, RendersAsPythonDoes) {
  std::ifstream file(WEFT_TEST_DATA "/text/chat_templates.json");
  const auto rows = nlohmann::ordered_json::parse(file);
  ASSERT_GT(rows.size(), 20);
  for (const auto& row : rows) {
    SCOPED_TRACE(row["name"].get<std::string>());
    const auto text = compile(row["template"].get<std::string>())
                          .render(row["messages"].dump(), row["add_generation_prompt"].get<bool>(),
                                  row["extra"].dump());
    if (row.contains("raises")) {
      ASSERT_FALSE(text.ok());
      EXPECT_EQ(text.error().message, row["raises"].get<std::string>());
    } else {
      ASSERT_TRUE(text.ok()) << text.error().message;
      EXPECT_EQ(*text, row["expected"].get<std::string>());
    }
  }
}

TEST(ChatTemplate, BrokenSourceIsAnErrorAtConstruction) {
  const auto compiled = ChatTemplate::from_source("{% for m in messages %}", "", "");
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.error().kind, ErrorKind::kCorrupt);
  EXPECT_THAT(compiled.error().message, HasSubstr("chat template: syntax error"));
  EXPECT_FALSE(ChatTemplate::from_source("\xff", "", "").ok());
  EXPECT_FALSE(ChatTemplate::from_source("{{" + std::string(100000, '('), "", "").ok());
  std::string nested;
  for (int i = 0; i < 10000; ++i) nested += "{% if true %}";
  EXPECT_FALSE(ChatTemplate::from_source(nested, "", "").ok());
}

TEST(ChatTemplate, HostileTemplatesEndWithAnError) {
  EXPECT_THAT(
      error_of("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"),
      HasSubstr("fuel"));
  EXPECT_THAT(error_of("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}"),
              HasSubstr("recursion"));
  EXPECT_THAT(error_of("{% include 'chat_template' %}"), HasSubstr("could not render include"));
  EXPECT_THAT(error_of("{% set x = 'x' * 1000000 %}{% for i in range(1000) %}{{ x }}{% endfor %}"),
              HasSubstr("chat template"));
}

// A value nested as deeply as the instructions allow is dropped, and shown, on the renderer's own
// stack.
TEST(ChatTemplate, DeepValuesFitTheStack) {
  const std::string deepen =
      "{% set ns = namespace(x=[]) %}{% for i in range(10000) %}{% set ns.x = " +
      std::string(30, '[') + "ns.x" + std::string(30, ']') + " %}{% endfor %}";
  const auto dropped = compile(deepen + "done").render(kHello, true);
  ASSERT_TRUE(dropped.ok()) << dropped.error().message;
  EXPECT_EQ(*dropped, "done");
  const auto shown = compile(deepen + "{{ ns.x | tojson | length }}").render(kHello, true);
  ASSERT_TRUE(shown.ok()) << shown.error().message;
  EXPECT_EQ(*shown, "600002");
  EXPECT_TRUE(compile(deepen + "{{ ns.x }}").render(kHello, true).ok());
  EXPECT_TRUE(compile(deepen + "{{ ns.x ~ '' }}").render(kHello, true).ok());
  EXPECT_TRUE(compile(deepen + "{{ ns.x == [ns.x] }}").render(kHello, true).ok());
  EXPECT_THAT(error_of(deepen + "{{ ns.x | tojson(indent=8) }}"), HasSubstr("too long"));
  EXPECT_THAT(error_of(deepen + "{{ ns.x | pprint }}"), HasSubstr("unknown filter"));
}

TEST(ChatTemplate, InputThatIsNotWhatItShouldBe) {
  EXPECT_THAT(error_of("x", "{}"), HasSubstr("messages are not a JSON array"));
  EXPECT_THAT(error_of("x", "[1,"), HasSubstr("messages are not a JSON array"));
  EXPECT_THAT(error_of("x", "[]", "[]"), HasSubstr("template variables are not a JSON object"));
  EXPECT_THAT(error_of("x", "[\"\xc0\"]"), HasSubstr("not valid UTF-8 at byte 2"));
  EXPECT_THAT(error_of("x", std::string(100000, '[')), HasSubstr("recursion limit"));
  EXPECT_THAT(error_of("{{ messages.upper() }}"), HasSubstr("chat_template:1"));
}

TEST(ChatTemplate, MessagesCannotBeReplacedByVariables) {
  const auto text = compile("{{ messages[0].content }}{{ bos_token }}")
                        .render(kHello, true, R"({"messages": [], "bos_token": "!"})");
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, "Hello!");
}

TEST(ChatTemplate, KnowsTheDate) {
  const auto text =
      compile("{{ strftime_now('%Y-%m-%d') }}|{{ strftime_now('') }}").render("[]", true);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_THAT(*text, ::testing::MatchesRegex("20[0-9][0-9]-[01][0-9]-[0-3][0-9]\\|"));
}

TEST(ChatTemplate, FromMetadata) {
  Metadata metadata;
  EXPECT_EQ(ChatTemplate::from_metadata(metadata).error().kind, ErrorKind::kNotFound);
  metadata.add("tokenizer.chat_template", std::string("{{ bos_token }}|{{ eos_token }}"));
  metadata.add("tokenizer.ggml.tokens", MetaArray(std::vector<std::string>{"<a>", "<b>"}));
  metadata.add("tokenizer.ggml.bos_token_id", uint64_t{1});
  const auto compiled = ChatTemplate::from_metadata(metadata);
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  EXPECT_EQ(compiled->render("[]", true).value(), "<b>|");
  metadata.add("tokenizer.ggml.eos_token_id", uint64_t{2});
  EXPECT_THAT(ChatTemplate::from_metadata(metadata).error().message,
              HasSubstr("eos_token_id is 2"));
}

TEST(ChatTemplate, ManyThreadsRenderOneTemplate) {
  const ChatTemplate compiled = compile("{% for m in messages %}{{ m.content }}{% endfor %}");
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&compiled, i] {
      const std::string content = fmt::format("thread {}", i);
      const std::string messages = fmt::format(R"([{{"content": "{}"}}])", content);
      for (int j = 0; j < 50; ++j) EXPECT_EQ(compiled.render(messages, true).value(), content);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weft
