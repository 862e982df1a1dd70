#pragma once
// QuantumTables: a quantum as the kernels read it: a descriptor and its tables in one piece of
// memory.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ascend/kernels/descriptor.h"
#include "device/executor.h"
#include "device/sampler.h"

namespace weft {

// A use of a board: what its counter stands at before the first layer is sent, and how many of the
// layers are, as far as completed quanta tell.
struct BoardUse {
  int64_t base = 0;
  int sent = 0;
};

// The parameters alone decide where a request's tokens are drawn, so that they never depend on its
// neighbours: on the device, or on the host from the logits, which knows all of them.
bool drawn_on_device(const SamplingParams& params);

// Filled by the engine thread before a quantum starts; keeps its memory.
class QuantumTables {
 public:
  // A row that reaches the head.
  struct Output {
    int pass = 0;  // index in the quantum
    int segment = 0;
    int segment_row = 0;
    SlotId slot = 0;
    int position = 0;
    TokenId target = kSample;
    bool on_device = false;  // drawn there
  };

  explicit QuantumTables(const ExecutorLimits& limits) : limits_(limits) {}

  // `slots`, `on_device` (whether a slot's last token is in the device's table) and `boards` by
  // their ids. Outputs take the head `head_rows` at once. Requires: all limits hold.
  struct Context {
    std::span<const SamplerState> slots;
    std::span<const uint8_t> token_on_device;
    std::span<const BoardUse> boards;
    int layers = 0;
    int vocab = 0;
    int head_rows = 0;
  };
  void fill(const Quantum& quantum, weft_ascend::TeamKind team, const Context& context);

  // Bytes of the whole, and the whole as it lies at a device's address.
  uint64_t bytes() const { return bytes_; }
  std::span<const std::byte> at(uint64_t address);
  // The head's next turn: a descriptor to put in place of the first one.
  int turns() const;
  weft_ascend::Descriptor turn(int turn) const;
  // Where the turns' results lie, from the beginning: one after the other.
  uint64_t results_offset() const { return results_; }
  // Bytes of partial results that attention needs.
  int64_t partial_bytes(int heads, int head_dim) const;

  int64_t rows() const { return static_cast<int64_t>(tokens_.size()); }
  std::span<const Output> outputs() const { return outputs_; }

 private:
  // Rows' places in their sequences and in the cache, and the segments that they form.
  struct Rows {
    void clear();
    void add(const Segment& segment, int first, int rows, int32_t table);
    // Prompts' segments first.
    std::vector<weft_ascend::AttentionSegment> segments() const;

    std::vector<int32_t> positions;
    std::vector<int32_t> places;
    std::vector<weft_ascend::AttentionSegment> prefill;
    std::vector<weft_ascend::AttentionSegment> decode;
  };

  void add_pass(const Pass& pass, const Quantum& quantum, const Context& context);
  void add_segment(const Segment& segment, const Context& context);
  void add_outputs(const Segment& segment, int pass, int index, int32_t first_row, int32_t table,
                   const Context& context);
  weft_ascend::SampleRow sample_row_of(const Output& output, const SamplerState& slot) const;
  void lay_out();
  uint64_t reserve(size_t bytes);

  ExecutorLimits limits_;
  weft_ascend::Descriptor descriptor_{};
  int head_rows_ = 0;
  Rows all_;
  Rows kept_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> block_table_;
  std::vector<int32_t> fresh_;
  std::vector<int32_t> output_rows_;
  std::vector<weft_ascend::PassEntry> passes_;
  std::vector<weft_ascend::SampleRow> samples_;
  std::vector<Output> outputs_;

  uint64_t address_ = 0;
  uint64_t bytes_ = 0;
  uint64_t results_ = 0;
  std::vector<std::byte> image_;
};

}  // namespace weft
