#pragma once
// The results of `weft bench mixed` as a table and as JSON.

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "cli/mixed_figures.h"

namespace weft {

// One thing that was measured.
struct MixedSubject {
  std::string name;  // a mode, or the address of another server
  std::vector<std::vector<PhaseRecord>> repeats;
  std::string error;  // why it is incomplete; empty if it is not
};

struct MixedResult {
  std::string model;
  std::string cpu;
  std::string executor;
  std::string workload;
  std::string transport;  // "in process", "over HTTP"
  uint64_t seed = 1;
  int context = 0;
  int sequences = 0;
  int kv_positions = 0;
  MixedTargets targets;
  std::vector<MixedSubject> subjects;
};

struct MixedRow {
  std::string subject;
  std::string phase;  // empty: all phases together
  std::optional<int> prompt;
  MixedFigures figures;
};
// Of each subject all phases together, then for each phase and length of prompts one row a subject.
// Phases that not every repeat has come to are left out.
std::vector<MixedRow> rows_of(const MixedResult& result);

std::string mixed_table(const MixedResult& result);
nlohmann::ordered_json mixed_json(const MixedResult& result);

// Shared with the picture: "1.24 s", "0.42 s"; "-" where there is none.
std::string format_seconds(std::optional<double> seconds);
std::string format_share(std::optional<double> share);  // "97.1 %"

}  // namespace weft
