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
  std::string note;                        // why there is none
  ErrorKind kind = ErrorKind::kExhausted;  // of the note
};

// "split 16+16"
std::string setup_text(const SimulationSettings& settings, int cores);

// Why runs have no figures, each reason once, below a table; empty where there is none.
std::string notes_text(std::span<const std::string> notes);

// The last row's line of the table, with what stands above where a chip and model begin. What runs
// are held against: mode serial with one request in flight, and with as many as they have.
std::string simulate_line(std::span<const SimulateRow> rows);
// A table for each model, a column for each mode; "tokens a second / seconds to the first token / %
// busy".
std::string simulate_markdown(std::span<const SimulateRow> rows);
nlohmann::ordered_json simulate_json(std::span<const SimulateRow> rows);
// Tokens a second, time to the first token and largest gap over requests in flight, a line for each
// mode.
std::string simulate_svg(std::span<const SimulateRow> rows);
// Operators as Chrome's trace format has them.
Status write_operator_trace(const std::filesystem::path& path, const SimulationResult& result);

}  // namespace weft
