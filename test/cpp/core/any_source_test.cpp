#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "support/letter.h"
#include "support/ranks.h"

// Recvs that take a message from whichever rank sends one.

namespace customccl::test {
namespace {

TEST(Messages, FromAnybodyAreAwaitedUntilEverybodyHasLeft) {
  std::atomic<bool> first_left{false};
  std::atomic<bool> second_posted{false};
  run_threads(4, [&](const Rank& rank) {
    auto group = rank.join("g");
    const Letter letter =
        plain(rank.number() == 0 ? Op::kRecv : Op::kSend, kSmall, 1, rank.number() == 0 ? kAnySource : 0, 5);
    if (rank.number() == 0) {
      const auto task = post(*group, letter);
      group->wait(*task, Nanos{0});
      EXPECT_TRUE(task->status().ok()) << task->status().message();
      EXPECT_EQ(task->source(), 2);
      EXPECT_EQ(letter.verify(), "");
      const Letter never = plain(Op::kRecv, kSmall, 1, kAnySource, 5);
      const auto vain = post(*group, never);
      second_posted = true;
      group->wait(*vain, Nanos{0});
      EXPECT_EQ(vain->status().code, Code::kPeerLeft);
      EXPECT_NE(vain->status().message().find("every other rank destroyed the group"), std::string::npos)
          << vain->status().message();
    } else if (rank.number() == 1) {
      group.reset();
      first_left = true;
    } else if (rank.number() == 2) {
      while (!first_left) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(30));  // long enough for rank 0 to look for failures
      EXPECT_TRUE(group->run(letter.call()).ok());
    } else {
      while (!second_posted) std::this_thread::yield();
    }
  });
}

TEST(Messages, FromAnybodyAreNotAwaitedOfWhoHasLeft) {
  std::atomic<bool> first_left{false};
  std::atomic<bool> gave_up{false};
  run_threads(3, [&](const Rank& rank) {
    auto group = rank.join("g");
    if (rank.number() == 1) {
      group.reset();
      first_left = true;
    } else if (rank.number() == 2) {
      while (!gave_up) std::this_thread::yield();
    } else {
      while (!first_left) std::this_thread::yield();
      Letter letter = plain(Op::kRecv, kSmall, 1, kAnySource, 5);
      letter.set_timeout(std::chrono::milliseconds(20));
      const Status status = group->run(letter.call());
      gave_up = true;
      EXPECT_EQ(status.code, Code::kTimeout) << status.message();
      EXPECT_EQ(status.culprit, 2 + Rank::kGlobal) << status.message();
      EXPECT_EQ(status.message().find("rank 41"), std::string::npos) << status.message();
    }
  });
}

TEST(Messages, FromAnybodyAreAwaitedOfThisRankWhereItIsAlone) {
  run_threads(1, [](const Rank& rank) {
    const auto group = rank.join("g");
    Letter letter = plain(Op::kRecv, kSmall, 1, kAnySource, 5);
    letter.set_timeout(std::chrono::milliseconds(20));
    const Status status = group->run(letter.call());
    EXPECT_EQ(status.code, Code::kTimeout) << status.message();
    EXPECT_EQ(status.culprit, Rank::kGlobal) << status.message();
    EXPECT_NE(status.message().find("waited in vain for rank 40"), std::string::npos) << status.message();
  });
}

TEST(Messages, FromAnybodyTellTheirSource) {
  constexpr int kSize = 4;
  run_threads(kSize, [](const Rank& rank) {
    const auto group = rank.join("g");
    const auto tag_of = [](std::size_t count) { return static_cast<std::int64_t>(count); };
    if (rank.number() != 0) {
      for (const std::size_t count : {kSmall, kLarge}) {
        ASSERT_TRUE(group->run(plain(Op::kSend, count, 1, 0, tag_of(count)).call()).ok());
      }
      return;
    }
    for (const std::size_t count : {kSmall, kLarge}) {
      std::vector<int> sources;
      for (int i = 1; i < kSize; ++i) {
        const Letter letter = plain(Op::kRecv, count, 1, kAnySource, tag_of(count));
        const auto task = post(*group, letter);
        group->wait(*task, Nanos{0});
        ASSERT_TRUE(task->status().ok()) << task->status().message();
        EXPECT_EQ(letter.verify(), "");
        sources.push_back(task->source());
      }
      std::sort(sources.begin(), sources.end());
      EXPECT_EQ(sources, (std::vector<int>{1, 2, 3}));
    }
  });
}

}  // namespace
}  // namespace customccl::test
