#include "cli/config_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <fstream>

namespace weft {
namespace {

// A float as the file spells it would be nicest; this is the shortest text that reads back as the
// same number.
Result<std::string> value_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return fmt::format("{}", integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return std::string(flag->get() ? "true" : "false");
  return Error{ErrorKind::kInvalidArgument, "is neither a string, a number nor a boolean"};
}

}  // namespace

Result<std::vector<std::string>> read_config_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("--config {}: cannot read the file", path.string())};
  }
  toml::table table;
  try {
    table = toml::parse(file, path.string());
  } catch (const toml::parse_error& error) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("--config {}, line {}: {}", path.string(), error.source().begin.line,
                             error.description())};
  }
  // toml++ sorts by key; the file's order makes better messages.
  std::vector<std::pair<uint32_t, std::string>> flags;
  for (const auto& [key, node] : table) {
    const uint32_t line = node.source().begin.line;
    const Result<std::string> value = value_text(node);
    if (!value.ok()) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("--config {}, line {}: {} {}", path.string(), line, key.str(),
                               value.error().message)};
    }
    flags.emplace_back(line, fmt::format("--{}={}", key.str(), *value));
  }
  std::sort(flags.begin(), flags.end());
  std::vector<std::string> arguments;
  arguments.reserve(flags.size());
  for (auto& [line, flag] : flags) arguments.push_back(std::move(flag));
  return arguments;
}

}  // namespace weft
