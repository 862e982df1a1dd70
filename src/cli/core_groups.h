#pragma once
// How the cores of modes split and auto are shared out where the command line does not say it.

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/result.h"
#include "kernels/kernel_table.h"

namespace weft {

// What some cores read from memory together, bytes per second.
struct ReadRate {
  int cores = 0;
  double bytes = 0;
};

// Streams' steps are bound by reading the weights, so the decode group gets the fewest of these
// cores that read them within `step`; where none do, the fewest that are nearly as fast as the
// fastest. Requires rates, of ascending cores.
int choose_decode_cores(std::span<const ReadRate> rates, uint64_t weight_bytes, Duration step);

// The same by a look at this machine, for a few tenths of a second, with threads of its own:
// nothing else may run. From 1 to threads - 1. Requires at least two threads.
Result<int> measure_decode_cores(const KernelTable& kernels, int threads, uint64_t weight_bytes,
                                 Duration step);

}  // namespace weft
