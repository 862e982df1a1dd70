#pragma once
// The executor on an Ascend NPU through AscendCL, or on the twin that stands for one. Never yet run
// on a card.

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "device/ascend/ascend_options.h"
#include "device/executor.h"
#include "model/model.h"

namespace weft {

// Bytes of the weights; errors as make_ascend_executor's.
Result<uint64_t> ascend_weight_bytes(const Model& model, AscendWeights weights);

// Converts the weights and allocates what every step needs. progress(share done, 0 ... 1) is called
// from this thread. Model and checkpoint must outlive the executor only as far as Model's config
// goes.
Result<std::unique_ptr<Executor>> make_ascend_executor(
    const Model& model, const Checkpoint& checkpoint, const AscendOptions& options,
    const std::function<void(double)>& progress = {});

}  // namespace weft
