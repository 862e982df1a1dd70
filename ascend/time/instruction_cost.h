#pragma once
// What an instruction takes on its pipe, apart from copies from and to global memory, which share
// their way (memory_system.h).

#include "time/chip_model.h"
#include "twin.h"

namespace weft::timing {

// Cycles for which the pipe is taken.
double pipe_cycles(const ChipModel& model, const twin::Issued& issued);
// Further cycles until the result is there. The next instruction of the pipe does not wait for it,
// but for a barrier or flag between them.
double latency_cycles(const ChipModel& model, pipe_t pipe);

}  // namespace weft::timing
