#include "cli/simulate_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/simulated_shape.h"

namespace weft {
namespace {

Error about(const char* flag, const Error& error) {
  return {error.kind, fmt::format("{}: {}", flag, error.message)};
}

Result<timing::ChipModel> find_chip(const SimulateOptions& options, const std::string& name) {
  auto found = timing::find_chip_model(name);
  if (!found.ok()) return about("--device", found.error());
  timing::ChipModel chip = std::move(found).value();
  for (const std::string& text : options.changes) {
    if (const Status status = timing::change(chip, text); !status.ok())
      return about("--set", status.error());
  }
  if (options.decode_cores >= chip.cores) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("--decode-cores {}: {} has {} cores, and prompts need at least one",
                             options.decode_cores, name, chip.cores)};
  }
  return chip;
}

void add_new(std::vector<std::string>& list, const std::string& name) {
  if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
}

// Each once, with all presets in the place of "all".
std::vector<std::string> device_names(const std::vector<std::string>& asked) {
  std::vector<std::string> names;
  for (const std::string& name : asked) {
    if (name != "all") {
      add_new(names, name);
      continue;
    }
    for (const auto& preset : timing::kPresets) add_new(names, std::string(preset));
  }
  return names;
}

}  // namespace

Result<SimulateSubjects> find_subjects(const SimulateOptions& options) {
  SimulateSubjects subjects;
  for (const std::string& name : device_names(options.devices)) {
    WEFT_ASSIGN(subjects.chips.emplace_back(), find_chip(options, name));
  }
  std::vector<std::string> models;
  for (const std::string& name : options.models) add_new(models, name);
  for (const std::string& name : models) {
    auto shape = find_model_shape(name);
    if (!shape.ok()) return about("--model", shape.error());
    subjects.shapes.push_back(std::move(shape).value());
    if (!options.int8) continue;
    subjects.shapes.back().int8 = true;
    subjects.shapes.back().name += ", int8";
  }
  return subjects;
}

MixedPhase closed_loop(const SimulateOptions& options, int in_flight) {
  MixedPhase phase;
  phase.name = "closed";
  phase.in_flight = in_flight;
  const int requests = std::max(2, options.rounds * in_flight);
  phase.requests.assign(static_cast<size_t>(requests), {{}, options.context, options.output});
  return phase;
}

SimulationSettings settings_of(const SimulateOptions& options, Mode mode) {
  SimulationSettings settings;
  settings.mode = mode;
  settings.decode_cores = options.decode_cores;
  settings.itl_target = options.itl_target;
  settings.pass_rows = options.pass_rows;
  settings.chunk_rows = options.chunk_rows;
  settings.launches = options.launch_layers ? timing::Launches::kLayer : timing::Launches::kEpoch;
  return settings;
}

std::vector<int> in_flight_of(const SimulateOptions& options, std::vector<int> otherwise) {
  std::vector<int> numbers = options.in_flight.empty() ? std::move(otherwise) : options.in_flight;
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

Status need_one_number(const SimulateOptions& options, const char* what) {
  if (options.in_flight.size() <= 1) return {};
  return Error{ErrorKind::kInvalidArgument, fmt::format("--in-flight {}: {} takes one number",
                                                        fmt::join(options.in_flight, ","), what)};
}

std::vector<Mode> modes_of(const SimulateOptions& options) {
  std::vector<Mode> modes = options.modes;
  if (modes.empty()) {
    for (const std::string_view name : kModeNames) modes.push_back(*find_mode(name));
  }
  // Serial first: the others are held against it.
  const auto serial = std::find(modes.begin(), modes.end(), Mode::kSerial);
  if (serial != modes.end()) std::rotate(modes.begin(), serial, serial + 1);
  return modes;
}

void SimulateProgress::begin(const Simulation& simulation, const std::string& what) {
  bar_.relabel(fmt::format("{}, {}: {}", simulation.chip().name, simulation.shape().name, what));
  bar_.update(done_);
}

void SimulateProgress::ended(const SimulateRow& row) {
  if (row.note.empty()) any_ = true;
  if (!row.note.empty() && !failure_) failure_ = Error{row.kind, row.note};
}

Status SimulateProgress::outcome() const {
  if (any_ || !failure_) return {};
  return *failure_;
}

SimulateRow play(Simulation& simulation, std::span<const MixedPhase> phases,
                 const SimulationSettings& settings, SimulateProgress& progress,
                 SimulationExtras extras) {
  SimulateRow row;
  row.result.chip = simulation.chip().name;
  row.result.model = simulation.shape().name;
  row.result.in_flight = phases.front().in_flight;
  row.result.settings = settings;
  const auto cores = static_cast<int>(simulation.chip().cores);
  const std::string setup = setup_text(settings, cores);
  progress.begin(simulation, phases.front().in_flight > 0
                                 ? fmt::format("{} in flight, {}", phases.front().in_flight, setup)
                                 : setup);
  uint64_t left = work_of(phases);
  extras.on_work = [&](uint64_t work) {
    left -= std::min(left, work);
    progress.add(work);
  };
  Result<SimulationResult> result = simulation.run(phases, settings, extras);
  progress.add(left);
  if (result.ok()) {
    row.result = std::move(result).value();
  } else {
    row.note = result.error().message;
    row.kind = result.error().kind;
  }
  progress.ended(row);
  return row;
}

SimulateRow play(Simulation& simulation, const SimulateOptions& options, int in_flight,
                 const SimulationSettings& settings, SimulateProgress& progress,
                 SimulationExtras extras) {
  const MixedPhase phase = closed_loop(options, in_flight);
  return play(simulation, std::span(&phase, 1), settings, progress, std::move(extras));
}

}  // namespace weft
