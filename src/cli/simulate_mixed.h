#pragma once
// The workloads of `weft bench mixed` on a simulated chip, with its figures.

#include <span>
#include <vector>

#include "cli/mixed_report.h"
#include "cli/simulate_runs.h"

namespace weft {

// Its prompts are those of small models: a chip reads them as fast as a CPU reads theirs.
Result<std::vector<MixedPhase>> simulated_workload(const SimulateOptions& options);

// In each mode that was asked for. A mode that fails has its reason.
MixedResult play_workload(Simulation& simulation, std::span<const MixedPhase> phases,
                          const SimulateOptions& options, SimulateProgress& progress);
// The modes, without --mode: all, or with --quick three of them.
std::vector<Mode> workload_modes(const SimulateOptions& options);

}  // namespace weft
