#include <gtest/gtest.h>

#include "host/own_arena.h"
#include "support/letter.h"
#include "support/ranks.h"
#include "support/trial.h"

// Groups that give their staging back for a while.

namespace customccl::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kCount = 100'000;

Trial suspended_reduction(int size) { return even_trial(Op::kAllReduce, size, DType::kFloat32, kCount); }

void expect_works(Communicator& group, const Rank& rank) {
  for (const Op op : {Op::kAllReduce, Op::kAllGather, Op::kAllToAll, Op::kBroadcast}) {
    for (const std::size_t count : {std::size_t{3}, kCount}) {
      const Part part(even_trial(op, rank.size(), DType::kFloat32, count), rank.number());
      ASSERT_TRUE(group.run(part.call()).ok());
      ASSERT_EQ(part.verify(), "");
    }
  }
}

TEST(Suspension, GivesTheStagingBackAndMakesItAnew) {
  for (const int size : {2, 3}) {
    run_threads(size, [&](const Rank& rank) {
      const auto group = rank.join("g");
      for (int round = 0; round < 3; ++round) {
        expect_works(*group, rank);
        const std::size_t staging = group->staging_bytes();
        EXPECT_GT(staging, 0u);
        ASSERT_TRUE(group->suspend().ok());
        EXPECT_TRUE(group->suspended());
        EXPECT_EQ(group->staging_bytes(), 0u);
        ASSERT_TRUE(group->resume().ok());
        EXPECT_FALSE(group->suspended());
        EXPECT_EQ(group->staging_bytes(), staging);
      }
      expect_works(*group, rank);
    });
  }
}

TEST(Suspension, OfAGroupWithoutStagingIsFine) {
  for (const int size : {1, 2}) {
    run_threads(size, [&](const Rank& rank) {
      const auto group = rank.join("g");
      ASSERT_TRUE(group->suspend().ok());
      ASSERT_TRUE(group->resume().ok());
      expect_works(*group, rank);
    });
  }
}

TEST(Suspension, RefusesOperationsWithASentenceAndTheGroupGoesOn) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    EXPECT_EQ(group->resume().code, Code::kInvalidArgument);
    ASSERT_TRUE(group->suspend().ok());
    EXPECT_EQ(group->suspend().code, Code::kInvalidArgument);
    const Part part(suspended_reduction(2), rank.number());
    const Letter letter(Op::kSend, DType::kInt32, 5, Shape::kPlain, 1, 1 - rank.number(), 3);
    for (const Call& call : {part.call(), letter.call(), Call()}) {
      const Status status = group->run(call);
      EXPECT_EQ(status.code, Code::kInvalidArgument);
      EXPECT_NE(status.message().find("the group is suspended. Call resume()"), std::string::npos) << status.message();
    }
    EXPECT_TRUE(group->health().ok());
    ASSERT_TRUE(group->resume().ok());
    expect_works(*group, rank);
  });
}

// Nobody waits for the works: the barrier of suspend() comes after them.
TEST(Suspension, FinishesWhatIsInFlight) {
  run_threads(3, [](const Rank& rank) {
    const auto group = rank.join("g");
    std::vector<std::unique_ptr<Part>> parts;
    std::vector<std::shared_ptr<Task>> tasks;
    for (int i = 0; i < 5; ++i) {
      parts.push_back(std::make_unique<Part>(suspended_reduction(3), rank.number()));
      tasks.push_back(std::make_shared<Task>(parts.back()->call(), group->limit_of(parts.back()->call())));
      group->post(tasks.back());
    }
    ASSERT_TRUE(group->suspend().ok());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_TRUE(tasks[i]->done() && tasks[i]->status().ok());
      EXPECT_EQ(parts[i]->verify(), "");
    }
    ASSERT_TRUE(group->resume().ok());
    expect_works(*group, rank);
  });
}

// A message lies in a ring, which stays.
TEST(Suspension, KeepsMessagesThatNobodyHasReceived) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    Letter letter(rank.number() == 0 ? Op::kSend : Op::kRecv, DType::kInt32, 500, Shape::kPlain, 7, 1 - rank.number(),
                  3);
    if (rank.number() == 0) {
      EXPECT_EQ(group->run(letter.call()).message(), "");
    }
    ASSERT_TRUE(group->suspend().ok());
    ASSERT_TRUE(group->resume().ok());
    if (rank.number() == 1) {
      EXPECT_EQ(group->run(letter.call()).message(), "");
    }
    EXPECT_EQ(letter.verify(), "");
  });
}

TEST(Suspension, IsNotTakenForABarrier) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    const Status status = rank.number() == 0 ? group->suspend() : group->run(Call());
    EXPECT_EQ(status.code, Code::kMismatch);
    EXPECT_NE(status.message().find("called barrier #1 (of suspend())"), std::string::npos) << status.message();
  });
}

TEST(Suspension, WaitsNoLongerThanTheTimeout) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g", 100ms);
    if (rank.number() == 1) return rank.meet("the other gave up");
    EXPECT_EQ(group->suspend().code, Code::kTimeout);
    EXPECT_FALSE(group->suspended());
    rank.meet("the other gave up");
  });
}

TEST(Suspension, ASuspendedGroupIsDestroyedWithoutATrace) {
  const std::size_t before = arena().bytes_in_use();
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    expect_works(*group, rank);
    ASSERT_TRUE(group->suspend().ok());
    rank.meet("both are suspended");
  });
  run_threads(2, [](const Rank& rank) { rank.join("another, which takes back what is free"); });
  EXPECT_LE(arena().bytes_in_use(), before + (1 << 20));
}

}  // namespace
}  // namespace customccl::test
