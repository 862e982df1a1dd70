#include "engine/engine_core.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace weft {
namespace {

// The share of a stream's target that steps are planned for; the rest is for what predictions miss.
constexpr double kAim = 0.92;

// Four steps of a single stream, and not below what a reader would notice.
constexpr Duration kLeastTarget = std::chrono::milliseconds(50);
constexpr int kTargetSteps = 4;

EngineOptions with_target(EngineOptions options, int layers) {
  if (options.limits.itl_target == Duration{}) {
    Work step{.head_rows = 1, .layers = layers};
    step.add_segment(0, 1);
    options.limits.itl_target =
        std::max(kLeastTarget, kTargetSteps * options.costs.predict(Group::kAll, step, true));
  }
  return options;
}

SchedulerLimits scheduler_limits(const Executor& executor, const EngineOptions& options) {
  const ExecutorLimits& device = executor.limits();
  WEFT_CHECK(device.slots >= 1 && device.blocks >= 1 && device.context >= 1,
             "{} slots, {} blocks, context {}", device.slots, device.blocks, device.context);
  WEFT_CHECK(device.rows > device.slots, "{} rows for {} slots", device.rows, device.slots);
  WEFT_CHECK(device.passes >= 2, "{} passes", device.passes);
  WEFT_CHECK(options.chunk_rows >= 1, "chunks of {} rows", options.chunk_rows);
  const bool split = executor.cores(Group::kPrefill) > 0;
  SchedulerLimits limits;
  limits.layers = executor.layers();
  // The rest is for the streams, each of which may have a row in the same quantum.
  limits.rows = device.rows - device.slots;
  limits.chunk_rows = options.chunk_rows;
  limits.tile_rows = device.tile_rows;
  // Beside the decode pass; where the device is split each prompt's pass may have a follower.
  limits.prefill_passes = std::max(1, split ? (device.passes - 1) / 2 : device.passes - 1);
  limits.blocks = device.blocks;
  limits.target = options.limits.itl_target;
  limits.can_split = split && device.passes >= 3;
  return limits;
}

int longest_sequence(const ExecutorLimits& limits) {
  return static_cast<int>(
      std::min<int64_t>(limits.context, int64_t{limits.blocks} * kBlockPositions));
}

std::string late_message(const Sequence& sequence, Deadline deadline) {
  const auto ms = [](Duration limit) { return seconds(limit) * 1e3; };
  const Deadlines& limits = sequence.limits().deadlines;
  switch (deadline) {
    case Deadline::kFirstToken:
      return fmt::format("no token within {:.0f} ms (ttft_timeout_ms)", ms(limits.first_token));
    case Deadline::kToken:
      return fmt::format("no further token within {:.0f} ms (token_timeout_ms)", ms(limits.token));
    case Deadline::kRequest:
      return fmt::format("not done within {:.0f} ms (request_timeout_ms)", ms(limits.request));
  }
  return {};
}

}  // namespace

EngineCore::EngineCore(Executor& executor, MetricsRegistry& metrics, const Clock& clock,
                       const EngineOptions& options)
    : executor_(executor),
      clock_(clock),
      options_(with_target(options, executor.layers())),
      policy_(policy_of(options_.mode)),
      limits_(scheduler_limits(executor, options_)),
      context_(longest_sequence(executor.limits())),
      metrics_(metrics),
      blocks_(executor.limits().blocks),
      slots_(executor),
      passes_(executor.limits().passes) {
  state_.costs = &options_.costs;
}

EngineCore::~EngineCore() {
  WEFT_CHECK(running_quanta_ == 0, "the engine ends while {} quanta run", running_quanta_);
  cancel_all();
}

void EngineCore::add(std::unique_ptr<Sequence> sequence) {
  usage_.work_waits(true, clock_.now(), executor_.core_time());
  live_.push_back(std::move(sequence));
  Sequence& added = *live_.back();
  added.set_defaults(options_.limits);
  if (added.length() == 0) {  // one token, of which neither a logprob nor a successor is asked for
    metrics_.prompt(added.prompt_tokens());
    end(added, {.reason = FinishReason::kLength});
  }
}

void EngineCore::finish(RequestId id, FinishReason reason) {
  for (const auto& sequence : live_) {
    if (sequence->id() == id && !sequence->ending()) end(*sequence, {.reason = reason});
  }
}

