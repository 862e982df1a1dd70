#pragma once
// What a chip's cores run over time, as a picture: the same load in several modes, one below the
// other, on one axis.

#include <span>
#include <string>

#include "cli/simulate_report.h"

namespace weft {

// Of running streams to which a prompt comes. The output is as long as the picture needs.
MixedPhase timeline_phase(int streams, int prompt, int output);

// Of runs of that phase with their steps; runs that failed are left out.
std::string simulate_timeline(std::span<const SimulateRow> rows);

}  // namespace weft
