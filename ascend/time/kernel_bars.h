#pragma once
// Single kernels against the chip's limits and against what others report of theirs.

#include <string>
#include <vector>

#include "time/chip_model.h"

namespace weft::timing {

struct KernelBar {
  std::string name;
  double seconds = 0;
  double bound = 0;     // max(FLOP / peak, bytes / bandwidth)
  double reported = 0;  // of another kernel on a 910B2; 0: none
  // Shares of the time in which pipes are busy, on the average of their cores.
  double cube = 0, mte1 = 0, mte2 = 0, fixpipe = 0;  // of the cube cores
  double vector = 0;
};

// A matrix of halves times another, of halves or of int8 with scales.
KernelBar time_matmul(const ChipModel& model, int rows, int inputs, int outputs, bool int8 = false);
// Of one head of 128 over as many keys as there are rows, all of which every row sees.
KernelBar time_attention(const ChipModel& model, int rows);
// Of one row over so many keys, 32 heads of 128 each with keys of its own; with the barrier of all
// cores that ends each of its two operators.
KernelBar time_stream_attention(const ChipModel& model, int keys);
// Of all cores.
KernelBar time_barrier(const ChipModel& model);
std::vector<KernelBar> kernel_bars(const ChipModel& model);

}  // namespace weft::timing
