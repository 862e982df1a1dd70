#pragma once
// What an engine is told when it is made.

#include <optional>

#include "engine/cost_model.h"
#include "engine/mode.h"
#include "engine/request.h"
#include "engine/roofline.h"
#include "metrics/trace.h"

namespace weft {

struct EngineOptions {
  Mode mode = Mode::kChunked;
  int chunk_rows = 256;  // prompt rows of a step in mode chunked, and a step's share in layered
  double prefill_floor = 0.2;  // share of the time that prompts get however late the streams are
  // Of requests that set none. No itl_target: max(50 ms, 4x a decode step of one row).
  RequestLimits limits = {};
  // What quanta cost, as calibrate() found. Modes that keep the target need it; without, a quantum
  // is taken to cost nothing and has all layers.
  CostModel costs = {};
  std::optional<Roofline> roofline = {};  // what the roofline's share is held against
  TraceWriter* trace = nullptr;           // gets every quantum; must outlive the engine
};

}  // namespace weft
