#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace weft {

Status init_log(std::string_view level) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  if (parsed == spdlog::level::off && level != "off") {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("log level '{}' is unknown: use trace, debug, info, warn, error or off",
                    level)};
  }
  auto logger = spdlog::get("weft");
  if (!logger) logger = spdlog::stderr_color_mt("weft");
  logger->set_level(parsed);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  spdlog::set_default_logger(logger);
  return {};
}

}  // namespace weft
