#include "cli/text_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

namespace weft {
namespace {

Error cannot(const char* what, const std::filesystem::path& path, int error) {
  return {ErrorKind::kIo, fmt::format("cannot {} {}: {}", what, path.string(),
                                      std::generic_category().message(error))};
}

}  // namespace

Result<std::string> read_text(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // Inserting nothing counts as a failure, and an empty file is none.
  if (file.is_open() && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad() || !text) return cannot("read", path, errno);
  return text.str();
}

Status write_text(const std::filesystem::path& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  if (!(file << text) || !file.flush()) return cannot("write", path, errno);
  return {};
}

Status check_writable(const std::filesystem::path& path) {
  if (path.empty()) return {};
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return cannot("write", path, EISDIR);
  // What is there may be a pipe, which is opened once only.
  if (std::filesystem::exists(path, ignored)) {
    if (::access(path.c_str(), W_OK) != 0) return cannot("write", path, errno);
    return {};
  }
  WEFT_RETURN_IF_ERROR(write_text(path, ""));
  std::filesystem::remove(path, ignored);
  return {};
}

}  // namespace weft
