#pragma once
// A random engine: requests walk through the layers in passes that are joined, left, moved between
// groups, followed and cut at random, and every token is compared with the request's run alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>
#include <vector>

#include "device/cpu/test_driver.h"

namespace weft::test {

struct WalkRequest {
  Tokens prompt;
  uint64_t seed = 0;
  std::vector<OutputRow> wanted;

  SamplingParams sampling() const {
    SamplingParams params;
    params.temperature = seed % 3 == 0 ? 0.0F : 0.9F;
    params.repetition_penalty = seed % 2 == 0 ? 1.0F : 1.2F;
    params.top_logprobs = kMaxTopLogprobs;
    return params;
  }
};

// Each request alone: its prompt in one chunk, all layers, one thread.
inline std::vector<WalkRequest> requests_with_solo_runs(const std::string& model,
                                                        DriverOptions options, int count,
                                                        size_t outputs) {
  const Tokens source = Expected(model).prompt;
  std::mt19937 random(7);
  options.threads = 1;
  options.prefill_threads = options.decode_threads = 0;
  Driver driver(model, options);
  std::vector<WalkRequest> requests(static_cast<size_t>(count));
  for (WalkRequest& request : requests) {
    request.seed = random();
    const size_t rows = 1 + random() % 90;
    while (request.prompt.size() < rows) request.prompt.push_back(source[random() % source.size()]);
    auto sequence = driver.open(0, request.sampling(), request.prompt, {}, request.seed);
    request.wanted = driver.run({Driver::rows(sequence, request.prompt, Outputs::kLast)});
    while (request.wanted.size() < outputs) {
      request.wanted.push_back(driver.run({Driver::next(sequence)})[0]);
    }
  }
  return requests;
}

class RandomWalk {
 public:
  RandomWalk(Driver& driver, const std::vector<WalkRequest>& requests, uint32_t seed)
      : driver_(driver), random_(seed) {
    for (const WalkRequest& request : requests) {
      live_.push_back({&request, {}, 0, false});
      restart(live_.back());
    }
    for (size_t id = 0; id < walks_.size(); ++id) walks_[id].pass.id = static_cast<PassId>(id);
  }

  // What has happened, so that a test can see that it happened at all.
  struct Seen {
    int quanta = 0;
    int joined = 0;    // quanta of several passes
    int moved = 0;     // passes taken up by another group
    int at_once = 0;   // quanta started while another one was running
    int followed = 0;  // quanta of followers whose senders were running
    int cut = 0;       // rows dropped and passes dropped
  };

  Seen run() {
    while (!all_done() && !::testing::Test::HasFailure()) {
      if (chance(15)) drop_something();
      start_something();
      const bool any = std::any_of(running_.begin(), running_.end(),
                                   [](const Running& r) { return !r.walks.empty(); });
      // With both groups busy there is nothing else to do; with one, sometimes the other starts.
      if (any && (chance(50) || !may_start())) finish_one();
    }
    while (std::any_of(running_.begin(), running_.end(),
                       [](const Running& r) { return !r.walks.empty(); })) {
      finish_one();
    }
    return seen_;
  }

 private:
  struct Live {
    const WalkRequest* request;
    Sequence sequence;
    size_t got = 0;
    bool walking = false;
  };
  struct Walk {
    Pass pass;
    std::vector<size_t> members;  // requests, by segment
    int next = 0;
    int running_to = 0;  // 0: stands
    bool open = false;
    int partner = -1;  // of a sender its follower, of a follower its sender
    Group last_group = Group::kAll;
    void close() {
      const PassId id = pass.id;
      *this = {};
      pass.id = id;
    }
  };
  struct Running {
    Quantum quantum;
    std::vector<size_t> walks;
  };

  bool chance(int percent) { return static_cast<int>(random_() % 100) < percent; }
  size_t below(size_t n) { return random_() % n; }
  bool all_done() const {
    return std::all_of(live_.begin(), live_.end(),
                       [](const Live& l) { return l.got == l.request->wanted.size(); });
  }
  Running& running(Group g) { return running_[static_cast<size_t>(g)]; }

  void restart(Live& live) {
    const auto slot = static_cast<SlotId>(&live - live_.data());
    live.sequence =
        driver_.open(slot, live.request->sampling(), live.request->prompt, {}, live.request->seed);
    live.got = 0;
    live.walking = false;
  }

