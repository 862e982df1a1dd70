#pragma once
// The results of `weft simulate` as a table, as JSON, as a picture and as a trace.

#include <nlohmann/json.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cli/simulation.h"

namespace weft {

// One run.
struct SimulateRow {
  SimulationResult result;
  std::string note;  // why there is none
};

// A block for each chip and model. What their runs are held against: mode serial with one request
// in flight, and with as many in flight as they have.
std::string simulate_table(std::span<const SimulateRow> rows);
nlohmann::ordered_json simulate_json(std::span<const SimulateRow> rows);
// Tokens a second, time to the first token and largest gap over requests in flight, a line for each
// mode.
std::string simulate_svg(std::span<const SimulateRow> rows);
// Operators as Chrome's trace format has them.
Status write_operator_trace(const std::filesystem::path& path, const SimulationResult& result);

}  // namespace weft
