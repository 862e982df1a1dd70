#pragma once
// Runs of `weft simulate`: what the flags ask for, and how far they have come.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "cli/simulate.h"
#include "cli/simulate_report.h"

namespace weft {

// What is simulated. An error names the flag.
struct SimulateSubjects {
  std::vector<timing::ChipModel> chips;
  std::vector<timing::ModelShape> shapes;
  size_t size() const { return chips.size() * shapes.size(); }
};
Result<SimulateSubjects> find_subjects(const SimulateOptions& options);

MixedPhase closed_loop(const SimulateOptions& options, int in_flight);
SimulationSettings settings_of(const SimulateOptions& options, Mode mode);
// Ascending, or `otherwise` where the flag was not given.
std::vector<int> in_flight_of(const SimulateOptions& options, std::vector<int> otherwise);
// An error where --in-flight has several.
Status need_one_number(const SimulateOptions& options, const char* what);
// Mode serial first, or all where the flag was not given.
std::vector<Mode> modes_of(const SimulateOptions& options);

// Says on standard error which run it is, and how much of all work is done; knows whether runs had
// figures.
class SimulateProgress {
 public:
  explicit SimulateProgress(uint64_t work) : bar_("simulating", work, ProgressUnit::kItems) {}
  void begin(const Simulation& simulation, const std::string& what);
  void add(uint64_t work) { bar_.update(done_ += work); }
  // What comes to standard output has the terminal.
  void clear() { bar_.clear(); }
  void ended(const SimulateRow& row);
  // Where no run had figures, the error of the first.
  Status outcome() const;

 private:
  ProgressBar bar_;
  uint64_t done_ = 0;
  bool any_ = false;
  std::optional<Error> failure_;
};

// A run's figures, or the reason why there are none.
SimulateRow play(Simulation& simulation, std::span<const MixedPhase> phases,
                 const SimulationSettings& settings, SimulateProgress& progress,
                 SimulationExtras extras = {});
SimulateRow play(Simulation& simulation, const SimulateOptions& options, int in_flight,
                 const SimulationSettings& settings, SimulateProgress& progress,
                 SimulationExtras extras = {});

}  // namespace weft
