#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "core/random_program.h"
#include "support/letter.h"
#include "support/trial.h"

namespace customccl::test {
namespace {

class Sequences : public testing::TestWithParam<int> {};

TEST_P(Sequences, OfAnythingInFlightAtOnceAreRightBetweenThreads) {
  const std::uint64_t seed = 100 + static_cast<std::uint64_t>(GetParam());
  SCOPED_TRACE("seed " + std::to_string(seed));
  run_threads(GetParam(), [&](const Rank& rank) {
    const auto group = rank.join("g");
    random_program(rank, *group, seed, rounds(200));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Sequences, testing::Range(1, 9));

TEST(SequencesProcess, OfAnythingInFlightAtOnceAreRightBetweenProcesses) {
  for (const int size : {2, 3, 5, 8}) {
    const std::uint64_t seed = 200 + static_cast<std::uint64_t>(size);
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_processes(size, [&](const Rank& rank) {
      const auto group = rank.join("g");
      random_program(rank, *group, seed, rounds(150));
    });
  }
}

// What is staged moves on through more places as turns go by (staging.h): some thousand operations that each use one or a few.
TEST(Groups, StayRightAsTheirStagingOpensMorePlaces) {
  for (const int size : {2, 3}) {
    run_threads(size, [](const Rank& rank) {
      const auto group = rank.join("g");
      Dice dice(400 + static_cast<std::uint64_t>(rank.size()));
      for (int i = 0; i < rounds(5000); ++i) {
        const Trial trial = random_trial(dice, rank.size(), 12'000);
        const Part part(trial, rank.number());
        ASSERT_TRUE(group->run(part.call()).ok()) << i << ": " << trial.describe();
        ASSERT_EQ(part.verify(), "") << i << ": " << trial.describe();
      }
    });
  }
}

// One side writes while the other reads, in pieces that move on (staging.h): from some KiB to beyond a slot, between operations that
// use the same staging otherwise.
TEST(Groups, StayRightWhereOneSideOnlyWrites) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    for (int i = 0; i < rounds(300); ++i) {
      for (const Op op : {Op::kBroadcast, Op::kAllReduce, Op::kGather, Op::kScatter, Op::kReduce}) {
        const std::size_t count = (std::size_t{1} << (10 + i % 9)) + static_cast<std::size_t>(i % 7) * 37;
        const Trial trial = even_trial(op, 2, DType::kFloat32, count);
        const Part part(trial, rank.number());
        ASSERT_TRUE(group->run(part.call()).ok()) << i << ": " << trial.describe();
        ASSERT_EQ(part.verify(), "") << i << ": " << trial.describe();
      }
    }
  });
}

// Two ranks write where they have read (staging.h): operations of one turn, of two and of many, between others that stage nothing.
TEST(Groups, StayRightWhereTwoRanksExchangeTheirStaging) {
  constexpr std::array kOps{Op::kAllReduce, Op::kAllReduce,     Op::kAllReduce, Op::kReduce,
                            Op::kAllGather, Op::kReduceScatter, Op::kAllToAll,  Op::kBarrier};
  constexpr std::array kTypes{DType::kFloat32, DType::kBFloat16, DType::kInt64};
  constexpr std::array<std::size_t, 9> kBytes{8, 100, 3000, 40'000, 100'000, 200'000, 300'000, 500'000, 700'000};
  run_threads(2, [&](const Rank& rank) {
    const auto group = rank.join("g");
    Dice dice(500);
    for (int i = 0; i < rounds(400); ++i) {
      const Op op = kOps[dice.below(kOps.size())];
      const DType dtype = kTypes[dice.below(kTypes.size())];
      const std::size_t count = kBytes[dice.below(kBytes.size())] / size_of(dtype) + dice.below(std::size_t{3});
      const Trial trial = even_trial(op, 2, dtype, count);
      const Part part(trial, rank.number());
      ASSERT_TRUE(group->run(part.call()).ok()) << i << ": " << trial.describe();
      ASSERT_EQ(part.verify(), "") << i << ": " << trial.describe();
    }
  });
}

TEST(Groups, OverTheSameRanksWorkFromTwoThreadsAtOnce) {
  run_threads(3, [&](const Rank& rank) {
    const auto work = [&rank](const std::string& name, std::uint64_t seed) {
      const auto group = rank.join(name);
      random_program(rank, *group, seed, rounds(120));
    };
    std::thread other(work, "one", 301);
    work("two", 302);
    other.join();
  });
}

// Rank 0 issues on group a first, rank 1 on group b first: whoever waits must move the other group too.
TEST(Groups, MayGetTheirAsynchronousOperationsInOppositeOrder) {
  run_threads(2, [](const Rank& rank) {
    const auto a = rank.join("a");
    const auto b = rank.join("b");
    for (int i = 0; i < rounds(100); ++i) {
      const Part for_a(even_trial(Op::kAllReduce, 2, DType::kFloat32, i % 2 == 0 ? 5 : 400'000), rank.number());
      const Part for_b(even_trial(Op::kAllGather, 2, DType::kFloat32, i % 3 == 0 ? 5 : 300'000), rank.number());
      const auto task_a = std::make_shared<Task>(for_a.call(), a->limit_of(for_a.call()));
      const auto task_b = std::make_shared<Task>(for_b.call(), b->limit_of(for_b.call()));
      if (rank.number() == 0) {
        a->post(task_a);
        b->post(task_b);
        a->wait(*task_a, Nanos{0});
        b->wait(*task_b, Nanos{0});
      } else {
        b->post(task_b);
        a->post(task_a);
        b->wait(*task_b, Nanos{0});
        a->wait(*task_a, Nanos{0});
      }
      ASSERT_EQ(for_a.verify(), "");
      ASSERT_EQ(for_b.verify(), "");
    }
  });
}

// {async A; send} against {recv; A}: posting must not wait.
TEST(Groups, DoNotLockWhenACollectiveIsPostedBeforeAMessageThatThePeerWantsFirst) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    for (int i = 0; i < rounds(50); ++i) {
      const Part part(even_trial(Op::kAllReduce, 2, DType::kInt32, 1 << 18), rank.number());
      const auto task = std::make_shared<Task>(part.call(), group->limit_of(part.call()));
      const int peer = 1 - rank.number();
      const auto value = static_cast<std::uint64_t>(i);
      Letter letter(rank.number() == 0 ? Op::kSend : Op::kRecv, DType::kInt32, 200'000, Shape::kPlain, value, peer, 1);
      if (rank.number() == 0) group->post(task);
      ASSERT_TRUE(group->run(letter.call()).ok());
      if (rank.number() == 1) group->post(task);
      group->wait(*task, Nanos{0});
      ASSERT_EQ(part.verify(), "");
      ASSERT_EQ(letter.verify(), "");
    }
  });
}

}  // namespace
}  // namespace customccl::test
