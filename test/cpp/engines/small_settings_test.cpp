#include <gtest/gtest.h>

#include <string>

#include "support/again.h"
#include "support/ranks.h"

// The suites of this program under other settings.

namespace customccl::test {
namespace {

// The suites of collectives for 2, 5 and 8 ranks; without the last, minutes of waiting for a turn, under sanitizers.
std::string some() {
  const std::string few = "ManyRanks*:Ranks/Collectives.*/1:Ranks/Collectives.*/4";
  return sanitized() ? few : few + ":Ranks/Collectives.*/7";
}

TEST(SmallSettings, CollectivesAreRightWithTheSmallestSlotsSoThatEverythingTakesManyChunks) {
  const Watchdog watchdog("the suites with small slots");
  EXPECT_EQ(run_again(some(), {"CUSTOMCCL_SLOT_BYTES=4096", "CUSTOMCCL_ONE_SHOT_BYTES=256"}), 0);
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

TEST(SmallSettings, CollectivesAreRightWhereTensorsOfAnySizeAreReadInThePeersMemory) {
  const Watchdog watchdog("the suites that read peers");
  EXPECT_EQ(run_again(some(), {"CUSTOMCCL_READ_PEERS=1"}), 0);
  EXPECT_EQ(run_again("ManyRanks*:Ranks/Collectives.AreRightBackToBack*/3",
                      {"CUSTOMCCL_READ_PEERS=100", "CUSTOMCCL_SLOT_BYTES=4096"}),
            0);
  EXPECT_EQ(run_again("DISABLED_ReadPeers.*", {"CUSTOMCCL_READ_PEERS=1"}), 0);
}

TEST(SmallSettings, CollectivesAreRightWhereTheSystemRefusesToReadPeers) {
  const Watchdog watchdog("the suites that may not read peers");
  EXPECT_EQ(run_again("DISABLED_UnreadPeers.*:Ranks/Collectives.AreRightBackToBack*/1",
                      {"CUSTOMCCL_READ_PEERS=1", "CUSTOMCCL_DISABLE=process_vm_readv"}),
            0);
  EXPECT_EQ(run_again("DISABLED_UnreadPeers.*", {"CUSTOMCCL_READ_PEERS=off"}), 0);
}

}  // namespace
}  // namespace customccl::test
