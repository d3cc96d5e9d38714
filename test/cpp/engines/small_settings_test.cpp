#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "support/ranks.h"

// Settings are read once per process, so this program runs its own suites again under other settings.

extern char** environ;

namespace customccl::test {
namespace {

int run_again(const std::string& filter, const std::vector<std::string>& settings) {
  constexpr const char* kNested = "CUSTOMCCL_TEST_NESTED";
  if (std::getenv(kNested) != nullptr) return -3;  // a filter that chooses this suite too would never end
  std::vector<std::string> words{"/proc/self/exe", "--gtest_filter=" + filter, "--gtest_brief=1"};
  std::vector<std::string> variables = settings;
  variables.push_back(std::string(kNested) + "=1");
  for (char** each = environ; *each != nullptr; ++each) variables.emplace_back(*each);
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (std::string& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
  };
  pid_t child = 0;
  if (::posix_spawn(&child, words[0].c_str(), nullptr, nullptr, pointers(words).data(), pointers(variables).data()) !=
      0) {
    return -1;
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

// The suites of collectives for 2, 5 and 8 ranks.
const std::string kSome = "ManyRanks*:Ranks/Collectives.*/1:Ranks/Collectives.*/4:Ranks/Collectives.*/7";

TEST(SmallSettings, CollectivesAreRightWithTheSmallestSlotsSoThatEverythingTakesManyChunks) {
  const Watchdog watchdog("the suites with small slots");
  EXPECT_EQ(run_again(kSome, {"CUSTOMCCL_SLOT_BYTES=4096", "CUSTOMCCL_ONE_SHOT_BYTES=256"}), 0);
}

TEST(SmallSettings, CollectivesAreRightWithoutProcessBarriersAndWithStreamingStores) {
  const Watchdog watchdog("the suites without membarrier");
  EXPECT_EQ(run_again("Bits*:Ranks/Collectives.AreRightBackToBack*/3",
                      {"CUSTOMCCL_SLOT_BYTES=16K", "CUSTOMCCL_ONE_SHOT_BYTES=0", "CUSTOMCCL_DISABLE=memfd,membarrier",
                       "CUSTOMCCL_STORE_POLICY=streaming", "CUSTOMCCL_SPIN_US=0", "CUSTOMCCL_YIELD_US=0"}),
            0);
}

TEST(SmallSettings, CollectivesAreRightWithStreamingStoresAlone) {
  const Watchdog watchdog("the suites with streaming stores");
  EXPECT_EQ(run_again("Ranks/Collectives.*/1:Ranks/Collectives.*/2", {"CUSTOMCCL_STORE_POLICY=streaming"}), 0);
}

TEST(SmallSettings, CollectivesAreRightInSlotsThatAreNoWholeNumberOfCacheLines) {
  const Watchdog watchdog("the suites with odd slots");
  EXPECT_EQ(run_again("Ranks/Collectives.AreRightBackToBack*/2", {"CUSTOMCCL_SLOT_BYTES=5001"}), 0);
}

}  // namespace
}  // namespace customccl::test
