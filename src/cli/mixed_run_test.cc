#include "cli/mixed_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <numeric>

namespace weft {
namespace {

using std::chrono::milliseconds;
using testing::Each;
using testing::HasSubstr;

// In its own time: a token of every request each 10 ms, the first 1 ms a prompt token after its
// arrival.
class FakePlayer final : public Player {
 public:
  TimePoint now() const override { return now_; }

  Status send(PlayerRequest request) override {
    if (refuses) return Error{ErrorKind::kIo, "refused"};
    most_in_flight = std::max(most_in_flight, static_cast<int>(running_.size()) + 1);
    const auto first = now_ + milliseconds(request.prompt.size());
    sent.push_back(request);
    if (static_cast<int>(running_.size()) >= places) {
      waiting_.push_back(std::move(request));
      return {};
    }
    running_.push_back({request.id, first, hangs ? 0 : request.output});
    return {};
  }

  void cancel(uint64_t id) override {
    for (Running& running : running_) {
      if (running.id == id) running = {id, now_, -1};
    }
    for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
      if (it->id != id) continue;
      running_.push_back({id, now_, -1});
      waiting_.erase(it);
      return;
    }
  }

  std::optional<PlayerEvent> next(TimePoint deadline) override {
    const auto first =
        std::min_element(running_.begin(), running_.end(),
                         [](const Running& a, const Running& b) { return a.due < b.due; });
    if (first == running_.end() || (hangs && first->left == 0) || first->due > deadline) {
      EXPECT_NE(deadline, TimePoint::max()) << "waits for ever";
      now_ = deadline;
      return std::nullopt;
    }
    now_ = std::max(now_, first->due);
    PlayerEvent event{.id = first->id, .at = now_, .error = {}};
    if (first->left > 0 && sent.at(first->id - 1).prompt.size() != fails_at) {
      --first->left;
      first->due = now_ + milliseconds(first->left == 0 ? 0 : 10);
      return event;
    }
    event.kind = PlayerEvent::Kind::kFinished;
    if (first->left > 0) event.error = "broken";
    running_.erase(first);
    if (!waiting_.empty()) {
      const PlayerRequest& next = waiting_.front();
      running_.push_back({next.id, now_ + milliseconds(next.prompt.size()), next.output});
      waiting_.pop_front();
    }
    return event;
  }

  std::vector<PlayerRequest> sent;
  int most_in_flight = 0;
  int places = 1 << 20;  // requests that run at once; more wait
  size_t fails_at = 0;   // prompts of this length fail
  bool refuses = false;
  bool hangs = false;

 private:
  struct Running {
    uint64_t id;
    TimePoint due;
    int left;  // tokens; then its end
  };
  TimePoint now_{};
  std::vector<Running> running_;
  std::deque<PlayerRequest> waiting_;
};

MixedRun::Options options() {
  MixedRun::Options options;
  options.vocabulary.resize(500);
  std::iota(options.vocabulary.begin(), options.vocabulary.end(), 0);
  return options;
}

std::vector<RequestRecord> prompts_of(const PhaseRecord& record) {
  std::vector<RequestRecord> prompts;
  for (const RequestRecord& request : record.requests)
    if (!request.stream) prompts.push_back(request);
  return prompts;
}

TEST(MixedRun, PlaysRequestsAtTheirTimes) {
  FakePlayer player;
  uint64_t work = 0;
  MixedRun run(player, options(), {}, [&](uint64_t tokens) { work += tokens; });
  const MixedPhase phase{.name = "x",
                         .requests = {{milliseconds(0), 100, 3}, {milliseconds(500), 50, 2}}};
  const auto record = run.play(phase);
  ASSERT_TRUE(record.ok()) << record.error().message;
  ASSERT_EQ(record->requests.size(), 2U);
  const RequestRecord& first = record->requests[0];
  const RequestRecord& second = record->requests[1];
  EXPECT_EQ(first.to_first_token(), milliseconds(100));
  EXPECT_EQ(first.tokens.size(), 3U);
  EXPECT_EQ(second.sent - record->begin, milliseconds(500));
  EXPECT_EQ(record->end - record->begin, milliseconds(560));
  EXPECT_FALSE(first.cut || first.continued || first.stream);
  EXPECT_EQ(work, 155U);
}

TEST(MixedRun, KeepsChatStreamsRunningAcrossPhases) {
  FakePlayer player;
  {
    MixedRun run(player, options());
    const MixedPhase phase{
        .name = "x", .streams = 2, .alone = milliseconds(300), .requests = {{{}, 100, 4}}};
    for (int i = 0; i < 2; ++i) {
      const auto record = run.play(phase);
      ASSERT_TRUE(record.ok());
      EXPECT_EQ(prompts_of(*record).size(), 1U);
      EXPECT_GE(prompts_of(*record)[0].sent - record->begin, milliseconds(300));
      ASSERT_EQ(record->requests.size(), 3U);
      for (const RequestRecord& request : record->requests) {
        if (!request.stream) continue;
        EXPECT_TRUE(request.continued && request.cut);
        EXPECT_LE(request.tokens[0], record->begin);
        EXPECT_GT(request.tokens[1], record->begin);
        EXPECT_NEAR(static_cast<double>(request.tokens.size()), 44, 2);
      }
    }
    EXPECT_EQ(player.sent.size(), 4U) << "streams go on from phase to phase";
  }
  EXPECT_EQ(player.next(player.now() + milliseconds(1)), std::nullopt) << "streams are ended";
}

TEST(MixedRun, StartsAnEndedChatStreamAgain) {
  FakePlayer player;
  MixedRun run(player, options());
  const auto record =
      run.play({.name = "x", .streams = 1, .requests = {{{}, 11 * kStreamOutput, 1}}});
  ASSERT_TRUE(record.ok());
  ASSERT_EQ(record->requests.size(), 3U);
  EXPECT_TRUE(record->requests[0].stream && record->requests[0].continued);
  EXPECT_FALSE(record->requests[0].cut);
  EXPECT_EQ(record->streams, 1);
  const RequestRecord& again = record->requests[2];
  EXPECT_TRUE(again.stream && again.cut && again.has_first_token());
}

TEST(MixedRun, AClosedLoopKeepsSoManyInFlight) {
  FakePlayer player;
  MixedRun run(player, options());
  MixedPhase phase{.name = "closed", .requests = {}, .in_flight = 3};
  for (int i = 0; i < 20; ++i) phase.requests.push_back({{}, 10 + i, 5});
  const auto record = run.play(phase);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->requests.size(), 20U);
  EXPECT_EQ(player.most_in_flight, 3);
}

