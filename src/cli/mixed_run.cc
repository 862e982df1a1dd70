#include "cli/mixed_run.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// What is cancelled at the end is waited for, but not for ever.
constexpr Duration kLastWords = std::chrono::seconds(30);

}  // namespace

MixedRun::MixedRun(Player& player, Options options, std::function<EngineStats()> stats,
                   std::function<void(uint64_t)> on_work)
    : player_(player),
      options_(std::move(options)),
      stats_(std::move(stats)),
      on_work_(std::move(on_work)) {}

MixedRun::~MixedRun() {
  streams_ = 0;
  for (const auto& [id, live] : live_) player_.cancel(id);
  const TimePoint deadline = player_.now() + kLastWords;
  while (!live_.empty()) {
    const std::optional<PlayerEvent> event = player_.next(deadline);
    if (!event) return;
    if (event->kind == PlayerEvent::Kind::kFinished) live_.erase(event->id);
  }
}

Result<PhaseRecord> MixedRun::play(const MixedPhase& phase) {
  WEFT_RETURN_IF_ERROR(adjust_streams(phase.streams));
  WEFT_RETURN_IF_ERROR(await_streams());
  PhaseRecord record;
  record.name = phase.name;
  record.streams = phase.streams;
  record.begin = player_.now();
  if (stats_) record.before = stats_();
  begin_record();
  const TimePoint start = record.start = record.begin + phase.alone;
  WEFT_RETURN_IF_ERROR(pump(start, [] { return false; }));

  size_t next = 0;
  const auto can_send = [&] {
    return next < phase.requests.size() &&
           (phase.in_flight > 0 ? in_flight() < phase.in_flight
                                : start + phase.requests[next].at <= player_.now());
  };
  while (next < phase.requests.size() || in_flight() > 0) {
    while (can_send()) {
      const PlannedRequest& planned = phase.requests[next++];
      WEFT_RETURN_IF_ERROR(send(planned.prompt, planned.output, false));
    }
    const bool waits_for_time = next < phase.requests.size() && phase.in_flight == 0;
    const TimePoint until = waits_for_time ? start + phase.requests[next].at : TimePoint::max();
    WEFT_RETURN_IF_ERROR(pump(
        until, [&] { return can_send() || (next == phase.requests.size() && in_flight() == 0); }));
  }

  record.end = player_.now();
  if (stats_) record.after = stats_();
  record.requests = std::exchange(ended_, {});
  for (const auto& [id, live] : live_) {
    record.requests.push_back(live.record);
    record.requests.back().cut = true;
  }
  return record;
}

Status MixedRun::adjust_streams(int count) {
  int running = 0;
  for (const auto& [id, live] : live_) {
    if (++running > count) player_.cancel(id);
  }
  streams_ = count;
  for (; running < count; ++running) WEFT_RETURN_IF_ERROR(send_stream());
  return pump(TimePoint::max(), [&] { return static_cast<int>(live_.size()) <= count; });
}

Status MixedRun::await_streams() {
  awaits_streams_ = true;
  const Status status = pump(TimePoint::max(), [&] { return streams_run(); });
  awaits_streams_ = false;
  return status;
}

Status MixedRun::send_stream() {
  const int output = kStreamOutput - streams_sent_++ % kStaggered * kStreamStagger;
  return send(kStreamPrompt, output, true);
}

Status MixedRun::send(int prompt, int output, bool stream) {
  const uint64_t id = next_id_++;
  PlayerRequest request{.id = id,
                        .prompt = random_prompt(options_.seed, options_.first_index + id, prompt,
                                                options_.vocabulary),
                        .output = output};
  Live& live = live_[id];
  live.output = output;
  live.record.stream = stream;
  live.record.prompt = prompt;
  live.record.sent = player_.now();
  const Status sent = player_.send(std::move(request));
  if (!sent.ok()) live_.erase(id);
  return sent;
}

Status MixedRun::pump(TimePoint deadline, const std::function<bool()>& done) {
  while (!done()) {
    const TimePoint now = player_.now();
    if (now >= deadline) return {};
    // Where nothing runs, silence until the next arrival is no fault.
    const TimePoint patient = live_.empty() ? deadline : now + options_.patience;
    const std::optional<PlayerEvent> event = player_.next(std::min(deadline, patient));
    if (event) {
      WEFT_RETURN_IF_ERROR(on_event(*event));
    } else if (player_.now() >= patient && patient < deadline) {
      return Error{ErrorKind::kIo, fmt::format("no token for {:.0f} s, with {} requests running",
                                               seconds(options_.patience), live_.size())};
    }
  }
  return {};
}

Status MixedRun::on_event(const PlayerEvent& event) {
  const auto found = live_.find(event.id);
  WEFT_CHECK(found != live_.end(), "an event of request {}, which does not run", event.id);
  Live& live = found->second;
  if (event.kind == PlayerEvent::Kind::kToken) {
    if (live.record.tokens.empty() && !live.record.stream)
      count_work(static_cast<uint64_t>(live.record.prompt));
    live.record.tokens.push_back(event.at);
    if (!live.record.stream) count_work(1);
    return {};
  }
  Live ended = std::move(live);
  live_.erase(found);
  return on_finished(std::move(ended), event);
}

Status MixedRun::on_finished(Live live, const PlayerEvent& event) {
  live.record.error = event.error;
  const bool stream = live.record.stream;
  const bool whole = !live.record.continued;
  ended_.push_back(std::move(live.record));
  if (!stream) return {};
  if (!event.error.empty())
    return Error{ErrorKind::kIo, fmt::format("a chat stream failed: {}", event.error)};
  // They would take turns for ever.
  if (awaits_streams_ && whole) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("a chat stream came to its end before all {} had a token: they cannot "
                             "run at once; lower --streams or raise --itl-target-ms",
                             streams_)};
  }
  const auto running = std::count_if(live_.begin(), live_.end(),
                                     [](const auto& other) { return other.second.record.stream; });
  if (running < streams_) return send_stream();
  return {};
}

bool MixedRun::streams_run() const {
  return std::all_of(live_.begin(), live_.end(),
                     [](const auto& live) { return !live.second.record.tokens.empty(); });
}

int MixedRun::in_flight() const {
  return static_cast<int>(std::count_if(
      live_.begin(), live_.end(), [](const auto& live) { return !live.second.record.stream; }));
}

void MixedRun::begin_record() {
  ended_.clear();
  for (auto& [id, live] : live_) {
    std::vector<TimePoint>& tokens = live.record.tokens;
    tokens.erase(tokens.begin(), tokens.end() - 1);  // streams_run(): each has one
    live.record.continued = true;
  }
}

void MixedRun::count_work(uint64_t tokens) {
  if (on_work_) on_work_(tokens);
}

}  // namespace weft
