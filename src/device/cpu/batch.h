#pragma once
// Batch: the rows of a quantum as flat tables, in the order of its passes and their segments.

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "device/executor.h"
#include "device/sampler.h"

namespace weft {

// Consecutive rows of one sequence, as attention sees them.
struct SequenceRows {
  const BlockId* blocks = nullptr;
  int first_position = 0;
  int rows = 0;
  int64_t first_row = 0;  // where its first query lies, and where the result goes
};

// Filled by the engine thread before a quantum starts, then read by all workers. Fills memory that
// it reserved when it was made.
class Batch {
 public:
  struct Row {
    TokenId token;
    int position;
    BlockId block;  // and offset in it: its place in the cache
    int offset;
  };
  // A row that reaches the head.
  struct Output {
    int64_t row;  // in the batch
    int pass;     // index in the quantum
    int segment;
    int segment_row;
    SlotId slot;
    int position;
    TokenId target;
  };

  explicit Batch(const ExecutorLimits& limits);

  // Tokens that are "the slot's last sample" are looked up in `slots`. A quantum that ends before
  // the last layer has no outputs.
  void fill(const Quantum& quantum, bool ends_at_head, std::span<const SamplerState> slots,
            int vocab);

  std::span<const Row> rows() const { return rows_; }
  std::span<const SequenceRows> sequences() const { return sequences_; }
  std::span<const Output> outputs() const { return outputs_; }
  // The sequences' rows among the outputs, numbered as those.
  std::span<const SequenceRows> output_sequences() const { return output_sequences_; }

 private:
  void add_segment(const Segment& segment, std::span<const SamplerState> slots, int vocab);
  void add_outputs(const Segment& segment, int pass, int index, int64_t first_row);

  ExecutorLimits limits_;
  std::vector<Row> rows_;
  std::vector<SequenceRows> sequences_;
  std::vector<Output> outputs_;
  std::vector<SequenceRows> output_sequences_;
};

}  // namespace weft
