#pragma once
// What this process may use of the machine.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace weft {

struct CpuTopology {
  std::vector<int> cores;  // one logical CPU for each physical core in the affinity mask, ascending
  double quota = 0;        // CPUs the cgroup grants; 0 if it sets no limit
  std::string model;       // "AMD EPYC ..." or "unknown"

  // Physical cores within the affinity mask and the cgroup quota, at least 1.
  int default_threads() const;
};

CpuTopology read_cpu_topology();

// Bytes of memory that can still be taken: what the kernel calls available, under the cgroup's
// limit.
uint64_t available_memory();

// The same of a machine whose /proc and /sys lie under `root`, with `allowed` as the affinity mask
// (ascending): tests.
CpuTopology read_cpu_topology(const std::filesystem::path& root, std::span<const int> allowed);
uint64_t available_memory(const std::filesystem::path& root);

}  // namespace weft
