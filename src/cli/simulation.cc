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

bool has_groups(Mode mode) { return mode == Mode::kSplit || mode == Mode::kAuto; }

Roofline roofline_of(const timing::ChipModel& chip, const timing::ModelShape& shape) {
  const double operation = 1e9 / chip.peak_flops();
  const double byte = 1e9 / chip.hbm_bandwidth;
  Roofline roofline;
  roofline.row = operation * 2 * shape.layer_weights();
  roofline.key = operation * 4 * shape.queries();
  roofline.head_row = operation * 2 * shape.head_weights();
  roofline.weights = byte * 2 * shape.layer_weights();
  roofline.key_bytes = byte * shape.key_bytes();
  roofline.head = byte * 2 * shape.head_weights();
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
  const double weights = 2 * (shape_.layers * shape_.layer_weights() + 2 * shape_.head_weights());
  const double block = shape_.layers * shape_.key_bytes() * kBlockPositions;
  return static_cast<int>(std::max(0.0, (kUsable * chip_.hbm_bytes - weights) / block));
}

Result<ExecutorLimits> Simulation::limits_of(const MixedPhase& phase, int pass_rows,
                                             bool groups) const {
  const int longest = longest_sequence(std::span(&phase, 1));
  ExecutorLimits limits;
  limits.slots =
      std::clamp(phase.in_flight > 0 ? phase.in_flight + phase.streams
                                     : static_cast<int>(phase.requests.size()) + phase.streams,
                 1, 256);
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

Result<SimulationResult> Simulation::run(const MixedPhase& phase,
                                         const SimulationSettings& settings,
                                         const std::function<void(uint64_t)>& on_work,
                                         bool keep_steps, const std::filesystem::path& trace) {
  const int cores = static_cast<int>(chip_.cores);
  const bool groups = has_groups(settings.mode) && cores > 1;
  const int decode = settings.decode_cores > 0 ? settings.decode_cores : cores / 2;
  if (has_groups(settings.mode) && settings.decode_cores >= cores) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("{} decode cores: {} has {}, and prompts need at least one",
                             settings.decode_cores, chip_.name, cores)};
  }
  timing::SimulatedOptions options;
  WEFT_ASSIGN(options.limits, limits_of(phase, settings.pass_rows, groups));
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
  if (!trace.empty()) {
    WEFT_ASSIGN(writer, TraceWriter::create(trace));
    engine.trace = writer.get();
  }
  timing::SimulatedExecutor executor(teams, clock, options);
  SimulationResult result;
  if (keep_steps) {
    executor.set_on_step([&](const timing::StepSpan& span) { result.steps.push_back(span); });
  }
  SimulatedPlayer player(executor, clock, engine);
  MixedRun::Options run_options;
  run_options.vocabulary.resize(kVocabulary);
  std::iota(run_options.vocabulary.begin(), run_options.vocabulary.end(), 1);
  const TimePoint begin = clock.now();
  MixedRun run(player, run_options, [&] { return player.stats(); }, on_work);
  WEFT_ASSIGN(result.record, run.play(phase));
  result.settings = settings;
  result.settings.decode_cores = groups ? decode : 0;
  result.in_flight = phase.in_flight;
  result.chip = chip_.name;
  result.model = shape_.name;
  const MixedRepeat repeat{&result.record};
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
