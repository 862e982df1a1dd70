#pragma once
// The program's log: spdlog on standard error. Levels: info for what an operator wants once, warn
// for what needs attention, debug for what explains a problem.

#include <spdlog/spdlog.h>

#include <string_view>

#include "base/result.h"

namespace weft {

// Sends the default logger to stderr at `level` (trace, debug, info, warn, error, off).
Status init_log(std::string_view level);

}  // namespace weft
