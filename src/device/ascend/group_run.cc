#include "device/ascend/group_run.h"

#include <limits>
#include <utility>

namespace weft {

using weft_ascend::SampleResult;
using weft_ascend::TeamKind;

namespace {

constexpr int64_t kNotPublished = std::numeric_limits<int64_t>::max();

// The rings that a group's quanta go into.
std::span<const int> rings_of(Group group, bool split) {
  static constexpr std::array<int, 2> kBoth = {0, 1};
  if (!split || group == Group::kPrefill) return std::span(kBoth).first(1);
  return group == Group::kDecode ? std::span(kBoth).last(1) : std::span(kBoth);
}

}  // namespace

GroupRun::GroupRun(Group group, const ExecutorLimits& limits, const Parts& parts)
    : group_(group),
      parts_(parts),
      rings_(rings_of(group, parts.options.split())),
      head_rows_(limits.output_rows),
      tables_(limits),
      logits_(static_cast<size_t>(parts.config.vocab)) {}

Status GroupRun::prepare(const Quantum& quantum, std::span<const BoardUse> boards, TimePoint now) {
  state_ = State::kHeld;
  quantum_ = quantum;
  started_ = now;
  outputs_.clear();
  turn_ = 0;
  numbers_.fill(kNotPublished);
  failure_.reset();
  tables_.fill(quantum, static_cast<TeamKind>(group_),
               {.slots = parts_.samplers.slots(),
                .token_on_device = parts_.samplers.on_device(),
                .boards = boards,
                .layers = parts_.config.layers,
                .vocab = parts_.config.vocab,
                .head_rows = head_rows_});
  WEFT_RETURN_IF_ERROR(parts_.model.ensure_partials(
      workspace(), tables_.partial_bytes(parts_.config.heads, parts_.config.head_dim)));
  if (memory_.size() < tables_.bytes()) {
    WEFT_ASSIGN(memory_, DeviceMemory::allocate(2 * tables_.bytes(), "a quantum's tables"));
  }
  return memory_.write(0, tables_.at(memory_.address()));
}

Status GroupRun::publish(TimePoint now) {
  state_ = State::kLive;
  started_ = now;
  return enter_rings();
}

Status GroupRun::enter_rings() {
  numbers_.fill(kNotPublished);
  for (const int ring : rings_) {
    WEFT_ASSIGN(numbers_[static_cast<size_t>(ring)],
                parts_.resident.publish(ring, static_cast<TeamKind>(group_), memory_.address()));
  }
  return {};
}

bool GroupRun::reached() const {
  if (!live()) return state_ == State::kDone;
  for (const int ring : rings_) {
    if (parts_.resident.progress(ring).quanta < numbers_[static_cast<size_t>(ring)]) return false;
  }
  return true;
}

Result<bool> GroupRun::finish_turn() {
  const weft_ascend::Descriptor turn = tables_.turn(turn_);
  if (turn.head_rows > 0) WEFT_RETURN_IF_ERROR(draw(turn.head_begin, turn.head_rows));
  if (turn_ + 1 >= tables_.turns()) return true;
  if (state_ == State::kDone)
    return Error{ErrorKind::kIo, "the launch was lost before all rows had logits"};
  ++turn_;
  WEFT_RETURN_IF_ERROR(memory_.write_value(0, tables_.turn(turn_)));
  WEFT_RETURN_IF_ERROR(enter_rings());
  return false;
}

// Outputs [first, first + count), whose logits lie at the beginning of the group's.
Status GroupRun::draw(int first, int count) {
  outputs_.resize(static_cast<size_t>(first));  // after an error it comes here again
  results_.resize(static_cast<size_t>(count));
  WEFT_RETURN_IF_ERROR(
      memory_.read(tables_.results_offset() + static_cast<uint64_t>(first) * sizeof(SampleResult),
                   std::as_writable_bytes(std::span(results_))));
  const auto& on_logits = parts_.options.on_logits;
  for (int i = 0; i < count; ++i) {
    const QuantumTables::Output& output =
        tables_.outputs()[static_cast<size_t>(first) + static_cast<size_t>(i)];
    if (!output.on_device || on_logits) {
      WEFT_RETURN_IF_ERROR(parts_.model.read_logits(workspace(), i, logits_));
    }
    if (on_logits) on_logits(first + i, logits_);
    OutputRow row;
    if (output.on_device) {
      const SampleResult& result = results_[static_cast<size_t>(i)];
      row.token = result.token;
      row.finite = result.finite != 0;
    } else {
      row = parts_.samplers.draw(output, logits_);
    }
    row.pass = quantum_.passes[static_cast<size_t>(output.pass)]->id;
    row.segment = output.segment;
    row.row = output.segment_row;
    outputs_.push_back(std::move(row));
  }
  return {};
}

void GroupRun::lose(const std::string& cause) {
  if (state_ == State::kFree || state_ == State::kFailed) return;
  const bool in_time = live() && reached();
  state_ = in_time ? State::kDone : State::kFailed;
  if (!in_time) failure_ = cause;
}

void GroupRun::cancel() { (void)memory_.write_value(0, int32_t{0}); }

void GroupRun::end(std::vector<OutputRow>& outputs) {
  outputs.clear();
  if (!failure_) {
    parts_.samplers.accept(tables_.outputs(), outputs_);
    std::swap(outputs, outputs_);
  }
  state_ = State::kFree;
}

}  // namespace weft
