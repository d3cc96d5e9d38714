#include <gtest/gtest.h>

#include "support/again.h"
#include "support/letter.h"
#include "support/ranks.h"

// Groups whose memory does not suffice for what they are asked.

namespace customccl::test {
namespace {

using namespace std::chrono_literals;

// With a ring that is larger than the arena. Both ways that a send begins, small and large.
TEST(DISABLED_NoRoom, ForARingEndsTheGroupOnBothRanks) {
  run_threads(2, [](const Rank& rank) {
    for (const std::size_t count : {kSmall, kLarge}) {
      const auto group = rank.join(std::to_string(count), 1h);
      const bool sends = rank.number() == 0;
      const Letter letter = plain(sends ? Op::kSend : Op::kRecv, count, 1, 1 - rank.number(), 0);
      const Status status = group->run(letter.call());
      EXPECT_EQ(status.code, Code::kSystem) << status.message();
      EXPECT_NE(status.message().find("CUSTOMCCL_ARENA_BYTES"), std::string::npos) << status.message();
      const char* who = sends ? "send #1 to rank 41" : "gave the group up";
      EXPECT_NE(status.message().find(who), std::string::npos) << status.message();
      EXPECT_EQ(group->health().code, Code::kSystem);
    }
  });
}

TEST(NoRoom, IsAFailureOfTheWholeGroup) {
  const Watchdog watchdog("the suite of groups without room");
  EXPECT_EQ(run_again("DISABLED_NoRoom.*", {"CUSTOMCCL_ARENA_BYTES=16M", "CUSTOMCCL_MAILBOX_BYTES=64M"}), 0);
}

}  // namespace
}  // namespace customccl::test
