#pragma once
// Simulation: the engine on a simulated chip, one workload in one mode.

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/mixed_figures.h"
#include "cli/mixed_workload.h"
#include "engine/mode.h"
#include "time/simulated_executor.h"

namespace weft {

constexpr int kMostSimulatedSequences = 256;  // at once

// What a run depends on beside chip and model.
struct SimulationSettings {
  Mode mode = Mode::kFused;
  int decode_cores = 0;   // of split and auto; 0: half of all
  double itl_target = 0;  // milliseconds; 0: the engine finds one
  int pass_rows = 4096;
  int chunk_rows = 512;
  timing::Launches launches = timing::Launches::kEpoch;
};

struct SimulationResult {
  SimulationSettings settings;
  int in_flight = 0;  // of the first phase
  std::string chip, model;
  MixedFigures figures;  // of all phases
  std::vector<PhaseRecord> records;
  ExecutorLimits limits;
  timing::OperatorTime operators;  // all that ran
  double flops = 0;                // that the model asks for
  double wall = 0;
  double peak_flops = 0;
  double hbm_bandwidth = 0;
  int cores = 0;
  std::vector<timing::StepSpan> steps;  // where they were asked for

  // Shares of the wall.
  double pipe(pipe_t pipe) const;
  double hbm() const { return operators.hbm_bytes / (wall * hbm_bandwidth); }
  double compute() const { return flops / (wall * peak_flops); }
};

// What is wanted of a run beside its figures.
struct SimulationExtras {
  std::function<void(uint64_t)> on_work;  // see MixedRun
  bool keep_steps = false;
  std::filesystem::path trace;  // of its quanta; empty: none
};

// One chip with one model: keeps what operators take.
class Simulation {
 public:
  Simulation(const timing::ChipModel& chip, const timing::ModelShape& shape);

  // Plays the phases one after another. An error where the model does not fit into the chip's
  // memory, or the decode cores leave none.
  Result<SimulationResult> run(std::span<const MixedPhase> phases,
                               const SimulationSettings& settings,
                               const SimulationExtras& extras = {});

  const timing::ChipModel& chip() const { return chip_; }
  const timing::ModelShape& shape() const { return shape_; }

 private:
  timing::OperatorTimes& times(int cores);
  // KV blocks that fit beside the weights.
  int blocks() const;
  const timing::FixedCosts& fixed();
  // An error where the longest sequence does not fit.
  Result<ExecutorLimits> limits_of(std::span<const MixedPhase> phases, int pass_rows,
                                   bool groups) const;

  const timing::ChipModel chip_;
  const timing::ModelShape shape_;
  std::map<int, std::unique_ptr<timing::OperatorTimes>> times_;  // by cores
  std::optional<timing::FixedCosts> fixed_;
};

}  // namespace weft
