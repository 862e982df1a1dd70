#include "metrics/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <thread>

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;

// The lines that name `metric`, HELP and TYPE too.
int lines_with(const std::string& text, const std::string& what) {
  std::istringstream in(text);
  int n = 0;
  for (std::string line; std::getline(in, line);) n += line.find(what) != std::string::npos ? 1 : 0;
  return n;
}

TEST(MetricsRegistry, ExposesPrefixModelAndLabels) {
  MetricsRegistry registry("weft:", "tiny");
  registry.counter("request_success_total", "Finished requests.", {{"finished_reason", "stop"}})
      .Increment(2);
  registry.counter("request_success_total", "Finished requests.", {{"finished_reason", "length"}})
      .Increment();
  registry.gauge("num_requests_running", "Requests on the device.").Set(3);
  const std::string text = registry.expose();
  EXPECT_THAT(text, HasSubstr("# HELP weft:request_success_total Finished requests.\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE weft:request_success_total counter\n"));
  EXPECT_THAT(text, HasSubstr("finished_reason=\"stop\""));
  EXPECT_THAT(text, HasSubstr("finished_reason=\"length\""));
  EXPECT_THAT(text, HasSubstr("# TYPE weft:num_requests_running gauge\n"));
  EXPECT_THAT(text, HasSubstr("weft:num_requests_running{model_name=\"tiny\"} 3\n"));
  EXPECT_EQ(lines_with(text, "# TYPE weft:request_success_total"), 1) << "one family: " << text;
  EXPECT_THAT(text, Not(HasSubstr("_total_total")));
}

TEST(MetricsRegistry, ExposesHistograms) {
  MetricsRegistry registry("vllm:", "m");
  auto& histogram = registry.histogram("iteration_tokens_total", "Rows in a step.", {1, 8});
  histogram.Observe(5);
  histogram.Observe(100);
  const std::string text = registry.expose();
  EXPECT_THAT(text, HasSubstr("# TYPE vllm:iteration_tokens_total histogram\n"));
  EXPECT_THAT(text, HasSubstr("vllm:iteration_tokens_total_bucket{model_name=\"m\",le=\"1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("vllm:iteration_tokens_total_bucket{model_name=\"m\",le=\"8\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("vllm:iteration_tokens_total_bucket{model_name=\"m\",le=\"+Inf\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("vllm:iteration_tokens_total_sum{model_name=\"m\"} 105\n"));
  EXPECT_THAT(text, HasSubstr("vllm:iteration_tokens_total_count{model_name=\"m\"} 2\n"));
}

TEST(MetricsRegistry, TheSameMetricAskedForTwiceIsOne) {
  MetricsRegistry registry("weft:", "m");
  auto& first = registry.counter("steps_total", "Steps.");
  auto& second = registry.counter("steps_total", "Steps.");
  EXPECT_EQ(&first, &second);
}

TEST(MetricsRegistry, EscapesTheModelName) {
  MetricsRegistry registry("weft:", "a\"b\\c\nd");
  registry.gauge("g", "A gauge.").Set(1);
  EXPECT_THAT(registry.expose(), HasSubstr("weft:g{model_name=\"a\\\"b\\\\c\\nd\"} 1\n"));
}

TEST(MetricsRegistry, ThreadsMayRegisterCountAndExpose) {
  MetricsRegistry registry("weft:", "m");
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        registry.counter("c_total", "A counter.").Increment();
        if (i % 50 == 0) {
          EXPECT_FALSE(registry.expose().empty());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registry.counter("c_total", "A counter.").Value(), 800);
}

}  // namespace
}  // namespace weft
