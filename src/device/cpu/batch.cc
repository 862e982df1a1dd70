#include "device/cpu/batch.h"

#include "base/check.h"

namespace weft {

Batch::Batch(const ExecutorLimits& limits) : limits_(limits) {
  const auto rows = static_cast<size_t>(limits.rows);
  rows_.reserve(rows);
  sequences_.reserve(rows);
  outputs_.reserve(rows);
  output_sequences_.reserve(rows);
}

void Batch::fill(const Quantum& quantum, bool ends_at_head, std::span<const SamplerState> slots,
                 int vocab) {
  rows_.clear();
  sequences_.clear();
  outputs_.clear();
  output_sequences_.clear();
  for (size_t p = 0; p < quantum.passes.size(); ++p) {
    const std::vector<Segment>& segments = quantum.passes[p]->segments;
    for (size_t s = 0; s < segments.size(); ++s) {
      const auto first_row = static_cast<int64_t>(rows_.size());
      add_segment(segments[s], slots, vocab);
      if (ends_at_head) {
        add_outputs(segments[s], static_cast<int>(p), static_cast<int>(s), first_row);
      }
    }
  }
}

void Batch::add_segment(const Segment& segment, std::span<const SamplerState> slots, int vocab) {
  const int end = segment.first_position + segment.rows;
  const bool last_sample = segment.tokens.empty();
  WEFT_CHECK(segment.rows > 0 && segment.first_position >= 0 && end <= limits_.context,
             "positions {} to {}", segment.first_position, end);
  WEFT_CHECK(static_cast<int64_t>(rows_.size()) + segment.rows <= limits_.rows,
             "more than {} rows in a quantum", limits_.rows);
  WEFT_CHECK(segment.slot >= 0 && segment.slot < limits_.slots, "slot {}", segment.slot);
  WEFT_CHECK(last_sample ? segment.rows == 1
                         : segment.tokens.size() == static_cast<size_t>(segment.rows));
  WEFT_CHECK(segment.blocks.size() * kBlockPositions >= static_cast<size_t>(end),
             "{} blocks for {} positions", segment.blocks.size(), end);
  sequences_.push_back({segment.blocks.data(), segment.first_position, segment.rows,
                        static_cast<int64_t>(rows_.size())});
  for (int r = 0; r < segment.rows; ++r) {
    const int position = segment.first_position + r;
    const TokenId token = last_sample ? slots[static_cast<size_t>(segment.slot)].last()
                                      : segment.tokens[static_cast<size_t>(r)];
    const BlockId block = segment.blocks[static_cast<size_t>(position / kBlockPositions)];
    WEFT_CHECK(token >= 0 && token < vocab, "token {} of {}", token, vocab);
    WEFT_CHECK(block >= 0 && block < limits_.blocks, "block {}", block);
    rows_.push_back({token, position, block, position % kBlockPositions});
  }
}

void Batch::add_outputs(const Segment& segment, int pass, int index, int64_t first_row) {
  if (segment.outputs == Outputs::kNone) return;
  const bool all = segment.outputs == Outputs::kAll;
  WEFT_CHECK(segment.targets.size() == (all ? static_cast<size_t>(segment.rows) : 0));
  const int first = all ? 0 : segment.rows - 1;
  const auto place = static_cast<int64_t>(outputs_.size());
  output_sequences_.push_back(
      {segment.blocks.data(), segment.first_position + first, segment.rows - first, place});
  for (int r = first; r < segment.rows; ++r) {
    const TokenId target = all ? segment.targets[static_cast<size_t>(r)] : kSample;
    outputs_.push_back(
        {first_row + r, pass, index, r, segment.slot, segment.first_position + r, target});
  }
}

}  // namespace weft
