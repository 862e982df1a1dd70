#pragma once
// The results of `weft simulate` as a table, as JSON, as a picture and as a trace.

#include <nlohmann/json.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cli/simulation.h"

namespace weft {

// One run, with what it is held against.
struct SimulateRow {
  SimulationResult result;
  std::string note;  // why there is none
};

// Runs of one chip and one model; the first with one request in flight is what the others are held
// against, and for each number in flight the serial one.
std::string simulate_table(std::span<const SimulateRow> rows);
nlohmann::ordered_json simulate_json(std::span<const SimulateRow> rows);
// Tokens a second and time to the first token over requests in flight, a line for each mode; and
// what the cores of some runs do, over time.
std::string simulate_svg(std::span<const SimulateRow> rows);
// Operators as Chrome's trace format has them.
Status write_operator_trace(const std::filesystem::path& path, const SimulationResult& result);

}  // namespace weft
