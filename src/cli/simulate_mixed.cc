#include "cli/simulate_mixed.h"

#include <fmt/format.h>

#include <utility>

namespace weft {
namespace {

// What goodput asks, in seconds, where no flag does.
constexpr double kGap = 0.05;
constexpr double kFirstToken = 2;

MixedResult describe(const Simulation& simulation, const SimulateOptions& options) {
  MixedResult result;
  result.model = simulation.shape().name;
  result.cpu = simulation.chip().name;
  result.executor = fmt::format("{:.0f} cores, simulated", simulation.chip().cores);
  result.workload = kWorkloadNames[static_cast<size_t>(options.workload.kind)];
  if (options.workload.quick) result.workload += " (quick)";
  result.transport = "in simulated time";
  result.seed = options.workload.seed;
  result.targets = {.itl = options.itl_target > 0 ? options.itl_target / 1e3 : kGap,
                    .ttft = kFirstToken};
  return result;
}

}  // namespace

Result<std::vector<MixedPhase>> simulated_workload(const SimulateOptions& options) {
  WorkloadOptions workload = options.workload;
  WEFT_RETURN_IF_ERROR(need_one_number(options, "a workload"));
  if (!options.in_flight.empty()) workload.in_flight = options.in_flight.front();
  WEFT_ASSIGN(std::vector<MixedPhase> phases,
              make_workload(complete_workload(std::move(workload), false)));
  WEFT_RETURN_IF_ERROR(sequences_of(phases, kMostSimulatedSequences));
  return phases;
}

std::vector<Mode> workload_modes(const SimulateOptions& options) {
  if (options.modes.empty() && options.workload.quick)
    return {Mode::kSerial, Mode::kFused, Mode::kSplit};
  return modes_of(options);
}

MixedResult play_workload(Simulation& simulation, std::span<const MixedPhase> phases,
                          const SimulateOptions& options, SimulateProgress& progress) {
  MixedResult result = describe(simulation, options);
  for (const Mode mode : workload_modes(options)) {
    SimulateRow row = play(simulation, phases, settings_of(options, mode), progress);
    MixedSubject& subject = result.subjects.emplace_back();
    subject.name = setup_text(row.result.settings, static_cast<int>(simulation.chip().cores));
    subject.error = row.note;
    if (!row.note.empty()) continue;
    result.context = row.result.limits.context;
    result.sequences = row.result.limits.slots;
    result.kv_positions = row.result.limits.blocks * kBlockPositions;
    subject.repeats.push_back(std::move(row.result.records));
  }
  return result;
}

}  // namespace weft
