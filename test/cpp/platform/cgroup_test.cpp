#include "platform/cgroup.h"

#include <gtest/gtest.h>

#include "temp_tree.h"

namespace customccl {
namespace {

using test::TempTree;

constexpr const char* kMount2 = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(Cgroup, HasNoLimitWhereThereAreNoCgroups) { EXPECT_EQ(cgroup_cpu_limit_below(TempTree().root()), 0); }

TEST(Cgroup, Version2TakesTheTightestOfAllParents) {
  TempTree tree;
  tree.add("/proc/self/cgroup", "0::/slice/job/step\n")
      .add("/proc/self/mountinfo", kMount2)
      .add("/sys/fs/cgroup/slice/cpu.max", "150000 100000\n")
      .add("/sys/fs/cgroup/slice/job/cpu.max", "max 100000\n")
      .add("/sys/fs/cgroup/slice/job/step/cpu.max", "400000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_limit_below(tree.root()), 1.5);
}

TEST(Cgroup, Version2InsideAContainerReadsTheMountPoint) {
  TempTree tree;
  tree.add("/proc/self/cgroup", "0::/\n")
      .add("/proc/self/mountinfo", kMount2)
      .add("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_limit_below(tree.root()), 0.5);
}

TEST(Cgroup, Version2WithoutAQuotaHasNoLimit) {
  TempTree tree;
  tree.add("/proc/self/cgroup", "0::/a\n")
      .add("/proc/self/mountinfo", kMount2)
      .add("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpu_limit_below(tree.root()), 0);
}

TEST(Cgroup, Version1ReadsQuotaAndPeriodOfTheCpuHierarchy) {
  TempTree tree;
  tree.add("/proc/self/cgroup", "12:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n3:cpuset:/\n")
      .add("/proc/self/mountinfo",
           "28 25 0:24 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
           "29 25 0:25 /docker/x /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n")
      .add("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n")
      .add("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cgroup_cpu_limit_below(tree.root()), 2.5);
  tree.add("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cgroup_cpu_limit_below(tree.root()), 0);
}

TEST(Cgroup, UnderstandsNoNonsense) {
  TempTree tree;
  tree.add("/proc/self/cgroup", "nonsense\n0:\n0::relative\n::\n0::/a\n")
      .add("/proc/self/mountinfo", std::string("nonsense\n - \n") + kMount2)
      .add("/sys/fs/cgroup/a/cpu.max", "fast please\n")
      .add("/sys/fs/cgroup/cpu.max", "100000 0\n");
  EXPECT_EQ(cgroup_cpu_limit_below(tree.root()), 0);
}

}  // namespace
}  // namespace customccl
