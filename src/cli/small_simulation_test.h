#pragma once
// For tests: a chip and a model of which everything is simulated in a moment.

#include <vector>

#include "cli/simulate_report.h"

namespace weft {

inline timing::ChipModel small_chip() {
  timing::ChipModel model = *timing::find_chip_model("910b2");
  model.cores = 4;
  model.hbm_bandwidth = 300e9;
  model.l2_bytes = 8 << 20;
  return model;
}

inline timing::ModelShape small_shape() {
  return {.name = "small",
          .layers = 4,
          .hidden = 512,
          .ffn = 1536,
          .heads = 8,
          .kv_heads = 2,
          .head_dim = 64,
          .vocab = 8192,
          .qkv_bias = false,
          .qk_norm = false};
}

inline SimulationSettings in_mode(Mode mode) {
  SimulationSettings settings;
  settings.mode = mode;
  return settings;
}

inline SimulateRow row_of(Simulation& simulation, const MixedPhase& phase,
                          const SimulationSettings& settings, bool keep_steps = false) {
  SimulationExtras extras;
  extras.keep_steps = keep_steps;
  SimulateRow row;
  Result<SimulationResult> result = simulation.run(std::span(&phase, 1), settings, extras);
  if (result.ok()) {
    row.result = std::move(result).value();
  } else {
    row.note = result.error().message;
  }
  return row;
}

}  // namespace weft
