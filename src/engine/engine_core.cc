#include "engine/engine_core.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace weft {
namespace {

SchedulerLimits scheduler_limits(const Executor& executor, int chunk_rows) {
  const ExecutorLimits& device = executor.limits();
  WEFT_CHECK(device.slots >= 1 && device.blocks >= 1 && device.context >= 1,
             "{} slots, {} blocks, context {}", device.slots, device.blocks, device.context);
  WEFT_CHECK(device.rows >= device.slots, "{} rows for {} slots", device.rows, device.slots);
  WEFT_CHECK(device.passes >= StepBatch::kPasses, "{} passes", device.passes);
  WEFT_CHECK(chunk_rows >= 1, "chunks of {} rows", chunk_rows);
  return {.layers = executor.layers(),
          .rows = device.rows,
          .chunk_rows = chunk_rows,
          .blocks = device.blocks};
}

int longest_sequence(const ExecutorLimits& limits) {
  return static_cast<int>(
      std::min<int64_t>(limits.context, int64_t{limits.blocks} * kBlockPositions));
}

// The n likeliest of those that the device reported, which serve prompt and outputs both.
std::vector<TokenLogprob> first_of(const std::vector<TokenLogprob>& top, int n) {
  const auto count = std::min(top.size(), static_cast<size_t>(std::max(n, 0)));
  return {top.begin(), top.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

EngineCore::EngineCore(Executor& executor, MetricsRegistry& metrics, const Clock& clock,
                       Policy policy, int chunk_rows)
    : executor_(executor),
      clock_(clock),
      policy_(policy),
      limits_(scheduler_limits(executor, chunk_rows)),
      context_(longest_sequence(executor.limits())),
      metrics_(metrics),
      blocks_(executor.limits().blocks),
      slots_(executor) {}

EngineCore::~EngineCore() { cancel_all(); }

void EngineCore::add(std::unique_ptr<Sequence> sequence) {
  live_.push_back(std::move(sequence));
  Sequence& added = *live_.back();
  if (added.length() == 0) {  // one token, of which neither a logprob nor a successor is asked for
    metrics_.prompt(added.prompt_tokens());
    end(added, FinishReason::kLength);
  }
}

void EngineCore::finish(RequestId id, FinishReason reason) {
  for (const auto& sequence : live_) {
    if (sequence->id() == id && !sequence->finished()) end(*sequence, reason);
  }
}

void EngineCore::cancel_all() {
  for (const auto& sequence : live_) {
    if (!sequence->finished()) end(*sequence, FinishReason::kCancelled);
  }
  sweep();
}

bool EngineCore::start_step() {
  sweep();
  if (idle()) return false;
  state_.sequences.clear();
  for (const auto& sequence : live_) state_.sequences.push_back(sequence->state());
  state_.free_blocks = blocks_.free();
  state_.free_slots = slots_.free();
  policy_(state_, limits_, plan_);
  apply_plan(clock_.now());
  executor_.start(0, batch_.quantum(++steps_, plan_.layer_begin, plan_.layer_end));
  return true;
}

void EngineCore::apply_plan(TimePoint now) {
  const auto at = [&](int i) -> Sequence& { return *live_[static_cast<size_t>(i)]; };
  for (const int i : plan_.preempt) {
    at(i).preempt();
    metrics_.preempted();
  }
  for (const int i : plan_.admit) {
    at(i).admit(blocks_, slots_);
    metrics_.admitted(at(i).times(), now);
  }
  running_ += static_cast<int>(plan_.admit.size()) - static_cast<int>(plan_.preempt.size());
  batch_.clear();
  for (const RowRange& range : plan_.decode) {
    at(range.sequence).grow_to(range.first + range.rows);
    batch_.add_decode(at(range.sequence));
  }
  for (const RowRange& range : plan_.prefill) {
    batch_.add_chunk(at(range.sequence), range.first, range.rows);
  }
  WEFT_CHECK(!batch_.members().empty(), "a plan without rows for {} sequences", live_.size());
}

void EngineCore::wait_step() {
  std::optional<Completion> completion;
  while (!completion) completion = executor_.wait(TimePoint::max());
  WEFT_CHECK(completion->quantum == steps_, "quantum {} completed in step {}", completion->quantum,
             steps_);
  completion_ = std::move(*completion);
}

void EngineCore::commit_step() {
  const TimePoint now = clock_.now();
  metrics_.step(batch_.rows());
  if (!completion_.status.ok()) {
    fail_step(completion_.status.error().message);
  } else {
    for (const auto& [sequence, rows] : batch_.members()) {
      if (!sequence->finished()) sequence->advance(rows);
    }
    for (const OutputRow& row : completion_.outputs) commit_output(row, now);
  }
  sweep();
}

void EngineCore::commit_output(const OutputRow& row, TimePoint now) {
  Sequence& sequence = batch_.sequence(row);
  if (sequence.finished()) return;
  const Segment& segment = batch_.segment(row);
  const int position = segment.first_position + row.row;
  if (!row.finite) {
    end(sequence, FinishReason::kError,
        fmt::format("the model's output after token {} is not a number; this request was ended, "
                    "others are not affected",
                    position));
  } else if (segment.outputs == Outputs::kLast) {
    commit_sample(sequence, row, now);
  } else if (sequence.scores(position)) {
    commit_prompt_row(sequence, row);
  }
}

void EngineCore::commit_prompt_row(Sequence& sequence, const OutputRow& row) {
  EngineEvent event;
  event.kind = EngineEvent::Kind::kPromptLogprob;
  event.token = row.token;
  event.logprob = row.logprob;
  event.top = first_of(row.top, sequence.request().prompt_logprobs);
  sequence.prompt_row_delivered(batch_.segment(row).first_position + row.row);
  if (!deliver(sequence, std::move(event))) return;
  if (!sequence.generates() && !sequence.scores_prompt()) {
    metrics_.prompt(sequence.prompt_tokens());
    end(sequence, FinishReason::kLength);
  }
}

void EngineCore::commit_sample(Sequence& sequence, const OutputRow& row, TimePoint now) {
  if (!sequence.times().first_token) metrics_.prompt(sequence.prompt_tokens());
  sequence.append(row.token);
  metrics_.token(sequence.times(), now);
  EngineEvent event;
  event.kind = EngineEvent::Kind::kToken;
  event.token = row.token;
  const int top = sequence.request().sampling.top_logprobs;
  if (top >= 0) {
    event.logprob = row.logprob;
    event.top = first_of(row.top, top);
  }
  if (!deliver(sequence, std::move(event))) return;
  const std::vector<TokenId>& end_ids = sequence.request().end_ids;
  if (std::find(end_ids.begin(), end_ids.end(), row.token) != end_ids.end()) {
    end(sequence, FinishReason::kStop);
  } else if (sequence.full()) {
    end(sequence, FinishReason::kLength);
  }
}

void EngineCore::fail_step(const std::string& reason) {
  spdlog::error("step {} failed on the device: {}", steps_, reason);
  for (const auto& member : batch_.members()) {
    if (!member.sequence->finished()) {
      end(*member.sequence, FinishReason::kError, fmt::format("the device failed: {}", reason));
    }
  }
}

void EngineCore::end(Sequence& sequence, FinishReason reason, std::string message) {
  if (sequence.stage() != Stage::kQueued) --running_;
  // Before the event: who has heard of the end finds it counted.
  metrics_.finished(sequence.times(), reason, sequence.output_tokens(), clock_.now());
  sequence.finish(reason, std::move(message));
}

bool EngineCore::deliver(Sequence& sequence, EngineEvent event) {
  Status status = sequence.deliver(std::move(event));
  if (status.ok()) return true;
  spdlog::warn("{}", status.error().message);
  end(sequence, FinishReason::kError, status.error().message);
  return false;
}

void EngineCore::sweep() {
  std::erase_if(live_, [](const auto& sequence) { return sequence->finished(); });
  metrics_.load(running_, waiting(), static_cast<double>(blocks_.held()) / blocks_.total());
}

}  // namespace weft
