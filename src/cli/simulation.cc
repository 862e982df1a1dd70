#include "cli/simulation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/simulated_player.h"
#include "engine/calibration.h"
#include "engine/roofline.h"
#include "metrics/trace.h"
#include "time/full_run.h"

namespace weft {
namespace {

constexpr int kPrefillPasses = 4;
constexpr double kUsable = 0.95;  // of the chip's memory
constexpr TokenId kVocabulary = 1000;

Roofline roofline_of(const timing::ChipModel& chip, const timing::ModelShape& shape) {
  const double operation = 1e9 / chip.peak_flops();
  const double byte = 1e9 / chip.hbm_bandwidth;
  Roofline roofline;
  roofline.row = operation * 2 * shape.layer_weights();
  roofline.key = operation * 4 * shape.queries();
  roofline.head_row = operation * 2 * shape.head_weights();
  roofline.weights = byte * shape.weight_bytes() * shape.layer_weights();
  roofline.key_bytes = byte * shape.key_bytes();
  roofline.head = byte * shape.weight_bytes() * shape.head_weights();
  return roofline;
}

}  // namespace

double SimulationResult::pipe(pipe_t pipe) const {
  const bool vectors = pipe == PIPE_V || pipe == PIPE_MTE3;
  const bool both = pipe == PIPE_S || pipe == PIPE_MTE2;
  const double units = cores * (vectors ? 2.0 : both ? 3.0 : 1.0);
  return operators.pipes[pipe] / (wall * units);
}

Simulation::Simulation(const timing::ChipModel& chip, const timing::ModelShape& shape)
    : chip_(chip), shape_(shape) {}

timing::OperatorTimes& Simulation::times(int cores) {
  auto& times = times_[cores];
  if (times == nullptr) times = std::make_unique<timing::OperatorTimes>(chip_, shape_, cores);
  return *times;
}

const timing::FixedCosts& Simulation::fixed() {
  if (!fixed_) fixed_ = timing::measure_fixed_costs(times(static_cast<int>(chip_.cores)));
  return *fixed_;
}

int Simulation::blocks() const {
  const double weights =
      shape_.weight_bytes() * (shape_.layers * shape_.layer_weights() + shape_.head_weights()) +
      2 * shape_.head_weights();  // the embedding
  const double block = shape_.layers * shape_.key_bytes() * kBlockPositions;
  return static_cast<int>(std::max(0.0, (kUsable * chip_.hbm_bytes - weights) / block));
}

Result<ExecutorLimits> Simulation::limits_of(std::span<const MixedPhase> phases, int pass_rows,
                                             bool groups) const {
  const int longest = longest_sequence(phases);
  ExecutorLimits limits;
  WEFT_ASSIGN(limits.slots, sequences_of(phases, kMostSimulatedSequences));
  limits.passes = 1 + kPrefillPasses * (groups ? 2 : 1);
  limits.rows = pass_rows + limits.slots;
  limits.output_rows = limits.slots;
  limits.context = (longest + kBlockPositions - 1) / kBlockPositions * kBlockPositions;
  limits.blocks = std::min(blocks(), limits.slots * (limits.context / kBlockPositions));
  limits.tile_rows = 64;
  if (int64_t{limits.blocks} * kBlockPositions >= longest) return limits;
  return Error{ErrorKind::kExhausted,
               fmt::format("{} has {:.0f} GB of memory: {} leaves room for {} positions, and a "
                           "sequence has {}",
                           chip_.name, chip_.hbm_bytes / 1e9, shape_.name,
                           int64_t{limits.blocks} * kBlockPositions, longest)};
}

Result<SimulationResult> Simulation::run(std::span<const MixedPhase> phases,
                                         const SimulationSettings& settings,
                                         const SimulationExtras& extras) {
  const int cores = static_cast<int>(chip_.cores);
  const bool groups = has_groups(settings.mode) && cores > 1;
  const int decode = settings.decode_cores > 0 ? settings.decode_cores : cores / 2;
  if (has_groups(settings.mode) && settings.decode_cores >= cores) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("{} decode cores: {} has {}, and prompts need at least one",
                             settings.decode_cores, chip_.name, cores)};
  }
  timing::SimulatedOptions options;
  WEFT_ASSIGN(options.limits, limits_of(phases, settings.pass_rows, groups));
  options.launches = settings.launches;
  options.fixed = fixed();
  timing::SimulatedExecutor::Teams teams{&times(cores), nullptr, nullptr};
  if (groups) {
    options.prefill_cores = cores - decode;
    options.decode_cores = decode;
    teams[1] = &times(options.prefill_cores);
    teams[2] = &times(options.decode_cores);
  }
  FakeClock clock;
  clock.advance(std::chrono::seconds(1));
  EngineOptions engine;
  engine.mode = settings.mode;
  engine.chunk_rows = settings.chunk_rows;
  engine.limits.itl_target = Duration(std::llround(settings.itl_target * 1e6));
  engine.roofline = roofline_of(chip_, shape_);
  {
    timing::SimulatedExecutor probed(teams, clock, options);
    engine.costs = calibrate(probed);
  }
  std::unique_ptr<TraceWriter> writer;
  if (!extras.trace.empty()) {
    WEFT_ASSIGN(writer, TraceWriter::create(extras.trace));
    engine.trace = writer.get();
  }
  timing::SimulatedExecutor executor(teams, clock, options);
  SimulationResult result;
  if (extras.keep_steps) {
    executor.set_on_step([&](const timing::StepSpan& span) { result.steps.push_back(span); });
  }
  SimulatedPlayer player(executor, clock, engine);
  MixedRun::Options run_options;
  run_options.vocabulary.resize(kVocabulary);
  std::iota(run_options.vocabulary.begin(), run_options.vocabulary.end(), 1);
  const TimePoint begin = clock.now();
  MixedRun run(player, run_options, [&] { return player.stats(); }, extras.on_work);
  for (const MixedPhase& phase : phases) {
    WEFT_ASSIGN(result.records.emplace_back(), run.play(phase));
  }
  result.settings = settings;
  result.settings.decode_cores = groups ? decode : 0;
  result.limits = options.limits;
  result.in_flight = phases.front().in_flight;
  result.chip = chip_.name;
  result.model = shape_.name;
  MixedRepeat repeat;
  for (const PhaseRecord& record : result.records) repeat.push_back(&record);
  result.figures = figures_of(std::span(&repeat, 1), {.itl = 0, .ttft = 0});
  result.operators = executor.totals().operators;
  result.flops = executor.totals().flops;
  result.wall = seconds(clock.now() - begin);
  result.peak_flops = chip_.peak_flops();
  result.hbm_bandwidth = chip_.hbm_bandwidth;
  result.cores = cores;
  return result;
}

}  // namespace weft
