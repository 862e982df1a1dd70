#include "engine/open_pass.h"

#include <algorithm>

#include "base/check.h"

namespace weft {

void OpenPass::add_stream(Sequence& sequence) {
  Segment segment;
  segment.first_position = sequence.computed();
  segment.rows = 1;
  segment.row_class = RowClass::kDecode;
  segment.outputs = Outputs::kLast;
  add_segment(sequence, segment);
}

void OpenPass::add_rows(Sequence& sequence, int first, int rows) {
  const auto tokens_of = [&](int begin, int end) {
    return sequence.tokens().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  };
  const int end = first + rows;
  const int middle = std::clamp(sequence.prefill_class_end(), first, end);
  if (first < middle) {
    Segment segment;
    segment.first_position = first;
    segment.rows = middle - first;
    segment.row_class = RowClass::kPrefill;
    segment.tokens = tokens_of(first, middle);
    if (sequence.scores_prompt()) {
      segment.outputs = Outputs::kAll;
      segment.targets = tokens_of(first + 1, middle + 1);
    }
    add_segment(sequence, segment);
  }
  if (middle < end) {
    Segment segment;
    segment.first_position = middle;
    segment.rows = end - middle;
    segment.row_class = RowClass::kDecode;
    segment.tokens = tokens_of(middle, end);
    segment.outputs = end == sequence.length() ? Outputs::kLast : Outputs::kNone;
    add_segment(sequence, segment);
  }
}

void OpenPass::add_segment(Sequence& sequence, Segment segment) {
  segment.slot = sequence.slot();
  // All of them: a later row of the same pass may need more than this segment.
  segment.blocks = sequence.blocks();
  pass_.segments.push_back(segment);
  if (owners_.empty() || owners_.back() != &sequence) sequence.joined_pass();
  owners_.push_back(&sequence);
  count_work();
}

void OpenPass::count_work() {
  work_ = {};
  for (const Segment& segment : pass_.segments) {
    work_.add_segment(segment.first_position, segment.rows);
    if (segment.outputs == Outputs::kLast) ++work_.head_rows;
    if (segment.outputs == Outputs::kAll) work_.head_rows += segment.rows;
  }
}

int64_t OpenPass::padded_rows(int tile_rows) const {
  if (tile_rows == 1) return 0;
  int longest = 0;
  int prompts = 0;
  int rows = 0;
  for (size_t i = 0; i < owners_.size(); ++i) {
    const bool goes_on = i > 0 && owners_[i] == owners_[i - 1];
    prompts += goes_on ? 0 : 1;
    rows = pass_.segments[i].rows + (goes_on ? rows : 0);
    longest = std::max(longest, rows);
  }
  const int64_t tiles = (longest + tile_rows - 1) / tile_rows;
  return prompts * tiles * tile_rows - work_.rows;
}

void OpenPass::start(int layer_end, bool shared) {
  WEFT_CHECK(!running() && layer_end > next_layer_, "pass {} starts at layer {} of {}", pass_.id,
             next_layer_, layer_end);
  if (shared) shared_layers_ += layer_end - next_layer_;
  running_to_ = layer_end;
}

void OpenPass::end_quantum() {
  next_layer_ = running_to_;
  running_to_ = kNone;
}

void OpenPass::remove(const Sequence& sequence, Executor& executor) {
  WEFT_CHECK(!running(), "pass {} loses rows while it runs", pass_.id);
  int64_t row = 0;
  size_t kept = 0;
  for (size_t i = 0; i < owners_.size(); ++i) {
    const Segment segment = pass_.segments[i];
    if (owners_[i] == &sequence) {
      if (on_device(executor)) executor.drop_rows(pass_.id, row, segment.rows);
      continue;
    }
    row += segment.rows;
    pass_.segments[kept] = segment;
    owners_[kept++] = owners_[i];
  }
  pass_.segments.resize(kept);
  owners_.resize(kept);
  count_work();
}

PassTable::PassTable(int passes) : passes_(static_cast<size_t>(passes)) {
  for (size_t i = 0; i < passes_.size(); ++i) passes_[i].pass_.id = static_cast<PassId>(i);
  order_.reserve(passes_.size());
}

OpenPass& PassTable::open(PassKind kind) {
  const auto free = std::find_if(passes_.begin(), passes_.end(), [&](const OpenPass& pass) {
    return std::find(order_.begin(), order_.end(), &pass) == order_.end();
  });
  WEFT_CHECK(free != passes_.end(), "more than {} passes", passes_.size());
  free->kind_ = kind;
  free->pass_.segments.clear();
  free->pass_.sends = free->pass_.follows = kNoBoard;
  free->owners_.clear();
  free->work_ = {};
  free->next_layer_ = free->shared_layers_ = 0;
  free->leader_ = nullptr;
  order_.push_back(&*free);
  return *free;
}

void PassTable::tie(OpenPass& leader, OpenPass& follower) {
  // The follower outlives its leader: its id names their place on the board.
  leader.pass_.sends = follower.pass_.id;
  follower.pass_.follows = follower.pass_.id;
  follower.leader_ = &leader;
}

void PassTable::close(OpenPass& pass) {
  const Sequence* last = nullptr;
  for (Sequence* owner : pass.owners_) {
    if (owner != last) owner->left_pass();
    last = owner;
  }
  pass.owners_.clear();
  for (OpenPass* other : order_) {
    if (other->leader_ == &pass) other->leader_ = nullptr;
  }
  std::erase(order_, &pass);
}

}  // namespace weft
