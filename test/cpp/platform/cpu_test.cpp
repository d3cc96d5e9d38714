#include "platform/cpu.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>

#include "child.h"
#include "platform/cpu_topology.h"
#include "temp_tree.h"

namespace customccl {
namespace {

using test::Child;
using test::TempTree;

TEST(CpuSet, ReadsAndWritesTheKernelsListFormat) {
  for (const char* text : {"", "0", "0-3", "0-3,8", "1,3,5-6,1023"}) EXPECT_EQ(to_string(parse_cpu_set(text)), text);
  EXPECT_EQ(to_string(parse_cpu_set("3,1,2")), "1-3");
}

TEST(CpuSet, LeavesOutWhatItCannotRead) {
  EXPECT_EQ(to_string(parse_cpu_set("1,x,3-,-4,5-y,6 ,7")), "1,7");
  EXPECT_EQ(to_string(parse_cpu_set("1022-9999,4096")), "1022-1023");
  EXPECT_EQ(to_string(parse_cpu_set("9-4,99999999999999")), "");
}

TEST(Affinity, FollowsTheKernel) {
  const CpuSet all = affinity();
  ASSERT_TRUE(all.any());
  std::size_t last = 0;
  for (std::size_t cpu = 0; cpu < all.size(); ++cpu) last = all[cpu] ? cpu : last;
  Child child([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    if (::sched_setaffinity(0, sizeof(one), &one) != 0) return 2;
    return affinity() == CpuSet().set(last) ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(CacheDomains, CoverEveryUsableProcessorOnce) {
  CpuSet seen;
  for (const CpuSet& domain : cache_domains()) {
    EXPECT_TRUE((seen & domain).none());
    seen |= domain;
  }
  EXPECT_TRUE((affinity() & ~seen).none());
}

TEST(CacheDomains, AreTheHighestLevelThatTheKernelKnows) {
  TempTree tree;
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/";
    tree.add(folder + "index0/level", "1\n").add(folder + "index0/shared_cpu_list", std::to_string(cpu) + "\n");
    tree.add(folder + "index1/level", "3\n").add(folder + "index1/shared_cpu_list", cpu < 2 ? "0-1\n" : "2-3\n");
    tree.add(folder + "index2/level", "2\n").add(folder + "index2/shared_cpu_list", std::to_string(cpu) + "\n");
  }
  const auto domains = cache_domains_below(tree.root(), parse_cpu_set("0-3"));
  ASSERT_EQ(domains.size(), 2U);
  EXPECT_EQ(to_string(domains[0]), "0-1");
  EXPECT_EQ(to_string(domains[1]), "2-3");
}

TEST(CacheDomains, PutProcessorsOfUnknownCachesTogether) {
  TempTree tree;
  tree.add("/sys/devices/system/cpu/cpu1/cache/index0/level", "3\n");
  tree.add("/sys/devices/system/cpu/cpu1/cache/index0/shared_cpu_list", "1\n");
  const auto domains = cache_domains_below(tree.root(), parse_cpu_set("0-2"));
  ASSERT_EQ(domains.size(), 2U);
  EXPECT_EQ(to_string(domains[0]), "1");
  EXPECT_EQ(to_string(domains[1]), "0,2");
}

TEST(LastLevelCache, IsThatOfTheHighestLevelOfTheFirstProcessor) {
  TempTree tree;
  for (const auto* const cpu : {"0", "1"}) {
    const std::string folder = std::string("/sys/devices/system/cpu/cpu") + cpu + "/cache/";
    tree.add(folder + "index0/level", "1\n").add(folder + "index0/shared_cpu_list", "0-1\n");
    tree.add(folder + "index0/size", "32K\n");
    tree.add(folder + "index1/level", "3\n").add(folder + "index1/shared_cpu_list", "0-1\n");
    tree.add(folder + "index1/size", *cpu == '0' ? "32768K\n" : "16384K\n");
  }
  EXPECT_EQ(last_level_cache_below(tree.root(), parse_cpu_set("0-1")), std::size_t{32} << 20);
  EXPECT_EQ(last_level_cache_below(tree.root(), parse_cpu_set("1-2")), std::size_t{16} << 20);
}

TEST(LastLevelCache, OfAHostIsNotThatOfItsVirtualMachine) {
  TempTree tree;
  const std::string cache = "/sys/devices/system/cpu/cpu0/cache/index0";
  tree.add(cache + "/level", "3\n").add(cache + "/shared_cpu_list", "0-2\n").add(cache + "/size", "491520K\n");
  EXPECT_EQ(last_level_cache_below(tree.root(), parse_cpu_set("0-1")), std::size_t{3 * 32} << 20);
}

TEST(LastLevelCache, IsTakenFor32MiBWhereItIsNotTold) {
  TempTree tree;
  tree.add("/sys/devices/system/cpu/cpu0/cache/index0/level", "3\n");
  tree.add("/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0\n");
  EXPECT_EQ(last_level_cache_below(tree.root(), parse_cpu_set("0-1")), std::size_t{32} << 20);
}

TEST(InstructionSet, HasNames) {
  EXPECT_EQ(to_string(InstructionSet::kBaseline), "baseline");
  EXPECT_EQ(to_string(InstructionSet::kAvx2), "avx2");
  EXPECT_EQ(to_string(InstructionSet::kAvx512), "avx512");
}

TEST(InstructionSetDeathTest, IsLoweredByItsSetting) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const InstructionSet widest = instruction_set();
  for (const InstructionSet asked : {InstructionSet::kBaseline, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    ::setenv("CUSTOMCCL_ISA", to_string(asked).c_str(), 1);
    const bool granted = asked <= widest;
    EXPECT_EXIT(::_exit(instruction_set() == asked ? 0 : 1), testing::ExitedWithCode(granted ? 0 : 1),
                granted ? "^$" : "asks for more than this processor has");
  }
  ::unsetenv("CUSTOMCCL_ISA");
}

}  // namespace
}  // namespace customccl
