#include "base/cpu.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/cgroup.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

// A machine made of files.
class FakeMachine : public ::testing::Test {
 protected:
  FakeMachine() : root_(fs::path(testing::TempDir()) / fmt::format("machine-{}", getpid())) {}
  ~FakeMachine() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void core(int cpu, const std::string& siblings) const {
    write(fmt::format("sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu),
          siblings + "\n");
  }
  // Version 2 at /sys/fs/cgroup; `mounted` is the group seen there.
  void version2(const std::string& group, const std::string& mounted = "/") const {
    write("proc/self/cgroup", "0::" + group + "\n");
    write("proc/self/mountinfo",
          fmt::format("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                      "30 22 0:26 {} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
                      mounted));
  }
  void version1(const std::string& group, const std::string& mounted = "/") const {
    write("proc/self/cgroup",
          fmt::format("4:memory:{0}\n3:cpuset:/\n2:cpu,cpuacct:{0}\n1:name=systemd:/x\n0::/\n",
                      group));
    write(
        "proc/self/mountinfo",
        fmt::format(
            "31 22 0:29 {0} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
            "32 22 0:30 {0} /sys/fs/cgroup/memory rw shared:1 master:2 - cgroup cgroup rw,memory\n",
            mounted));
  }
  CpuTopology topology(std::vector<int> allowed) const { return read_cpu_topology(root_, allowed); }
  CgroupLimits limits() const { return read_cgroup_limits(root_); }

  fs::path root_;
};

TEST_F(FakeMachine, OneCpuForEachCore) {
  for (const int cpu : {0, 1, 2, 3}) core(cpu, fmt::format("{},{}", cpu, cpu + 4));
  for (const int cpu : {4, 5, 6, 7}) core(cpu, fmt::format("{},{}", cpu - 4, cpu));
  write("proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Some CPU 9000\nflags\t\t: avx2\n\nprocessor\t: 1\nmodel "
        "name\t: other\n");
  EXPECT_THAT(topology({0, 1, 2, 3, 4, 5, 6, 7}).cores, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(topology({0, 1, 2, 3, 4, 5, 6, 7}).default_threads(), 4);
  // The first thread of core 1 is not allowed: its second stands for the core.
  EXPECT_THAT(topology({2, 4, 5, 6}).cores, ElementsAre(2, 4, 5));
  EXPECT_EQ(topology({0}).model, "Some CPU 9000");
}

TEST_F(FakeMachine, WithoutTopologyEveryCpuIsACore) {
  const CpuTopology bare = topology({3, 5});
  EXPECT_THAT(bare.cores, ElementsAre(3, 5));
  EXPECT_EQ(bare.model, "unknown");
  EXPECT_EQ(bare.quota, 0);
  EXPECT_EQ(bare.default_threads(), 2);
}

TEST(CpuTopology, QuotaRoundsDownToAtLeastOneThread) {
  CpuTopology topology;
  topology.cores = {0, 1, 2, 3};
  const std::vector<std::pair<double, int>> cases = {{0, 4},   {0.2, 1}, {1, 1},
                                                     {2.9, 2}, {3, 3},   {64, 4}};
  for (const auto& [quota, threads] : cases) {
    topology.quota = quota;
    EXPECT_EQ(topology.default_threads(), threads) << quota;
  }
}

TEST_F(FakeMachine, Version2TakesTheTightestOfAllAncestors) {
  version2("/a/b/c");
  write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n");
  EXPECT_DOUBLE_EQ(limits().cpus, 1.5);
  EXPECT_EQ(limits().memory_free, std::nullopt);
  write("sys/fs/cgroup/a/b/memory.max", "1000\n");
  write("sys/fs/cgroup/a/b/memory.current", "700\n");
  write("sys/fs/cgroup/a/b/memory.stat", "anon 500\ninactive_file 150\nactive_file 50\n");
  write("sys/fs/cgroup/a/b/c/memory.max", "max\n");
  write("sys/fs/cgroup/a/b/c/memory.current", "600\n");
  EXPECT_EQ(limits().memory_free, 450u);
}

TEST_F(FakeMachine, AContainerSeesItsGroupAtTheMount) {
  // The host's name of the group, mounted as the root of what the container sees.
  version2("/docker/123", "/docker/123");
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(limits().cpus, 2);
  // A group outside of what is mounted.
  version2("/../../other", "/docker/123");
  EXPECT_DOUBLE_EQ(limits().cpus, 2);
  // A group below the mounted one.
  version2("/docker/123/inner", "/docker/123");
  write("sys/fs/cgroup/inner/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(limits().cpus, 0.5);
}

TEST_F(FakeMachine, Version1ReadsEachControllersOwnMount) {
  version1("/jobs/7");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "250000\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "4096000\n");
  write("sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes", "96000\n");
  write("sys/fs/cgroup/memory/jobs/7/memory.stat", "inactive_file 1\ntotal_inactive_file 6000\n");
  EXPECT_DOUBLE_EQ(limits().cpus, 2.5);
  EXPECT_EQ(limits().memory_free, 4006000u);
}

TEST_F(FakeMachine, AFullGroupLeavesNothing) {
  version2("/");
  write("sys/fs/cgroup/memory.max", "1000\n");
  write("sys/fs/cgroup/memory.current", "1200\n");
  EXPECT_EQ(limits().memory_free, 0u);
  // More cache than use is a race between two reads, not memory.
  write("sys/fs/cgroup/memory.stat", "inactive_file 5000\n");
  EXPECT_EQ(limits().memory_free, 1000u);
}

TEST_F(FakeMachine, AMountPointMayHoldASpace) {
  write("proc/self/cgroup", "0::/\n");
  write("proc/self/mountinfo", "30 22 0:26 / /sys/fs/c\\040group rw - cgroup2 cgroup2 rw\n");
  write("sys/fs/c group/cpu.max", "300000 100000\n");
  EXPECT_DOUBLE_EQ(limits().cpus, 3);
}

TEST_F(FakeMachine, GarbageSetsNoLimit) {
  version2("/a");
  write("sys/fs/cgroup/a/cpu.max", "many 0\n");
  write("sys/fs/cgroup/a/memory.max", "\n");
  EXPECT_EQ(limits().cpus, 0);
  EXPECT_EQ(limits().memory_free, std::nullopt);
  write("sys/fs/cgroup/a/cpu.max", "100000 0\n");
  EXPECT_EQ(limits().cpus, 0);
  write("proc/self/mountinfo", "30 22 0:26 -\n\n- - -\n30 22 0:26 / /sys/fs/cgroup rw - cgroup2\n");
  write("proc/self/cgroup", "nothing\n0:\n");
  EXPECT_EQ(limits().cpus, 0);
}

TEST_F(FakeMachine, AvailableMemoryIsTheSmallerOfMachineAndGroup) {
  version2("/");
  write("proc/meminfo", "MemTotal:  8000 kB\nMemFree:  10 kB\nMemAvailable:   4000 kB\n");
  EXPECT_EQ(available_memory(root_), 4000u * 1024);
  write("sys/fs/cgroup/memory.max", "3000000\n");
  write("sys/fs/cgroup/memory.current", "1000000\n");
  EXPECT_EQ(available_memory(root_), 2000000u);
  write("sys/fs/cgroup/memory.max", "90000000\n");
  EXPECT_EQ(available_memory(root_), 4000u * 1024);
}

TEST(CpuTopology, ThisMachineHasCoresAndMemory) {
  const CpuTopology topology = read_cpu_topology();
  ASSERT_FALSE(topology.cores.empty());
  EXPECT_TRUE(std::is_sorted(topology.cores.begin(), topology.cores.end()));
  EXPECT_GE(topology.default_threads(), 1);
  EXPECT_GT(available_memory(), 0u);
}

}  // namespace
}  // namespace weft
