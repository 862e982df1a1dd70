#include "cli/scheduling.h"

#include <algorithm>
#include <utility>

#include "base/progress.h"
#include "cli/roofline.h"
#include "engine/calibration.h"

namespace weft {
namespace {

// Rows of a prompt's pass: more make no kernel faster.
constexpr int kPassRows = 1024;
constexpr int kPrefillPasses = 4;
constexpr uint64_t kProgressSteps = 100;
constexpr double kLeastTargetMs = 50;
constexpr double kQuantaOfTarget = 4;

Duration from_ms(double ms) { return Duration(static_cast<int64_t>(ms * 1e6)); }

}  // namespace

Status prepare_load(const SchedulingOptions& scheduling, LoadOptions& load) {
  load.pass_rows = std::max(kPassRows, scheduling.chunk_rows);
  load.passes = 1 + kPrefillPasses;
  if (!has_groups(scheduling.mode)) return {};
  load.passes += kPrefillPasses;  // followers
  WEFT_ASSIGN(const int cores, device_cores(load));
  if (cores < 2) return {};  // nothing to split: both modes run as fused does
  load.core_groups = true;
  load.decode_threads = scheduling.decode_cores;
  load.prefill_threads = scheduling.prefill_cores;
  const double target = scheduling.itl_target > 0 ? scheduling.itl_target : kLeastTargetMs;
  load.decode_step = from_ms(target / kQuantaOfTarget);
  const int decode = std::max(1, load.decode_threads);
  const int prefill = std::max(1, load.prefill_threads);
  const bool on_cpu = load.device == DeviceKind::kCpu;
  if (decode + prefill > cores) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("{} prefill and {} decode cores are more than the {} {}; lower "
                             "--prefill-cores or --decode-cores, or raise {}",
                             prefill, decode, cores, on_cpu ? "threads" : "cores",
                             on_cpu ? "--threads" : "--ascend-cores")};
  }
  return {};
}

Result<MachineCosts> measure_costs(const LoadedModel& model) {
  MachineCosts costs;
  if (model.kernels != nullptr) {
    WEFT_ASSIGN(costs.roofline, measure_roofline(model));
  }
  ProgressBar bar("measuring this machine", kProgressSteps, ProgressUnit::kItems);
  costs.quanta = calibrate(*model.executor, [&](double share) {
    bar.update(static_cast<uint64_t>(share * kProgressSteps));
  });
  bar.clear();
  return costs;
}

Result<ServingEngine> start_engine(const LoadedModel& model, MetricsRegistry& metrics,
                                   const Clock& clock, const SchedulingOptions& scheduling,
                                   const MachineCosts& costs) {
  ServingEngine serving;
  EngineOptions options;
  options.mode = scheduling.mode;
  options.prefill_floor = scheduling.prefill_floor;
  options.chunk_rows = scheduling.chunk_rows;
  options.limits = {.itl_target = from_ms(scheduling.itl_target),
                    .deadlines = {.first_token = from_ms(scheduling.ttft_timeout),
                                  .token = from_ms(scheduling.token_timeout),
                                  .request = from_ms(scheduling.request_timeout)}};
  options.costs = costs.quanta;
  options.roofline = costs.roofline;
  if (!scheduling.trace.empty()) {
    WEFT_ASSIGN(serving.trace, TraceWriter::create(scheduling.trace));
    options.trace = serving.trace.get();
  }
  serving.engine = std::make_unique<Engine>(*model.executor, metrics, clock, options);
  return serving;
}

}  // namespace weft