void EngineCore::cancel_all() {
  for (const auto& sequence : live_) {
    if (!sequence->ending()) end(*sequence, {.reason = FinishReason::kCancelled});
  }
  sweep();
  deliver();
}

EngineStats EngineCore::stats() const {
  EngineStats stats;
  stats.running = running_;
  stats.waiting = waiting();
  stats.blocks_used = blocks_.held();
  stats.blocks_cached = blocks_.cached();
  stats.blocks_total = blocks_.total();
  stats.steps = steps_;
  stats.quanta = quanta_;
  stats.missed_steps = missed_steps_;
  stats.preemptions = preemptions_;
  stats.itl_target = options_.limits.itl_target;
  const CoreTime cores = usage_.cores(executor_.core_time());
  stats.busy_core_seconds = cores.operators;
  stats.barrier_core_seconds = cores.barriers;
  stats.idle_core_seconds = cores.idle;
  stats.roofline_core_seconds = usage_.roofline();
  stats.wall_seconds = seconds(usage_.wall(clock_.now()));
  stats.host_seconds = seconds(usage_.host());
  stats.stall_seconds = seconds(usage_.stall());
  return stats;
}

void EngineCore::start() {
  const TimePoint now = clock_.now();
  end_late(now);
  sweep();
  if (!idle()) plan_and_start(now);
  report();
}

void EngineCore::plan_and_start(TimePoint now) {
  do {
    read_state(now);
    plan_admission(state_, limits_, keeps_target(options_.mode), admission_);
    // Blocks that a quantum of another group still names come free when it has ended.
    if (preempts_running()) return;
    apply_admission(now);
  } while (!admission_.preempt.empty());
  if (!admission_.admit.empty()) read_state(now);
  if (running_ == 0) return;
  policy_(state_, limits_, plan_);
  WEFT_CHECK(started() || !plan_.quanta.empty(), "nothing is planned for {} requests",
             live_.size());
  state_.split = plan_.split;
  open_passes();
  for (const QuantumPlan& quantum : plan_.quanta) start_quantum(quantum);
}

void EngineCore::end_late(TimePoint now) {
  for (const auto& sequence : live_) {
    if (sequence->ending()) continue;
    const auto deadline = sequence->missed(now);
    if (!deadline) continue;
    end(*sequence, {.reason = FinishReason::kTimeout,
                    .message = late_message(*sequence, *deadline),
                    .deadline = *deadline});
  }
}

void EngineCore::read_state(TimePoint now) {
  Duration target = options_.limits.itl_target;
  state_.sequences.clear();
  for (const auto& sequence : live_) {
    sequence->index = static_cast<int>(state_.sequences.size());
    state_.sequences.push_back(sequence->state(now, kAim, blocks_));
    if (sequence->stage() == Stage::kDecoding) {
      target = std::min(target, sequence->limits().itl_target);
    }
  }
  state_.quantum = target / 4;
  state_.passes.clear();
  const auto& open = passes_.open_passes();
  for (const OpenPass* pass : open) {
    PassState& state = state_.passes.emplace_back();
    state.kind = pass->kind();
    state.work = pass->work();
    state.sequence = pass->owners().front()->index;
    for (size_t i = 0; i < pass->owners().size(); ++i) {
      const Segment& segment = pass->pass().segments[i];
      if (pass->owners()[i] != pass->owners().front()) break;
      state.end = segment.first_position + segment.rows;
    }
    state.next_layer = pass->next_layer();
    state.shared_layers = pass->shared_layers();
    state.running_to = pass->running_to();
    // Who is about to end gets nothing started any more.
    if (pass->owners().front()->ending() && !pass->running()) state.running_to = state.next_layer;
    const auto leader = std::find(open.begin(), open.end(), pass->leader());
    state.leader = leader == open.end() ? kNone : static_cast<int>(leader - open.begin());
  }
  state_.available_blocks = blocks_.available();
  state_.free_slots = slots_.free();
  for (size_t g = 0; g < groups_.size(); ++g) state_.running[g] = !groups_[g].passes.empty();
  state_.prefill_due = prefill_debt_ > Duration{};
}

bool EngineCore::preempts_running() const {
  return std::any_of(admission_.preempt.begin(), admission_.preempt.end(),
                     [&](int i) { return live_[static_cast<size_t>(i)]->in_quantum(); });
}

