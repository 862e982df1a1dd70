#pragma once
// The best mode, split of cores, gap target and rows of a pass: tried one after another on a grid.

#include <nlohmann/json.hpp>

#include <span>
#include <string>
#include <vector>

#include "cli/simulate_runs.h"

namespace weft {

// What first tokens have to gain, so that more tokens were not bought with their time.
inline constexpr double kSooner = 0.1;

// One chip with one model and one number of requests in flight.
struct SimulateSearch {
  SimulateRow alone;   // mode serial, one request in flight
  SimulateRow serial;  // the same with as many as the others have
  std::vector<SimulateRow> tried;
  std::string note;  // why nothing was tried

  // Of what was tried; null where nothing is.
  const SimulateRow* most_tokens() const;
  const SimulateRow* soonest_first_token() const;
  // The most tokens of those whose first tokens come kSooner sooner than in `serial`.
  const SimulateRow* most_tokens_sooner() const;
  const SimulateRow* busiest() const;
};

// What is tried beside mode serial.
std::vector<SimulationSettings> search_grid(const SimulateOptions& options, int cores);

SimulateSearch search(Simulation& simulation, const SimulateOptions& options, int in_flight,
                      SimulateProgress& progress);

// A line for each of the best.
std::string search_text(const SimulateSearch& search);
// All of them in one table, a line each.
std::string search_markdown(std::span<const SimulateSearch> searches);
nlohmann::ordered_json search_json(std::span<const SimulateSearch> searches);

}  // namespace weft
