#pragma once
// How a served model shares its cores among prompts and streams: the flags, and the engine made of
// them.

#include <filesystem>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/result.h"
#include "cli/load_model.h"
#include "engine/engine.h"
#include "metrics/registry.h"
#include "metrics/trace.h"

namespace weft {

// Times in milliseconds; 0: none, of the target: found at start.
struct SchedulingOptions {
  Mode mode = Mode::kFused;
  double itl_target = 0;
  double prefill_floor = 0.2;
  int chunk_rows = 256;   // mode chunked, and the share of a step in mode layered
  int prefill_cores = 0;  // of split and auto; 0: what decoding leaves
  int decode_cores = 0;   // 0: as few as read the weights within a quarter of the target
  double ttft_timeout = 0;
  double token_timeout = 0;
  double request_timeout = 0;
  std::filesystem::path trace;  // empty: none
};

// Sets what the executor needs for this: rows and passes, and groups of cores where a mode has
// them. An error names the flag.
Status prepare_load(const SchedulingOptions& scheduling, LoadOptions& load);

struct ServingEngine {
  std::unique_ptr<TraceWriter> trace;
  std::unique_ptr<Engine> engine;  // before the trace it writes to ends
};

struct MachineCosts {
  CostModel quanta;
  std::optional<Roofline> roofline;  // of a CPU
};
// What the model's quanta cost on this machine, and could cost; about a second, with a bar on a
// terminal. The model must not be in use.
Result<MachineCosts> measure_costs(const LoadedModel& model);

// The model, registry and clock must outlive the engine.
Result<ServingEngine> start_engine(const LoadedModel& model, MetricsRegistry& metrics,
                                   const Clock& clock, const SchedulingOptions& scheduling,
                                   const MachineCosts& costs);

}  // namespace weft