void EngineCore::apply_admission(TimePoint now) {
  const auto at = [&](int i) -> Sequence& { return *live_[static_cast<size_t>(i)]; };
  for (const int i : admission_.preempt) {
    leave_passes(at(i));
    at(i).preempt();
    metrics_.preempted();
    ++preemptions_;
    --running_;
  }
  for (const int i : admission_.admit) {
    const bool first = !at(i).times().admitted;
    const int cached = at(i).admit(blocks_, slots_);
    if (first) metrics_.looked_up(at(i).prompt_tokens(), cached);
    metrics_.admitted(at(i).times(), now);
    ++running_;
  }
}

void EngineCore::open_passes() {
  const auto at = [&](int i) -> Sequence& { return *live_[static_cast<size_t>(i)]; };
  const auto named = [&](int QuantumPlan::* member) {
    return std::any_of(plan_.quanta.begin(), plan_.quanta.end(),
                       [&](const QuantumPlan& quantum) { return quantum.*member == kOpened; });
  };
  opened_decode_ = opened_prefill_ = nullptr;
  if (named(&QuantumPlan::decode)) {
    opened_decode_ = &passes_.open(PassKind::kDecode);
    for (const RowRange& range : plan_.decode) {
      at(range.sequence).grow_to(range.first + range.rows);
      opened_decode_->add_stream(at(range.sequence));
    }
    ++steps_;
  }
  if (!named(&QuantumPlan::prefill)) return;
  opened_prefill_ = &passes_.open(PassKind::kPrefill);
  int newest = 0;
  for (const RowRange& range : plan_.prefill) {
    opened_prefill_->add_rows(at(range.sequence), range.first, range.rows);
    newest = std::max(newest, range.sequence);
  }
  metrics_.opened(opened_prefill_->work().rows, opened_prefill_->padded_rows(limits_.tile_rows));
  for (int i = 0; i < newest; ++i) {
    if (at(i).stage() == Stage::kPrefilling && !at(i).in_pass()) ++at(i).passed_over;
  }
  if (plan_.opens_follower) {
    const RowRange& range = plan_.prefill.front();
    OpenPass& follower = passes_.open(PassKind::kFollower);
    follower.add_rows(at(range.sequence), range.first + range.rows, 1);
    PassTable::tie(*opened_prefill_, follower);
  }
}

OpenPass* EngineCore::pass_of(int index, OpenPass* opened) const {
  if (index == kNone) return nullptr;
  return index == kOpened ? opened : passes_.open_passes()[static_cast<size_t>(index)];
}

void EngineCore::start_quantum(const QuantumPlan& plan) {
  Running& running = groups_[static_cast<size_t>(plan.group)];
  WEFT_CHECK(running.passes.empty(), "two quanta on one group");
  OpenPass* decode = pass_of(plan.decode, opened_decode_);
  OpenPass* prefill = pass_of(plan.prefill, opened_prefill_);
  OpenPass* follower = pass_of(plan.follower, nullptr);
  running.quantum.id = ++quanta_;
  running.quantum.layer_begin = plan.layer_begin;
  running.quantum.layer_end = plan.layer_end;
  running.quantum.passes.clear();
  running.work = {};
  for (OpenPass* pass : {decode, prefill, follower}) {
    if (pass == nullptr) continue;
    pass->start(plan.layer_end, decode != nullptr && prefill != nullptr);
    running.passes.push_back(pass);
    running.quantum.passes.push_back(&pass->pass());
    running.work = running.work + pass->work();
    for (Sequence* owner : pass->owners()) owner->quantum_started();
  }
  running.work.layers = plan.layer_end - plan.layer_begin;
  running.prompt_rows = running.work.rows - (decode == nullptr ? 0 : decode->work().rows);
  const bool ends = plan.layer_end == limits_.layers;
  running.predicted = options_.costs.predict(plan.group, running.work, ends);
  running.decode_only =
      decode == nullptr
          ? Duration{}
          : options_.costs.predict(plan.group, decode->work().through(running.work.layers), ends);
  if (plan_.over_target && running.prompt_rows > 0) {
    ++missed_steps_;
    metrics_.missed();
  }
  if (running.prompt_rows > 0) ++prompt_quanta_;
  if (running_quanta_++ == 0) usage_.quantum_starts(clock_.now());
  executor_.start(plan.group, running.quantum);
}

}  // namespace weft
