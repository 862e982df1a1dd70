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
};

// A matrix of halves times another, and attention of one head of 128 over as many keys as there are
// rows, all of which every row sees.
KernelBar time_matmul(const ChipModel& model, int rows, int inputs, int outputs);
KernelBar time_attention(const ChipModel& model, int rows);
std::vector<KernelBar> kernel_bars(const ChipModel& model);

}  // namespace weft::timing
