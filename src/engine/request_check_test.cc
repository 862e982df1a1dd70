#include "engine/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace weft {
namespace {

constexpr int kVocab = 100;
constexpr int kContext = 50;

Request good() {
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 10;
  return request;
}

TEST(CheckRequest, AcceptsEveryEdge) {
  Request request = good();
  request.prompt.assign(kContext - 1, kVocab - 1);
  request.max_tokens = std::numeric_limits<int>::max();
  request.sampling.top_k = std::numeric_limits<int>::max();
  request.sampling.min_p = 1;
  request.sampling.temperature = 0;
  request.sampling.top_logprobs = kMaxTopLogprobs;
  request.prompt_logprobs = kMaxTopLogprobs;
  request.sampling.logit_bias = {{0, -100}, {99, 100}};
  EXPECT_TRUE(check_request(request, kVocab, kContext).ok());
  request.max_tokens = 0;
  request.prompt.push_back(0);
  EXPECT_TRUE(check_request(request, kVocab, kContext).ok());
}

TEST(CheckRequest, NamesWhatIsWrong) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  struct Case {
    std::function<void(Request&)> spoil;
    std::string message;  // a part of it
  };
  const std::vector<Case> cases = {
      {[](Request& r) { r.prompt.clear(); }, "the prompt is empty"},
      {[](Request& r) { r.prompt = {5, 100}; }, "token id 100 is outside"},
      {[](Request& r) { r.prompt = {-1}; }, "token id -1 is outside"},
      {[](Request& r) { r.prompt.assign(50, 1); }, "50 tokens: at most 49"},
      {[](Request& r) {
         r.prompt.assign(51, 1);
         r.max_tokens = 0;
         r.prompt_logprobs = 0;
       },
       "51 tokens: at most 50"},
      {[](Request& r) { r.max_tokens = -1; }, "max_tokens is -1"},
      {[](Request& r) { r.max_tokens = 0; }, "max_tokens is 0"},
      {[](Request& r) { r.prompt_logprobs = 21; }, "prompt_logprobs is 21"},
      {[](Request& r) { r.prompt_logprobs = -2; }, "prompt_logprobs is -2"},
      {[](Request& r) { r.end_ids = {100}; }, "end tokens: token id 100"},
      {[](Request& r) { r.sampling.temperature = -0.5F; }, "temperature is -0.5"},
      {[&](Request& r) { r.sampling.temperature = nan; }, "temperature is nan"},
      {[&](Request& r) { r.sampling.temperature = inf; }, "temperature is inf"},
      {[](Request& r) { r.sampling.top_k = -1; }, "top_k is -1"},
      {[](Request& r) { r.sampling.top_p = 0; }, "top_p is 0"},
      {[](Request& r) { r.sampling.top_p = 1.5F; }, "top_p is 1.5"},
      {[&](Request& r) { r.sampling.top_p = nan; }, "top_p is nan"},
      {[](Request& r) { r.sampling.min_p = -0.5F; }, "min_p is -0.5"},
      {[&](Request& r) { r.sampling.min_p = nan; }, "min_p is nan"},
      {[](Request& r) { r.sampling.repetition_penalty = 0; }, "repetition_penalty is 0"},
      {[&](Request& r) { r.sampling.presence_penalty = inf; }, "presence_penalty is inf"},
      {[&](Request& r) { r.sampling.frequency_penalty = nan; }, "frequency_penalty is nan"},
      {[](Request& r) { r.sampling.logit_bias = {{100, 1}}; }, "logit_bias: token id 100"},
      {[&](Request& r) { r.sampling.logit_bias = {{1, nan}}; }, "logit_bias is nan"},
      {[](Request& r) { r.sampling.forbidden = {-3}; }, "forbidden tokens: token id -3"},
      {[](Request& r) { r.sampling.min_tokens = -1; }, "min_tokens is -1"},
      {[](Request& r) { r.sampling.top_logprobs = 21; }, "top_logprobs is 21"},
  };
  for (const Case& c : cases) {
    Request request = good();
    c.spoil(request);
    const Status status = check_request(request, kVocab, kContext);
    ASSERT_FALSE(status.ok()) << c.message;
    EXPECT_EQ(status.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(status.error().message, testing::HasSubstr(c.message));
  }
}

TEST(FinishReason, Names) {
  EXPECT_EQ(finish_reason_name(FinishReason::kStop), "stop");
  EXPECT_EQ(finish_reason_name(FinishReason::kLength), "length");
  EXPECT_EQ(finish_reason_name(FinishReason::kCancelled), "cancelled");
  EXPECT_EQ(finish_reason_name(FinishReason::kTimeout), "timeout");
  EXPECT_EQ(finish_reason_name(FinishReason::kError), "error");
}

}  // namespace
}  // namespace weft
