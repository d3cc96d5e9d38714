#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/again.h"
#include "support/ranks.h"

// Suites that end groups and processes at any moment, where ranks read each other's tensors in each other's memory.

namespace customccl::test {
namespace {

const std::vector<std::string> kRead{"CUSTOMCCL_READ_PEERS=1"};

TEST(ReadPeersProcess, DiesAsEveryOther) {
  const Watchdog watchdog("the suites of deaths with ranks that are read");
  EXPECT_EQ(run_again("DeathProcess.*", kRead), 0);
  if (kThreadsMayFork) {
    EXPECT_EQ(run_again("ForkProcess.*", kRead), 0);
  }
}

TEST(ReadPeers, EndAsEverythingElse) {
  const Watchdog watchdog("the suites of closed groups with ranks that are read");
  EXPECT_EQ(run_again("Closing.*:Abort.*:Timeouts.*:Mismatch.*:Suspension.*", kRead), 0);
}

}  // namespace
}  // namespace customccl::test
