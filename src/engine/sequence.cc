#include "engine/sequence.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/log.h"

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

SequenceState Sequence::state() const {
  return {.stage = stage_,
          .length = length(),
          .computed = computed_,
          .blocks = blocks_ ? static_cast<int>(blocks_->blocks().size()) : 0};
}

void Sequence::admit(BlockPool& blocks, SlotPool& slots) {
  WEFT_CHECK(stage_ == Stage::kQueued, "request {} is admitted twice", id_);
  tokens_.reserve(static_cast<size_t>(prompt_tokens_) + static_cast<size_t>(max_outputs_));
  blocks_.emplace(blocks);
  grow_to(length());
  SlotInit init{.sampling = request_.sampling,
                .seed = seed_,
                .choice = request_.choice,
                .prompt = tokens().first(static_cast<size_t>(prompt_tokens_)),
                .output = tokens().subspan(static_cast<size_t>(prompt_tokens_))};
  init.sampling.top_logprobs = std::max(init.sampling.top_logprobs, request_.prompt_logprobs);
  slot_.emplace(slots, init);
  stage_ = Stage::kPrefilling;
}

void Sequence::grow_to(int positions) {
  WEFT_CHECK(blocks_->grow_to(positions), "no blocks for {} positions of request {}", positions,
             id_);
}

void Sequence::advance(int rows) {
  computed_ += rows;
  WEFT_CHECK(computed_ <= length(), "request {} ran {} of {} positions", id_, computed_, length());
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

void Sequence::finish(FinishReason reason, std::string message) {
  WEFT_CHECK(!finished(), "request {} finishes twice", id_);
  release();
  stage_ = Stage::kFinished;
  EngineEvent event;
  event.kind = EngineEvent::Kind::kFinished;
  event.reason = reason;
  event.message = std::move(message);
  event.prompt_tokens = prompt_tokens_;
  event.output_tokens = output_tokens();
  if (Status status = deliver(std::move(event)); !status.ok()) {
    spdlog::warn("{}", status.error().message);
  }
  sink_.reset();
}

Status Sequence::deliver(EngineEvent event) {
  event.request = id_;
  try {
    sink_->on_event(std::move(event));
    return {};
  } catch (const std::exception& e) {
    return Error{ErrorKind::kIo, fmt::format("request {}: its receiver failed: {}", id_, e.what())};
  } catch (...) {
    return Error{ErrorKind::kIo, fmt::format("request {}: its receiver failed", id_)};
  }
}

void Sequence::release() {
  slot_.reset();
  blocks_.reset();
  computed_ = 0;
}

}  // namespace weft
