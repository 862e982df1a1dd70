#include "server/service.h"

#include <gtest/gtest.h>

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