  bool free_group(Group g) {
    if (driver_.executor().cores(g) == 0 || !running(g).walks.empty()) return false;
    if (g != Group::kAll) return running(Group::kAll).walks.empty();
    return running(Group::kPrefill).walks.empty() && running(Group::kDecode).walks.empty();
  }
  bool may_start() {
    return free_group(Group::kAll) || free_group(Group::kPrefill) || free_group(Group::kDecode);
  }

  // --- Passes ---

  size_t free_walk() const {
    size_t id = 0;
    while (id < walks_.size() && walks_[id].open) ++id;
    return id;
  }

  void add(Walk& walk, size_t request, Segment segment) {
    walk.open = true;
    walk.members.push_back(request);
    walk.pass.segments.push_back(segment);
    live_[request].walking = true;
  }

  // A chunk of a prompt, or the next row of one that is read. The last row of a prompt may follow
  // behind as a pass of its own.
  void add_rows(Walk& walk, size_t request) {
    Live& live = live_[request];
    const std::span<const TokenId> prompt = live.request->prompt;
    const auto at = static_cast<size_t>(live.sequence.position);
    if (at >= prompt.size()) return add(walk, request, Driver::next(live.sequence));
    const size_t rows = 1 + below(std::min<size_t>(64, prompt.size() - at));
    const bool last = at + rows == prompt.size();
    const size_t follower = free_walk();
    if (!last || rows == 1 || !walk.members.empty() || follower >= walks_.size() ||
        follower == static_cast<size_t>(walk.pass.id) || chance(30)) {
      return add(walk, request,
                 Driver::rows(live.sequence, prompt.subspan(at, rows),
                              last ? Outputs::kLast : Outputs::kNone));
    }
    add(walk, request, Driver::rows(live.sequence, prompt.subspan(at, rows - 1), Outputs::kNone));
    Walk& behind = walks_[follower];
    add(behind, request, Driver::rows(live.sequence, prompt.last(1), Outputs::kLast));
    behind.pass.segments[0].row_class = RowClass::kDecode;
    // The board is the follower's: when that one ends, nothing more is sent.
    walk.pass.sends = behind.pass.follows = behind.pass.id;
    walk.partner = behind.pass.id;
    behind.partner = walk.pass.id;
  }

  void open_walk() {
    const size_t id = free_walk();
    if (id == walks_.size()) return;
    walks_[id].open = true;  // so that a follower takes another one
    const size_t most = chance(40) ? 1 : live_.size();
    const size_t first = below(live_.size());
    for (size_t i = 0; i < live_.size() && walks_[id].members.size() < most; ++i) {
      const size_t r = (first + i) % live_.size();
      const bool wants = !live_[r].walking && live_[r].got < live_[r].request->wanted.size();
      if (wants && walks_[id].partner < 0 && chance(80)) add_rows(walks_[id], r);
    }
    if (walks_[id].members.empty()) walks_[id].close();
  }

  bool sender_runs(const Walk& walk) const {
    return walk.pass.follows != kNoBoard && walk.partner >= 0 &&
           walks_[static_cast<size_t>(walk.partner)].running_to > walk.next;
  }

  // The layer up to which the walk may run beside those in `together`.
  int limit(const Walk& walk, const std::vector<size_t>& together) const {
    if (walk.pass.follows == kNoBoard) return driver_.layers();
    const auto sender = static_cast<size_t>(walk.partner);
    const bool beside = std::count(together.begin(), together.end(), sender) > 0;
    if (walk.partner < 0 || beside) return driver_.layers();
    return std::max(walks_[sender].next, walks_[sender].running_to);
  }

  // --- Quanta ---

  void start_something() {
    std::array<Group, 3> groups = {Group::kAll, Group::kPrefill, Group::kDecode};
    std::shuffle(groups.begin(), groups.end(), random_);
    const auto g =
        std::find_if(groups.begin(), groups.end(), [&](Group x) { return free_group(x); });
    if (g == groups.end()) return;
    if (chance(60)) open_walk();
    std::vector<size_t> standing;
    for (size_t id = 0; id < walks_.size(); ++id) {
      if (walks_[id].open && walks_[id].running_to == 0) standing.push_back(id);
    }
    if (standing.empty()) return;
    std::shuffle(standing.begin(), standing.end(), random_);
    std::partition(standing.begin(), standing.end(),
                   [&](size_t id) { return sender_runs(walks_[id]) && chance(70); });
    std::vector<size_t> together = {standing[0]};
    const int begin = walks_[standing[0]].next;
    for (size_t i = 1; i < standing.size(); ++i) {
      if (walks_[standing[i]].next == begin && chance(60)) together.push_back(standing[i]);
    }
    int most = driver_.layers();
    for (const size_t id : together) most = std::min(most, limit(walks_[id], together));
    if (most > begin) start(*g, together, begin, begin + 1 + static_cast<int>(below(most - begin)));
  }

