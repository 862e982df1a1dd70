#include "base/cpu.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>

#include "base/cgroup.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// The CPUs this process may run on, ascending.
std::vector<int> affinity() {
  // The kernel refuses a set smaller than its own: ask again with a larger one.
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(cpus));
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(cpus));
    std::vector<int> out;
    const bool ok = sched_getaffinity(0, bytes, set) == 0;
    const bool too_small = !ok && errno == EINVAL;
    for (int cpu = 0; ok && cpu < cpus; ++cpu) {
      if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) out.push_back(cpu);
    }
    CPU_FREE(set);
    if (ok) return out;
    if (!too_small) break;
  }
  return {0};
}

std::string read_line(const fs::path& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  return line;
}

// What follows the colon in the first line of `path` that begins with `key`.
std::optional<std::string> read_field(const fs::path& path, std::string_view key) {
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return std::nullopt;
}

}  // namespace

int CpuTopology::default_threads() const {
  // A quota is rounded down: with more threads than it grants they would all be halted together.
  const auto physical = static_cast<double>(cores.size());
  return std::max(1, static_cast<int>(quota > 0 ? std::min(physical, quota) : physical));
}

CpuTopology read_cpu_topology(const fs::path& root, std::span<const int> allowed) {
  CpuTopology topology;
  std::set<std::string> seen;  // cores, each as the list of its hardware threads
  for (const int cpu : allowed) {
    const fs::path folder = root / fmt::format("sys/devices/system/cpu/cpu{}/topology", cpu);
    std::string core = read_line(folder / "thread_siblings_list");
    if (core.empty()) core = fmt::format("{}", cpu);
    if (seen.insert(core).second) topology.cores.push_back(cpu);
  }
  topology.quota = read_cgroup_limits(root).cpus;
  topology.model = read_field(root / "proc/cpuinfo", "model name").value_or("unknown");
  return topology;
}

CpuTopology read_cpu_topology() { return read_cpu_topology("/", affinity()); }

uint64_t available_memory(const fs::path& root) {
  const std::string text = read_field(root / "proc/meminfo", "MemAvailable").value_or("0 kB");
  const uint64_t machine = std::strtoull(text.c_str(), nullptr, 10) * 1024;
  return std::min(machine, read_cgroup_limits(root).memory_free.value_or(machine));
}

uint64_t available_memory() { return available_memory("/"); }

}  // namespace weft
