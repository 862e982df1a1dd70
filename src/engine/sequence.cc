#include "engine/sequence.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"

namespace weft {

Sequence::Sequence(RequestId id, Request request, uint64_t seed, int context,
                   std::shared_ptr<EventSink> sink, TimePoint arrival)
    : id_(id),
      request_(std::move(request)),
      seed_(seed),
      sink_(std::move(sink)),
      tokens_(std::move(request_.prompt)),
      prompt_tokens_(static_cast<int>(tokens_.size())),
      max_outputs_(std::min(request_.max_tokens, context - prompt_tokens_)) {
  times_.arrival = arrival;
}

void Sequence::set_defaults(const RequestLimits& defaults) {
  const auto choose = [](Duration own, Duration other) { return own > Duration{} ? own : other; };
  const Deadlines& own = request_.limits.deadlines;
  limits_.itl_target = choose(request_.limits.itl_target, defaults.itl_target);
  limits_.deadlines = {.first_token = choose(own.first_token, defaults.deadlines.first_token),
                       .token = choose(own.token, defaults.deadlines.token),
                       .request = choose(own.request, defaults.deadlines.request)};
}

// At least the last position has to run, and so do all whose logprobs are asked for.
int Sequence::cacheable_blocks() const {
  return scores_prompt() ? 0 : std::max(0, length() - 1) / kBlockPositions;
}

SequenceState Sequence::state(TimePoint now, double aim, const BlockPool& blocks) {
  SequenceState state{.stage = stage_,
                      .length = length(),
                      .computed = computed_,
                      .blocks = blocks_ ? static_cast<int>(blocks_->blocks().size()) : 0,
                      .in_pass = in_pass(),
                      .passed_over = passed_over,
                      .waited = now - times_.arrival};
  if (stage_ == Stage::kQueued) {
    if (match_generation_ != blocks.generation()) {
      match_ = blocks.match(tokens_, cacheable_blocks());
      match_generation_ = blocks.generation();
    }
    state.new_blocks = BlockPool::blocks_for(length()) - match_.held;
  } else if (stage_ == Stage::kDecoding) {
    const double due = aim * static_cast<double>(limits_.itl_target.count());
    state.slack = times_.last_token + Duration(static_cast<int64_t>(due)) - now;
  }
  return state;
}

std::optional<Deadline> Sequence::missed(TimePoint now) const {
  const auto over = [&](Duration limit, TimePoint since) {
    return limit > Duration{} && now - since > limit;
  };
  const Deadlines& limit = limits_.deadlines;
  if (over(limit.request, times_.arrival)) return Deadline::kRequest;
  if (!times_.first_token) {
    if (over(limit.first_token, times_.arrival)) return Deadline::kFirstToken;
  } else if (over(limit.token, times_.last_token)) {
    return Deadline::kToken;
  }
  return std::nullopt;
}

int Sequence::admit(BlockPool& blocks, SlotPool& slots) {
  WEFT_CHECK(stage_ == Stage::kQueued, "request {} is admitted twice", id_);
  const int longest = prompt_tokens_ + max_outputs_;
  tokens_.reserve(static_cast<size_t>(longest));
  blocks_.emplace(blocks);
  blocks_->reserve(longest);
  computed_ = blocks_->adopt(tokens_, cacheable_blocks()) * kBlockPositions;
  if (!times_.admitted) cached_tokens_ = std::min(computed_, prompt_tokens_);
  grow_to(length());
  SlotInit init{.sampling = request_.sampling,
                .seed = seed_,
                .choice = request_.choice,
                .prompt = tokens().first(static_cast<size_t>(prompt_tokens_)),
                .output = tokens().subspan(static_cast<size_t>(prompt_tokens_))};
  init.sampling.top_logprobs = std::max(init.sampling.top_logprobs, request_.prompt_logprobs);
  slot_.emplace(slots, init);
  stage_ = Stage::kPrefilling;
  passed_over = 0;
  return computed_;
}

void Sequence::grow_to(int positions) {
  WEFT_CHECK(blocks_->grow_to(positions), "no blocks for {} positions of request {}", positions,
             id_);
}

void Sequence::advance(int rows) {
  computed_ += rows;
  WEFT_CHECK(computed_ <= length(), "request {} ran {} of {} positions", id_, computed_, length());
  blocks_->publish(tokens_, computed_ / kBlockPositions);
}

void Sequence::append(TokenId token) {
  WEFT_CHECK(computed_ == length() && !full() && slot_, "request {} sampled out of turn", id_);
  tokens_.push_back(token);
  stage_ = Stage::kDecoding;
}

void Sequence::prompt_row_delivered(int position) {
  WEFT_CHECK(position == prompt_rows_out_, "request {} reports prompt row {} before row {}", id_,
             position, prompt_rows_out_);
  ++prompt_rows_out_;
}

void Sequence::preempt() {
  WEFT_CHECK(stage_ == Stage::kPrefilling || stage_ == Stage::kDecoding,
             "request {} is preempted but does not run", id_);
  release();
  stage_ = Stage::kQueued;
}

void Sequence::finish(FinishReason reason, std::string message, Deadline deadline) {
  WEFT_CHECK(!finished(), "request {} finishes twice", id_);
  // What an error has to do with the content of its blocks is not known.
  if (reason == FinishReason::kError && blocks_) blocks_->withdraw();
  release();
  stage_ = Stage::kFinished;
  EngineEvent event;
  event.kind = EngineEvent::Kind::kFinished;
  event.reason = reason;
  event.message = std::move(message);
  event.deadline = deadline;
  event.prompt_tokens = prompt_tokens_;
  event.output_tokens = output_tokens();
  push(std::move(event));
}

void Sequence::push(EngineEvent event) {
  event.request = id_;
  event.cached_tokens = cached_tokens_;
  events_.push_back(std::move(event));
}

Status Sequence::deliver() {
  Status status;
  for (EngineEvent& event : events_) {
    if (!status.ok() && event.kind != EngineEvent::Kind::kFinished) continue;
    try {
      sink_->on_event(std::move(event));
    } catch (const std::exception& e) {
      status =
          Error{ErrorKind::kIo, fmt::format("request {}: its receiver failed: {}", id_, e.what())};
    } catch (...) {
      status = Error{ErrorKind::kIo, fmt::format("request {}: its receiver failed", id_)};
    }
  }
  events_.clear();
  if (finished()) sink_.reset();
  return status;
}

void Sequence::release() {
  WEFT_CHECK(!in_pass(), "request {} gives up blocks that a pass names", id_);
  slot_.reset();
  blocks_.reset();
  computed_ = 0;
}

}  // namespace weft
