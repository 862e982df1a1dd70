#pragma once
// The roofline of a loaded model on this machine.

#include "base/result.h"
#include "cli/load_model.h"
#include "engine/roofline.h"

namespace weft {

// Looks at the machine's limits for a few tenths of a second, with threads of its own: nothing else
// may run. An error if the memory to read is not there.
Result<Roofline> measure_roofline(const LoadedModel& model);

}  // namespace weft
