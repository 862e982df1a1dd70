#pragma once
// Files of text that flags name.

#include <filesystem>
#include <string>

#include "base/result.h"

namespace weft {

Result<std::string> read_text(const std::filesystem::path& path);
Status write_text(const std::filesystem::path& path, const std::string& text);
// An error where it could not: before what takes long and is then to be written. Leaves what is
// there as it is. Nothing is asked of an empty path.
Status check_writable(const std::filesystem::path& path);

}  // namespace weft
