#pragma once
// Sequence: one request on its way through the engine.
//
//   queued -> prefilling -> decoding -> finished        every stage may go to finished
//     ^            |            |
//     +-- preempt -+------------+                       the tokens stay, blocks and slot go
//
// Blocks and slot are held from admission until preemption or the end, and by nothing else than
// this object.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cache/block_pool.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/slot_pool.h"

namespace weft {

// When a request passed which point; what the metrics need.
struct RequestTimes {
  TimePoint arrival{};
  std::optional<TimePoint> admitted;  // the first time
  std::optional<TimePoint> first_token;
  TimePoint last_token{};
  // Of streams: the gap between tokens while no prompt runs, and how many prompt quanta had run at
  // the last token.
  std::optional<Duration> own_gap;
  uint64_t prompt_quanta = 0;
};

// Made by any thread, then owned and used by the engine thread.
class Sequence {
 public:
  // The request has passed check_request for this context.
  Sequence(RequestId id, Request request, uint64_t seed, int context,
           std::shared_ptr<EventSink> sink, TimePoint arrival);

  RequestId id() const { return id_; }
  const Request& request() const { return request_; }
  Stage stage() const { return stage_; }
  bool finished() const { return stage_ == Stage::kFinished; }
  RequestTimes& times() { return times_; }
  // Its own limits where it has them, else these.
  void set_defaults(const RequestLimits& defaults);
  const RequestLimits& limits() const { return limits_; }

  // Prompt and outputs.
  std::span<const TokenId> tokens() const { return tokens_; }
  int prompt_tokens() const { return prompt_tokens_; }
  int output_tokens() const { return static_cast<int>(tokens_.size()) - prompt_tokens_; }
  bool generates() const { return max_outputs_ > 0; }
  // No further output is allowed: max_tokens are out or the context is full.
  bool full() const { return output_tokens() >= max_outputs_; }

  // Positions that have to run before the next sample. Without generation the last prompt token
  // need not run.
  int length() const { return static_cast<int>(tokens_.size()) - (generates() ? 0 : 1); }
  int computed() const { return computed_; }
  // Rows below it are prefill class, also when they run again: the prompt but its last token.
  int prefill_class_end() const { return prompt_tokens_ - 1; }
  // Prompt rows have to report logprobs; once they are out they never have to again.
  bool scores_prompt() const {
    return request_.prompt_logprobs >= 0 && prompt_rows_out_ < prefill_class_end();
  }
  // The row at `position` reports a logprob that was not delivered before.
  bool scores(int position) const { return scores_prompt() && position >= prompt_rows_out_; }

  // As a policy sees it. `aim`: the share of the token-gap target that steps are planned for.
  SequenceState state(TimePoint now, double aim, const BlockPool& blocks);
  SlotId slot() const { return slot_->id(); }
  const std::vector<BlockId>& blocks() const { return blocks_->blocks(); }

  // The deadline that has passed, if one has.
  std::optional<Deadline> missed(TimePoint now) const;

  // queued -> prefilling. Requires a free slot and blocks for length(). What the prefix cache holds
  // of it counts as computed: their number.
  int admit(BlockPool& blocks, SlotPool& slots);
  // Requires a free block where the next position needs one.
  void grow_to(int positions);
  // Keys and values of the next `rows` positions are stored; full blocks become findable.
  void advance(int rows);
  // prefilling or decoding -> decoding: `token` follows the last position.
  void append(TokenId token);
  // The logprob that the row at `position` reported is on its way: in order, each once.
  void prompt_row_delivered(int position);
  // prefilling or decoding -> queued. Requires: in no pass.
  void preempt();
  // Any stage -> finished; releases everything and ends the events with kFinished. Requires: not
  // finished, and in no pass.
  void finish(FinishReason reason, std::string message, Deadline deadline);

  // Passes that have rows of it, and unfinished quanta of these.
  void joined_pass() { ++passes_; }
  void left_pass() { --passes_; }
  bool in_pass() const { return passes_ > 0; }
  void quantum_started() { ++quanta_; }
  void quantum_ended() { --quanta_; }
  bool in_quantum() const { return quanta_ > 0; }
  // An end that has to wait for the unfinished quanta. The first one counts.
  struct End {
    FinishReason reason = FinishReason::kCancelled;
    std::string message = {};
    Deadline deadline = Deadline::kRequest;
  };
  void end_later(End end) {
    if (!pending_end_) pending_end_ = std::move(end);
  }
  const std::optional<End>& pending_end() const { return pending_end_; }
  bool ending() const { return finished() || pending_end_.has_value(); }

  int passed_over = 0;  // see SequenceState
  int index = 0;        // in the SchedulerState made last

  // Events wait here until they are delivered, in order. An error if the sink threw: the request
  // has to end, and hears no more but kFinished.
  void push(EngineEvent event);
  bool has_events() const { return !events_.empty(); }
  Status deliver();

 private:
  void release();
  int cacheable_blocks() const;

  RequestId id_;
  Request request_;
  uint64_t seed_;
  std::shared_ptr<EventSink> sink_;
  std::vector<TokenId> tokens_;
  int prompt_tokens_;
  int max_outputs_;
  Stage stage_ = Stage::kQueued;
  int computed_ = 0;
  int cached_tokens_ = 0;    // of the prompt, at the first admission
  int prompt_rows_out_ = 0;  // prompt rows whose logprob was delivered
  std::optional<BlockTable> blocks_;
  std::optional<SlotLease> slot_;
  RequestTimes times_;
  RequestLimits limits_;
  int passes_ = 0;
  int quanta_ = 0;
  std::optional<End> pending_end_;
  std::vector<EngineEvent> events_;

  // What the prefix cache had while the pool's generation was this one.
  PrefixMatch match_;
  std::optional<uint64_t> match_generation_;
};

}  // namespace weft
