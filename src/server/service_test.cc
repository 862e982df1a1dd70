#include "server/service.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/running_call.h"

namespace weft {
namespace {

TEST(Service, KnowsItsRoutes) {
  EXPECT_EQ(Service::route("/v1/chat/completions"), Route::kChat);
  EXPECT_EQ(Service::route("/v1/completions"), Route::kCompletions);
  EXPECT_EQ(Service::route("/v1/models"), Route::kModels);
  EXPECT_EQ(Service::route("/v1/models/a/b"), Route::kModel);
  EXPECT_EQ(Service::route("/health"), Route::kHealth);
  for (const char* path : {"", "/", "/v1", "/v1/models/", "/v1/chat/completions/", "/Health"}) {
    EXPECT_EQ(Service::route(path), Route::kUnknown) << path;
  }
  EXPECT_EQ(Service::path_of("/health?a=1?b"), "/health");
  EXPECT_EQ(Service::methods(Route::kChat), "POST, OPTIONS");
  EXPECT_EQ(Service::handler_name(Route::kModel), "/v1/models/{id}");
  EXPECT_EQ(Service::handler_name(Route::kUnknown), "other");
}

TEST(EndError, TellsWhyAnAnswerIsIncomplete) {
  const auto error_of = [](FinishReason reason, std::string message) {
    EngineEvent event;
    event.kind = EngineEvent::Kind::kFinished;
    event.reason = reason;
    event.message = std::move(message);
    return end_error(event);
  };
  EXPECT_FALSE(error_of(FinishReason::kStop, "").has_value());
  EXPECT_FALSE(error_of(FinishReason::kLength, "").has_value());
  EXPECT_EQ(error_of(FinishReason::kCancelled, "")->status, 503);
  EXPECT_EQ(error_of(FinishReason::kTimeout, "")->status, 504);
  EXPECT_EQ(error_of(FinishReason::kTimeout, "")->type, "timeout");
  EXPECT_EQ(error_of(FinishReason::kError, "a logit is no number")->status, 500);
  EXPECT_EQ(error_of(FinishReason::kError, "a logit is no number")->message,
            "a logit is no number");
  EXPECT_FALSE(error_of(FinishReason::kError, "")->message.empty());
}

TEST(EventInbox, WakesWhenItStopsBeingEmpty) {
  int wakes = 0;
  EventInbox inbox([&wakes] { ++wakes; });
  inbox.push(0, {});
  inbox.push(1, {});
  EXPECT_EQ(wakes, 1);
  const std::vector<EventInbox::Item> items = inbox.take();
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[1].answer, 1);
  EXPECT_TRUE(inbox.take().empty());
  inbox.push(0, {});
  EXPECT_EQ(wakes, 2);
  inbox.close();
  inbox.push(0, {});
  EXPECT_EQ(wakes, 2);
  EXPECT_TRUE(inbox.take().empty());
}

TEST(EventInbox, IsBounded) {
  int wakes = 0;
  EventInbox inbox([&wakes] { ++wakes; });
  EngineEvent event;
  event.message = std::string(EventInbox::kMaxPendingBytes / 2, 'x');
  inbox.push(0, event);
  EXPECT_FALSE(inbox.overflowed());
  inbox.push(0, event);
  EXPECT_TRUE(inbox.overflowed());
  EXPECT_EQ(wakes, 2);  // so that the reader hears of it
  inbox.push(0, event);
  EXPECT_EQ(inbox.take().size(), 2U);
  inbox.push(0, {});
  EXPECT_TRUE(inbox.overflowed());  // what was lost stays lost
  EXPECT_TRUE(inbox.take().empty());
}

}  // namespace
}  // namespace weft
