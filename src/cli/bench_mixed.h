#pragma once
// `weft bench mixed`: chat streams and prompts together, in each mode and beside other servers.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/load_model.h"
#include "cli/mixed_workload.h"
#include "cli/scheduling.h"

namespace weft {

struct BenchMixedOptions {
  LoadOptions load;
  SchedulingOptions scheduling;            // its mode is not used
  std::optional<std::vector<Mode>> modes;  // absent: all, or with --quick three of them
  WorkloadOptions workload;
  bool in_process = false;
  std::vector<std::string> against;  // addresses of other servers
  bool as_text = false;              // what they are sent: text, not token ids
  double ttft_target = 0;            // milliseconds; 0: by the model's size
  int repeats = 1;
  std::filesystem::path json;  // "-": standard output, in place of the table
  std::filesystem::path html;
  std::filesystem::path svg;
};

}  // namespace weft
