// EngineCore: what happens once a quantum has ended.

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/engine_core.h"

namespace weft {
namespace {

// The n likeliest of those that the device reported, which serve prompt and outputs both.
std::vector<TokenLogprob> first_of(const std::vector<TokenLogprob>& top, int n) {
  const auto count = std::min(top.size(), static_cast<size_t>(std::max(n, 0)));
  return {top.begin(), top.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

void EngineCore::deliver() {
  const auto hand_out = [&](Sequence& sequence) {
    if (!sequence.has_events()) return;
    const Status status = sequence.deliver();
    if (status.ok()) return;
    spdlog::warn("{}", status.error().message);
    if (!sequence.ending()) {
      end(sequence, {.reason = FinishReason::kError, .message = status.error().message});
    }
  };
  for (const auto& sequence : live_) hand_out(*sequence);
  for (const auto& sequence : ended_) hand_out(*sequence);
  ended_.clear();
}

void EngineCore::wait() {
  while (!executor_.wait(TimePoint::max(), completion_)) {
  }
}

EngineCore::Running& EngineCore::completed() {
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const Running& running) {
    return !running.passes.empty() && running.quantum.id == completion_.quantum;
  });
  WEFT_CHECK(found != groups_.end(), "quantum {} was not started", completion_.quantum);
  return *found;
}

void EngineCore::commit() {
  Running& running = completed();
  const OpenPass* leader = running.passes.front()->leader();
  if (leader != nullptr && leader->running_to() == limits_.layers &&
      running.quantum.layer_end == limits_.layers) {
    // A follower may be done before its pass has been heard of, whose rows come first.
    std::swap(held_completion_, completion_);
    wait();
    commit_quantum(completed());
    std::swap(held_completion_, completion_);
  }
  commit_quantum(running);
}

void EngineCore::commit_quantum(Running& running) {
  const TimePoint now = clock_.now();
  --running_quanta_;
  account(running);
  end_passes(running);
  if (!completion_.status.ok()) {
    fail(running, completion_.status.error().message);
  } else {
    for (const Reported& reported : reported_) commit_output(reported, now);
  }
  running.passes.clear();
  for (const auto& sequence : live_) {
    if (sequence->pending_end() && !sequence->finished() && !sequence->in_quantum()) {
      end(*sequence, *sequence->pending_end());
    }
  }
  sweep();
}

void EngineCore::account(const Running& running) {
  const Duration took = completion_.end - completion_.start;
  const auto group = static_cast<Group>(&running - groups_.data());
  if (running_quanta_ == 0) usage_.nothing_runs(completion_.end);
  const bool ends = running.quantum.layer_end == limits_.layers;
  metrics_.quantum(running.work, running.prompt_rows, running.predicted, took);
  if (options_.roofline) {
    usage_.could_have_taken(executor_.cores(Group::kAll) *
                            seconds(options_.roofline->shortest(running.work, ends)));
  }
  if (completion_.status.ok()) options_.costs.learn(group, running.work, ends, took);
  pay_floor(running, took);
  if (options_.trace != nullptr) trace(running, group);
}

// Prompts have a right to a share of the time only while streams want it as well.
void EngineCore::pay_floor(const Running& running, Duration took) {
  const auto any = [&](Stage stage) {
    return std::any_of(live_.begin(), live_.end(),
                       [&](const auto& sequence) { return sequence->stage() == stage; });
  };
  if (!any(Stage::kDecoding) || !any(Stage::kPrefilling)) {
    prefill_debt_ = {};
    return;
  }
  const Duration for_streams = std::min(running.decode_only, took);
  const Duration for_prompts = running.prompt_rows > 0 ? took - for_streams : Duration{};
  const double floor = options_.prefill_floor;
  const double debt = floor * seconds(took - for_prompts) - (1 - floor) * seconds(for_prompts);
  prefill_debt_ =
      std::max(prefill_debt_ + Duration(static_cast<int64_t>(debt * 1e9)), -limits_.target);
}

void EngineCore::trace(const Running& running, Group group) {
  QuantumSpan span;
  span.group = static_cast<int>(group);
  span.start = completion_.start;
  span.end = completion_.end;
  span.layer_begin = running.quantum.layer_begin;
  span.layer_end = running.quantum.layer_end;
  span.quantum = running.quantum.id;
  for (const OpenPass* pass : running.passes) {
    if (pass->kind() == PassKind::kDecode) {
      span.decode_rows += pass->work().rows;
    } else {
      span.prefill_rows += pass->work().rows;
      span.pass = pass->pass().id;
    }
  }
  span.predicted_seconds = seconds(running.predicted);
  span.busy_core_seconds = completion_.busy_core_seconds;
  options_.trace->quantum(span);
}

// Takes the passes to where the quantum has brought them. What it reports is put aside, since
// passes close here and requests end later.
void EngineCore::end_passes(Running& running) {
  reported_.clear();
  for (OpenPass* pass : running.passes) {
    pass->end_quantum();
    for (Sequence* owner : pass->owners()) owner->quantum_ended();
  }
  if (!completion_.status.ok()) return;
  for (const OutputRow& row : completion_.outputs) {
    const OpenPass& pass = passes_.at(row.pass);
    const Segment& segment = pass.pass().segments.at(static_cast<size_t>(row.segment));
    reported_.push_back({pass.owners().at(static_cast<size_t>(row.segment)), &row,
                         segment.first_position + row.row, segment.outputs});
  }
  for (OpenPass* pass : running.passes) {
    if (pass->next_layer() < limits_.layers) continue;
    for (size_t i = 0; i < pass->owners().size(); ++i) {
      pass->owners()[i]->advance(pass->pass().segments[i].rows);
    }
    passes_.close(*pass);
  }
}

void EngineCore::commit_output(const Reported& reported, TimePoint now) {
  Sequence& sequence = *reported.sequence;
  if (sequence.ending()) return;
  if (!reported.row->finite) {
    end(sequence,
        {.reason = FinishReason::kError,
         .message = fmt::format("the model's output after token {} is not a number; this request "
                                "was ended, others are not affected",
                                reported.position)});
  } else if (reported.outputs == Outputs::kLast) {
    commit_sample(sequence, *reported.row, now);
  } else if (sequence.scores(reported.position)) {
    commit_prompt_row(sequence, reported);
  }
}

void EngineCore::commit_prompt_row(Sequence& sequence, const Reported& reported) {
  EngineEvent event;
  event.kind = EngineEvent::Kind::kPromptLogprob;
  event.token = reported.row->token;
  event.logprob = reported.row->logprob;
  event.top = first_of(reported.row->top, sequence.request().prompt_logprobs);
  sequence.prompt_row_delivered(reported.position);
  sequence.push(std::move(event));
  if (!sequence.generates() && !sequence.scores_prompt()) {
    metrics_.prompt(sequence.prompt_tokens());
    end(sequence, {.reason = FinishReason::kLength});
  }
}

void EngineCore::commit_sample(Sequence& sequence, const OutputRow& row, TimePoint now) {
  RequestTimes& times = sequence.times();
  if (!times.first_token) metrics_.prompt(sequence.prompt_tokens());
  sequence.append(row.token);
  usage_.stalled(metrics_.token(times, now, prompt_quanta_));
  EngineEvent event;
  event.kind = EngineEvent::Kind::kToken;
  event.token = row.token;
  const int top = sequence.request().sampling.top_logprobs;
  if (top >= 0) {
    event.logprob = row.logprob;
    event.top = first_of(row.top, top);
  }
  sequence.push(std::move(event));
  const std::vector<TokenId>& end_ids = sequence.request().end_ids;
  if (std::find(end_ids.begin(), end_ids.end(), row.token) != end_ids.end()) {
    end(sequence, {.reason = FinishReason::kStop});
  } else if (sequence.full()) {
    end(sequence, {.reason = FinishReason::kLength});
  }
}

void EngineCore::fail(const Running& running, const std::string& reason) {
  spdlog::error("quantum {} failed on the device: {}", completion_.quantum, reason);
  std::vector<Sequence*> owners;  // of their own: who ends leaves its passes
  for (const OpenPass* pass : running.passes) {
    owners.insert(owners.end(), pass->owners().begin(), pass->owners().end());
  }
  for (Sequence* owner : owners) {
    if (owner->ending()) continue;
    end(*owner,
        {.reason = FinishReason::kError, .message = fmt::format("the device failed: {}", reason)});
  }
}

void EngineCore::end(Sequence& sequence, Sequence::End how) {
  if (sequence.in_quantum()) {
    sequence.end_later(std::move(how));
    return;
  }
  leave_passes(sequence);
  if (sequence.stage() != Stage::kQueued) --running_;
  // Before the event: who has heard of the end finds it counted.
  metrics_.finished(sequence.times(), how.reason, sequence.output_tokens(), clock_.now());
  sequence.finish(how.reason, std::move(how.message), how.deadline);
}

void EngineCore::leave_passes(Sequence& sequence) {
  while (sequence.in_pass()) {
    OpenPass* left = nullptr;
    for (OpenPass* pass : passes_.open_passes()) {
      const auto& owners = pass->owners();
      if (std::find(owners.begin(), owners.end(), &sequence) != owners.end()) left = pass;
    }
    WEFT_CHECK(left != nullptr, "request {} has rows in no pass", sequence.id());
    left->remove(sequence, executor_);
    sequence.left_pass();
    if (left->open()) continue;
    if (left->on_device(executor_)) executor_.drop_pass(left->pass().id);
    passes_.close(*left);
  }
}

void EngineCore::sweep() {
  for (auto& sequence : live_) {
    if (sequence->finished()) ended_.push_back(std::move(sequence));
  }
  std::erase_if(live_, [](const auto& sequence) { return sequence == nullptr; });
  if (idle()) usage_.work_waits(false, clock_.now(), executor_.core_time());
}

void EngineCore::report() {
  metrics_.load(running_, waiting(), static_cast<double>(blocks_.held()) / blocks_.total());
  metrics_.cores(usage_.cores(executor_.core_time()), usage_.roofline());
}

}  // namespace weft
