#pragma once
// The flags of a workload: of `weft bench mixed` and of `weft simulate`.

#include "cli/mixed_workload.h"

namespace CLI {
class App;
}

namespace weft {

// The options must outlive the parsing.
void add_workload_flags(CLI::App& app, WorkloadOptions& options);
// A validation error that names a flag which was given and of which this kind takes no notice.
void check_workload_flags(const CLI::App& app, WorkloadKind kind);

}  // namespace weft
