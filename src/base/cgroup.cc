#include "base/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace weft {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> out;
  for (std::string word; stream >> word;) out.push_back(word);
  return out;
}

// The words of a file's first line; none if it cannot be read.
std::vector<std::string> first_line(const fs::path& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return words(line);
}

// A whole word as a number; nullopt for "max", "-1" and anything else that sets no limit.
std::optional<uint64_t> number(std::string_view word) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (code != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::optional<uint64_t> read_number(const fs::path& path) {
  const std::vector<std::string> line = first_line(path);
  return line.empty() ? std::nullopt : number(line[0]);
}

// The value of `key` in a file of lines "key value".
std::optional<uint64_t> read_keyed(const fs::path& path, std::string_view key) {
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) {
    const std::vector<std::string> fields = words(line);
    if (fields.size() == 2 && fields[0] == key) return number(fields[1]);
  }
  return std::nullopt;
}

bool lists(std::string_view list, std::string_view item) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == item) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// Paths in mountinfo write space, tab, newline and backslash as three octal digits.
std::string unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, code, 8).ptr ==
            text.data() + i + 4) {
      out += static_cast<char>(code);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Where a hierarchy is mounted, and which of its groups is seen there.
struct Mount {
  fs::path point;
  fs::path group;
};

// `controller` is empty for version 2.
std::optional<Mount> find_mount(const fs::path& root, std::string_view controller) {
  std::ifstream stream(root / "proc/self/mountinfo");
  for (std::string line; std::getline(stream, line);) {
    // id parent device group point options [optional fields] - type source options
    const std::vector<std::string> fields = words(line);
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 7 || fields.end() - dash < 4) continue;
    const std::string& type = dash[1];
    if (controller.empty() ? type == "cgroup2" : type == "cgroup" && lists(dash[3], controller)) {
      return Mount{root / fs::path(unescape(fields[4])).relative_path(), unescape(fields[3])};
    }
  }
  return std::nullopt;
}

// The group of this process in the hierarchy of `controller`.
std::optional<fs::path> find_group(const fs::path& root, std::string_view controller) {
  std::ifstream stream(root / "proc/self/cgroup");
  for (std::string line; std::getline(stream, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : lists(controllers, controller))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

// Folders of the process's group and its ancestors, innermost first, as far as they are visible.
std::vector<fs::path> group_folders(const fs::path& root, std::string_view controller) {
  const std::optional<Mount> mount = find_mount(root, controller);
  const std::optional<fs::path> group = find_group(root, controller);
  if (!mount || !group) return {};
  // A container may see its own group as the mount's root, under a name that only the host can
  // resolve.
  fs::path below = group->lexically_normal().lexically_relative(mount->group);
  if (below.empty() || *below.begin() == "..") below = ".";
  std::vector<fs::path> folders;
  for (below = below.relative_path(); !below.empty() && below != "."; below = below.parent_path()) {
    folders.push_back(mount->point / below);
  }
  folders.push_back(mount->point);
  return folders;
}

void limit_cpus(CgroupLimits& limits, std::optional<uint64_t> quota,
                std::optional<uint64_t> period) {
  if (!quota || !period || *quota == 0 || *period == 0) return;
  const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
  limits.cpus = limits.cpus == 0 ? cpus : std::min(limits.cpus, cpus);
}

// `cache` is the part of `usage` that the kernel drops before it refuses memory.
void limit_memory(CgroupLimits& limits, std::optional<uint64_t> limit,
                  std::optional<uint64_t> usage, std::optional<uint64_t> cache) {
  if (!limit || !usage) return;
  const uint64_t held = *usage - std::min(*usage, cache.value_or(0));
  const uint64_t left = *limit - std::min(*limit, held);
  limits.memory_free = std::min(limits.memory_free.value_or(left), left);
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  for (const fs::path& group : group_folders(root, "")) {
    const std::vector<std::string> cpu = first_line(group / "cpu.max");
    if (cpu.size() == 2) limit_cpus(limits, number(cpu[0]), number(cpu[1]));
    limit_memory(limits, read_number(group / "memory.max"), read_number(group / "memory.current"),
                 read_keyed(group / "memory.stat", "inactive_file"));
  }
  for (const fs::path& group : group_folders(root, "cpu")) {
    limit_cpus(limits, read_number(group / "cpu.cfs_quota_us"),
               read_number(group / "cpu.cfs_period_us"));
  }
  for (const fs::path& group : group_folders(root, "memory")) {
    limit_memory(limits, read_number(group / "memory.limit_in_bytes"),
                 read_number(group / "memory.usage_in_bytes"),
                 read_keyed(group / "memory.stat", "total_inactive_file"));
  }
  return limits;
}

}  // namespace weft
