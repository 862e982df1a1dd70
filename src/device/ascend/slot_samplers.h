#pragma once
// SlotSamplers: what the slots' sequences have drawn, and the drawing of rows whose logits came to
// the host.

#include <cstdint>
#include <span>
#include <vector>

#include "device/ascend/quantum_tables.h"
#include "device/executor.h"
#include "device/sampler.h"
#include "kernels/kernel_table.h"

namespace weft {

// The engine thread's.
class SlotSamplers {
 public:
  SlotSamplers(const KernelTable& kernels, const ExecutorLimits& limits, int vocab)
      : kernels_(kernels),
        context_(limits.context),
        vocab_(vocab),
        slots_(static_cast<size_t>(limits.slots)),
        on_device_(slots_.size()),
        scratch_(vocab) {}

  void open(SlotId slot, const SlotInit& init);
  std::span<const SamplerState> slots() const { return slots_; }
  // By slot: its last token is in the device's table.
  std::span<const uint8_t> on_device() const { return on_device_; }

  // The token, or what is asked of the target's logits [vocab].
  OutputRow draw(const QuantumTables::Output& output, std::span<const float> logits);
  // The rows of a quantum that is done, in the order of `outputs`.
  void accept(std::span<const QuantumTables::Output> outputs, std::span<const OutputRow> rows);

 private:
  const KernelTable& kernels_;
  const int context_;
  const int vocab_;
  std::vector<SamplerState> slots_;
  std::vector<uint8_t> on_device_;
  SamplerScratch scratch_;
};

}  // namespace weft
