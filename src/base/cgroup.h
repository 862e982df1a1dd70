#pragma once
// What the control groups of this process (version 1, 2 or both) let it take. A limit of any
// ancestor holds too.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace weft {

struct CgroupLimits {
  double cpus = 0;  // of the quota; 0 where none is set
  std::optional<uint64_t>
      memory_free;  // bytes under the limit, file cache that can be dropped included
};

// `root` is where /proc and /sys are found: "/" but in tests.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root);

}  // namespace weft
