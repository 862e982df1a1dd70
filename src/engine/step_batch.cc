#include "engine/step_batch.h"

#include <algorithm>

namespace weft {

void StepBatch::clear() {
  for (OpenPass& open : passes_) {
    open.pass.segments.clear();
    open.owners.clear();
  }
  members_.clear();
}

void StepBatch::add_decode(Sequence& sequence) {
  Segment segment;
  segment.first_position = sequence.computed();
  segment.rows = 1;
  segment.row_class = RowClass::kDecode;
  segment.outputs = Outputs::kLast;
  add_segment(kDecodePass, sequence, segment);
  members_.push_back({&sequence, 1});
}

void StepBatch::add_chunk(Sequence& sequence, int first, int rows) {
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
    add_segment(kPrefillPass, sequence, segment);
  }
  if (middle < end) {
    Segment segment;
    segment.first_position = middle;
    segment.rows = end - middle;
    segment.row_class = RowClass::kDecode;
    segment.tokens = tokens_of(middle, end);
    segment.outputs = end == sequence.length() ? Outputs::kLast : Outputs::kNone;
    add_segment(kPrefillPass, sequence, segment);
  }
  members_.push_back({&sequence, rows});
}

void StepBatch::add_segment(PassId pass, Sequence& sequence, Segment segment) {
  segment.slot = sequence.slot();
  // All of them: a later row of the same pass may need more than this segment.
  segment.blocks = sequence.blocks();
  OpenPass& open = passes_[static_cast<size_t>(pass)];
  open.pass.id = pass;
  open.pass.segments.push_back(segment);
  open.owners.push_back(&sequence);
}

const Quantum& StepBatch::quantum(uint64_t id, int layer_begin, int layer_end) {
  quantum_.id = id;
  quantum_.passes.clear();
  for (const OpenPass& open : passes_) {
    if (!open.owners.empty()) quantum_.passes.push_back(&open.pass);
  }
  quantum_.layer_begin = layer_begin;
  quantum_.layer_end = layer_end;
  return quantum_;
}

Sequence& StepBatch::sequence(const OutputRow& row) const {
  return *passes_.at(static_cast<size_t>(row.pass)).owners.at(static_cast<size_t>(row.segment));
}

const Segment& StepBatch::segment(const OutputRow& row) const {
  return passes_.at(static_cast<size_t>(row.pass))
      .pass.segments.at(static_cast<size_t>(row.segment));
}

int StepBatch::rows() const {
  int n = 0;
  for (const Member& member : members_) n += member.rows;
  return n;
}

}  // namespace weft