TEST(MixedRun, PromptsDifferFromEachOther) {
  FakePlayer player;
  MixedRun run(player, options());
  ASSERT_TRUE(run.play({.name = "x", .requests = {{{}, 64, 1}, {{}, 64, 1}}}).ok());
  EXPECT_NE(player.sent[0].prompt, player.sent[1].prompt);
}

TEST(MixedRun, ARequestThatFailsIsInTheRecord) {
  FakePlayer player;
  player.fails_at = 77;
  MixedRun run(player, options());
  const auto record = run.play({.name = "x", .requests = {{{}, 77, 5}, {{}, 50, 5}}});
  ASSERT_TRUE(record.ok());
  ASSERT_EQ(record->requests.size(), 2U);  // in the order in which they ended
  EXPECT_EQ(record->requests[0].error, "broken");
  EXPECT_EQ(record->requests[1].error, "");
}

TEST(MixedRun, AChatStreamThatFailsEndsTheRun) {
  FakePlayer player;
  player.fails_at = kStreamPrompt;
  MixedRun run(player, options());
  const auto record = run.play({.name = "x", .streams = 1, .requests = {{{}, 50, 5}}});
  ASSERT_FALSE(record.ok());
  EXPECT_THAT(record.error().message, HasSubstr("broken"));
}

TEST(MixedRun, StreamsThatCannotRunAtOnceAreAnError) {
  FakePlayer player;
  player.places = 3;
  MixedRun run(player, options());
  const auto record = run.play({.name = "x", .streams = 4, .requests = {{{}, 50, 5}}});
  ASSERT_FALSE(record.ok());
  EXPECT_EQ(record.error().kind, ErrorKind::kInvalidArgument);
  for (const char* flag : {"--streams", "--itl-target-ms"})
    EXPECT_THAT(record.error().message, HasSubstr(flag));
}

TEST(MixedRun, SilenceEndsTheRun) {
  FakePlayer player;
  player.hangs = true;
  MixedRun run(player, options());
  const auto record = run.play({.name = "x", .requests = {{{}, 50, 5}}});
  ASSERT_FALSE(record.ok());
  EXPECT_THAT(record.error().message, HasSubstr("no token for 300 s, with 1 requests running"));
}

TEST(MixedRun, WhatCannotBeSentEndsTheRun) {
  FakePlayer player;
  player.refuses = true;
  MixedRun run(player, options());
  const auto record = run.play({.name = "x", .requests = {{{}, 50, 5}}});
  ASSERT_FALSE(record.ok());
  EXPECT_EQ(record.error().message, "refused");
}

}  // namespace
}  // namespace weft
