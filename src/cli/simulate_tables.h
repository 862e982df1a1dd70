#pragma once
// The tables of `weft simulate` that are not about modes: constants, kernels, and how much a result
// hangs on a constant.

#include <string>

#include "cli/simulate_runs.h"

namespace weft {

std::string constants_text(const timing::ChipModel& chip, bool markdown);
std::string check_text(const timing::ChipModel& chip, const timing::ModelShape& shape,
                       bool markdown);
std::string kernels_text(const timing::ChipModel& chip, bool markdown);

// One request at a time, and eight in modes fused and split, with constants 20 % up and down:
// tokens a second and milliseconds to the first token.
Result<std::string> sensitivity_text(const timing::ChipModel& chip, const timing::ModelShape& shape,
                                     const SimulateOptions& options, SimulateProgress& progress);
// Of all runs of one chip and model.
uint64_t sensitivity_work(const SimulateOptions& options);

}  // namespace weft
