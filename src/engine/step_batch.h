#pragma once
// StepBatch: the passes of one quantum, and which sequence stands behind each of their segments.

#include <cstdint>
#include <vector>

#include "device/executor.h"
#include "engine/sequence.h"

namespace weft {

// Storage is used again from step to step, so a steady decode step allocates nothing here. Spans in
// the segments point into the sequences, which must not change between start and completion.
class StepBatch {
 public:
  // The device knows the decode pass and the prefill pass by these.
  static constexpr PassId kDecodePass = 0;
  static constexpr PassId kPrefillPass = 1;
  static constexpr int kPasses = 2;

  void clear();
  // The row of the token that the device sampled last for this sequence.
  void add_decode(Sequence& sequence);
  // Rows [first, first + rows) of the tokens known so far.
  void add_chunk(Sequence& sequence, int first, int rows);

  // Valid until the next call of anything here.
  const Quantum& quantum(uint64_t id, int layer_begin, int layer_end);

  struct Member {
    Sequence* sequence = nullptr;
    int rows = 0;
  };
  // One for each call of add_decode and add_chunk, in that order.
  const std::vector<Member>& members() const { return members_; }
  Sequence& sequence(const OutputRow& row) const;
  const Segment& segment(const OutputRow& row) const;
  int rows() const;

 private:
  struct OpenPass {
    Pass pass;
    std::vector<Sequence*> owners;  // of each segment
  };
  void add_segment(PassId pass, Sequence& sequence, Segment segment);

  std::vector<OpenPass> passes_ = std::vector<OpenPass>(kPasses);
  std::vector<Member> members_;
  Quantum quantum_;
};

}  // namespace weft
