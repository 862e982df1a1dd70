#include "device/ascend/slot_samplers.h"

#include "base/check.h"

namespace weft {

void SlotSamplers::open(SlotId slot, const SlotInit& init) {
  WEFT_CHECK(slot >= 0 && static_cast<size_t>(slot) < slots_.size(), "slot {}", slot);
  slots_[static_cast<size_t>(slot)].open(init, vocab_, context_);
  on_device_[static_cast<size_t>(slot)] = 0;
}

OutputRow SlotSamplers::draw(const QuantumTables::Output& output, std::span<const float> logits) {
  const Sample sample = sample_row(kernels_, logits, slots_[static_cast<size_t>(output.slot)],
                                   output.position, output.target, scratch_);
  OutputRow row;
  row.token = sample.token;
  row.finite = sample.finite;
  row.logprob = sample.logprob;
  row.log_sum_exp = sample.log_sum_exp;
  row.top.assign(sample.top.begin(), sample.top.begin() + sample.top_count);
  return row;
}

void SlotSamplers::accept(std::span<const QuantumTables::Output> outputs,
                          std::span<const OutputRow> rows) {
  WEFT_CHECK(outputs.size() == rows.size(), "{} rows of {}", rows.size(), outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].target != kSample || !rows[i].finite) continue;
    const auto slot = static_cast<size_t>(outputs[i].slot);
    slots_[slot].accept(rows[i].token);
    on_device_[slot] = outputs[i].on_device ? 1 : 0;
  }
}

}  // namespace weft
