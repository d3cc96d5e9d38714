#include "platform/mechanisms.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string_view>

namespace customccl {
namespace {

const Mechanism* find(const std::vector<Mechanism>& all, std::string_view name) {
  for (const Mechanism& mechanism : all) {
    if (mechanism.name == name) return &mechanism;
  }
  return nullptr;
}

TEST(Mechanisms, AreNamedOnceAndExplained) {
  const auto all = probe_mechanisms();
  std::set<std::string> names;
  for (const Mechanism& mechanism : all) {
    EXPECT_TRUE(names.insert(mechanism.name).second) << mechanism.name;
    EXPECT_FALSE(mechanism.detail.empty()) << mechanism.name;
  }
  for (const char* name : {"shared memory", "sealed memory", "descriptor passing", "shared futex", "membarrier",
                           "process memory", "life word"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Mechanisms, WithoutWhichNothingRunsWorkHere) {
  const auto all = probe_mechanisms();
  for (const char* name : {"shared memory", "descriptor passing", "shared futex", "life word"}) {
    const Mechanism* mechanism = find(all, name);
    ASSERT_NE(mechanism, nullptr) << name;
    EXPECT_TRUE(mechanism->works) << name << ": " << mechanism->detail;
  }
}

TEST(MechanismsDeathTest, SayWhatIsSwitchedOff) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("CUSTOMCCL_DISABLE", "memfd,membarrier,process_vm_readv", 1);
  EXPECT_EXIT(
      {
        const auto all = probe_mechanisms();
        const bool said = find(all, "shared memory")->detail.find("memfd_create: ") != std::string::npos &&
                          !find(all, "sealed memory")->works && !find(all, "membarrier")->works &&
                          !find(all, "process memory")->works;
        ::_exit(said ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  ::unsetenv("CUSTOMCCL_DISABLE");
}

}  // namespace
}  // namespace customccl
