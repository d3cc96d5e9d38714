#include <gtest/gtest.h>

#include "support/again.h"
#include "support/ranks.h"

// Suites that end groups and processes at any moment, where ranks read each other's tensors in each other's memory.

namespace customccl::test {
namespace {

TEST(ReadPeersProcess, EndsAsEverythingElse) {
  const Watchdog watchdog("the suites of deaths and closed groups with ranks that are read");
  EXPECT_EQ(run_again("DeathProcess.*:ForkProcess.*:Closing.*:Abort.*:Timeouts.*:Mismatch.*:Suspension.*",
                      {"CUSTOMCCL_READ_PEERS=1"}),
            0);
}

}  // namespace
}  // namespace customccl::test