  void start(Group g, const std::vector<size_t>& together, int begin, int end) {
    for (const Running& other : running_) seen_.at_once += other.walks.empty() ? 0 : 1;
    Running& here = running(g);
    here.walks = together;
    here.quantum = {++quanta_, {}, begin, end};
    for (const size_t id : together) {
      Walk& walk = walks_[id];
      here.quantum.passes.push_back(&walk.pass);
      walk.running_to = end;
      seen_.moved += begin > 0 && walk.last_group != g ? 1 : 0;
      walk.last_group = g;
      const bool behind =
          sender_runs(walk) && walks_[static_cast<size_t>(walk.partner)].last_group != g;
      seen_.followed += behind ? 1 : 0;
    }
    ++seen_.quanta;
    seen_.joined += together.size() > 1 ? 1 : 0;
    driver_.executor().start(g, here.quantum);
  }

  void finish_one() {
    ASSERT_TRUE(driver_.executor().wait(TimePoint::max(), completion_));
    EXPECT_TRUE(completion_.status.ok());
    EXPECT_LE(completion_.start, completion_.end);
    Running* done = nullptr;
    for (Running& r : running_) {
      if (!r.walks.empty() && r.quantum.id == completion_.quantum) done = &r;
    }
    ASSERT_NE(done, nullptr);
    for (const OutputRow& row : completion_.outputs) take(row);
    for (const size_t id : done->walks) {
      Walk& walk = walks_[id];
      walk.next = std::exchange(walk.running_to, 0);
      if (walk.next == driver_.layers()) end_walk(walk);
    }
    done->walks.clear();
  }

  void take(const OutputRow& row) {
    const Walk& walk = walks_[static_cast<size_t>(row.pass)];
    const size_t request = walk.members[static_cast<size_t>(row.segment)];
    Live& live = live_[request];
    ASSERT_LT(live.got, live.request->wanted.size());
    ASSERT_TRUE(same_output(row, live.request->wanted[live.got]))
        << "output " << live.got << " of request " << request << " in pass " << row.pass;
    ++live.got;
  }

  void end_walk(Walk& walk) {
    const bool sender = walk.pass.sends != kNoBoard;
    if (walk.partner >= 0) walks_[static_cast<size_t>(walk.partner)].partner = -1;
    if (!sender) {
      for (const size_t r : walk.members) live_[r].walking = false;
    }
    walk.close();
  }

  // --- Leaving ---

  void drop_something() {
    std::vector<size_t> standing;
    for (size_t id = 0; id < walks_.size(); ++id) {
      if (walks_[id].open && walks_[id].running_to == 0 && walks_[id].next > 0) {
        standing.push_back(id);
      }
    }
    if (standing.empty() || seen_.cut > 12) return;
    Walk& walk = walks_[standing[below(standing.size())]];
    if (walk.pass.sends != kNoBoard || walk.pass.follows != kNoBoard) return drop_pair(walk);
    ++seen_.cut;
    if (walk.members.size() > 1) return drop_member(walk, below(walk.members.size()));
    drop(walk);
  }

  // A prompt and its follower, where both stand.
  void drop_pair(Walk& walk) {
    if (walk.partner >= 0) {
      Walk& other = walks_[static_cast<size_t>(walk.partner)];
      if (other.running_to > 0) return;
      drop(other);
    }
    ++seen_.cut;
    drop(walk);
  }

  void drop(Walk& walk) {
    driver_.executor().drop_pass(walk.pass.id);
    for (const size_t r : walk.members) restart(live_[r]);
    walk.close();
  }

  void drop_member(Walk& walk, size_t member) {
    auto& segments = walk.pass.segments;
    int64_t first = 0;
    for (size_t i = 0; i < member; ++i) first += segments[i].rows;
    driver_.executor().drop_rows(walk.pass.id, first, segments[member].rows);
    restart(live_[walk.members[member]]);
    segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(member));
    walk.members.erase(walk.members.begin() + static_cast<std::ptrdiff_t>(member));
  }

  Driver& driver_;
  std::mt19937 random_;
  std::vector<Live> live_;
  std::array<Walk, 4> walks_;
  std::array<Running, kGroups> running_;
  Completion completion_;
  uint64_t quanta_ = 0;
  Seen seen_;
};

}  // namespace weft::test
