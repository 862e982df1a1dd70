#pragma once
// A TOML file with the flags of a command: `kv-memory = "4G"` is `--kv-memory 4G`.

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft {

// The file's keys as flags, "--key=value", in its order. Strings, integers, floats and booleans; a
// table or an array is an error that names the line.
Result<std::vector<std::string>> read_config_file(const std::filesystem::path& path);

}  // namespace weft
