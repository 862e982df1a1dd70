#pragma once
// What a machine's quanta cost, before it has served any.

#include <functional>

#include "base/clock.h"
#include "device/executor.h"
#include "engine/cost_model.h"

namespace weft {

// Runs single layers of growing batches, a few rows far into the context, and whole steps of one
// and of several rows, on each group of the device: about a second, less for small models. Requires
// that no slot, block or pass is in use, and leaves none. progress(share done, 0 ... 1).
CostModel calibrate(Executor& executor, const std::function<void(double)>& progress = {});

}  // namespace weft
