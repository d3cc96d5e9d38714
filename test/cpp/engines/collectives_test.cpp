#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>

#include "platform/cpu.h"
#include "platform/settings.h"
#include "support/ranks.h"
#include "support/trial.h"

// Every collective through the communicator: each op and dtype at every size where another algorithm takes over.
// Run again with small slots by small_settings_test.cpp.

namespace customccl::test {
namespace {

constexpr std::array kCollectives{Op::kAllReduce, Op::kReduce,  Op::kBroadcast, Op::kAllGather, Op::kReduceScatter,
                                  Op::kGather,    Op::kScatter, Op::kAllToAll,  Op::kBarrier};
constexpr std::array kSomeTypes{DType::kUInt8, DType::kBFloat16, DType::kFloat32, DType::kComplex128};

class Collectives : public testing::TestWithParam<int> {
 protected:
  using Body = std::function<void(Communicator&, const Rank&)>;

  // One group of the parameter's size.
  void with_group(const Body& body) {
    run_threads(GetParam(), [&](const Rank& rank) {
      const auto group = rank.join("g");
      ASSERT_NE(group, nullptr);
      body(*group, rank);
      group->close();
    });
  }

  static void expect_right(Communicator& group, const Trial& trial, int rank) {
    const Part part(trial, rank);
    const Status status = group.run(part.call());
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(part.verify(), "") << "rank " << rank << ": " << trial.describe();
  }

  // Where another algorithm or another number of chunks begins, in bytes per block.
  static std::vector<std::size_t> turning_points(int size) {
    const std::size_t slot = settings().slot_bytes;
    const std::size_t one_shot = settings().one_shot_bytes / static_cast<std::size_t>(size);
    const std::size_t share = slot / static_cast<std::size_t>(size);
    return {0,
            1,
            16,
            47,
            48,
            49,
            share,
            one_shot,
            one_shot + 16,
            slot / 16,
            slot / 16 + 4,
            slot / 4,
            slot / 4 + 4,
            slot / 2,
            slot / 2 + 4,
            std::min(slot, std::size_t{384} << 10) / 2,
            std::min(slot, std::size_t{384} << 10) / 2 + 4,
            slot - 16,
            slot,
            slot + 1};
  }
};

TEST_P(Collectives, AreRightForEveryOpAndSizeAroundTheTurningPoints) {
  with_group([](Communicator& group, const Rank& rank) {
    auto number = static_cast<std::size_t>(rank.size());
    for (const Op op : kCollectives) {
      for (const std::size_t bytes : turning_points(rank.size())) {
        if (!chosen(number++)) continue;
        const DType dtype = kSomeTypes[bytes % kSomeTypes.size()];
        Trial trial = even_trial(op, rank.size(), dtype, (bytes + size_of(dtype) - 1) / size_of(dtype));
        trial.root = static_cast<int>(bytes) % rank.size();
        trial.seed = bytes;
        expect_right(group, trial, rank.number());
      }
    }
  });
}

// The one does not know yet that the other's differ when it stages its part.
TEST_P(Collectives, AreRightWhereOnlySomeRanksHaveEqualCountsPerPeer) {
  with_group([](Communicator& group, const Rank& rank) {
    const auto last = static_cast<std::size_t>(rank.size() * rank.size() - 1);
    std::size_t number = 4;  // the largest is chosen
    for (const std::size_t count : {3, 700, 30'000, 49'152, 200'000}) {
      Trial trial = even_trial(Op::kAllToAll, rank.size(), DType::kFloat32, count);
      for (std::size_t turn = 0; turn < 4; ++turn) {
        if (!chosen(number++)) continue;
        trial.counts[last] = count + turn;  // of the last rank for itself
        trial.seed = turn;
        expect_right(group, trial, rank.number());
      }
    }
  });
}

// Two ranks know by their own calls what comes, up to some size: one way little and much the other, and roots that differ from both.
TEST_P(Collectives, AreRightWithLittleOneWayAndMuchTheOther) {
  with_group([](Communicator& group, const Rank& rank) {
    constexpr std::array<std::size_t, 8> kCounts{0, 5, 12, 13, 700, 49'152, 49'153, 200'000};
    std::size_t number = 0;
    if (rank.size() == 1) return;
    for (const Op op : {Op::kAllToAll, Op::kGather, Op::kScatter}) {
      for (const std::size_t one : kCounts) {
        for (const std::size_t other : kCounts) {
          if (!chosen(number++)) continue;
          Trial trial = even_trial(op, rank.size(), DType::kFloat32, 3);
          trial.counts.back() = 700;  // of the last rank for itself
          trial.counts[1] = one;
          trial.counts[trial.counts.size() - 2] = other;
          trial.root = static_cast<int>(number) % rank.size();
          trial.seed = number;
          expect_right(group, trial, rank.number());
        }
      }
    }
  });
}

TEST_P(Collectives, AreRightOverSeveralSlotsWithAnOddTail) {
  with_group([](Communicator& group, const Rank& rank) {
    auto number = static_cast<std::size_t>(rank.size());
    for (const Op op : kCollectives) {
      if (!chosen(number++)) continue;
      const bool per_pair = op == Op::kAllToAll || op == Op::kAllGather || op == Op::kReduceScatter;
      const std::size_t slots = per_pair ? 2 : 3;
      Trial trial = even_trial(op, rank.size(), DType::kFloat32, slots * settings().slot_bytes / 4 + 1237);
      trial.root = rank.size() - 1;
      trial.joined = true;
      expect_right(group, trial, rank.number());
    }
  });
}

TEST_P(Collectives, AreRightForEveryRootAndShape) {
  with_group([](Communicator& group, const Rank& rank) {
    for (const Op op : kCollectives) {
      for (int choice = rank.size() % 2; choice < kShapes * kShapes * 2; choice += 1 + rank.size() / 3) {
        Trial trial = even_trial(op, rank.size(), DType::kInt32, choice % 3 == 0 ? 9 : 7 * 311);
        trial.input_shape = static_cast<Shape>(choice % kShapes);
        trial.output_shape = static_cast<Shape>(choice / kShapes % kShapes);
        trial.in_place = choice >= kShapes * kShapes;
        trial.joined = choice % 2 == 0;
        trial.root = choice % rank.size();
        expect_right(group, trial, rank.number());
      }
    }
  });
}

TEST_P(Collectives, ReduceEveryDtypeWithEveryOpInSmallAndLarge) {
  with_group([](Communicator& group, const Rank& rank) {
    for (const DTypeInfo& type : kDTypes) {
      for (std::size_t choice = 0; choice < kReduceOpNames.size(); ++choice) {
        const auto reduce_op = static_cast<ReduceOp>(choice);
        if (!is_defined(reduce_op, type.dtype)) continue;
        for (const Op op : {Op::kAllReduce, Op::kReduce, Op::kReduceScatter}) {
          const bool large = (choice + static_cast<std::size_t>(op)) % 3 == 0;  // above the limit of one shot
          const std::size_t count = large ? settings().one_shot_bytes / type.size + 77 : 3;
          Trial trial = even_trial(op, rank.size(), type.dtype, count);
          trial.reduce_op = reduce_op;
          trial.root = static_cast<int>(choice) % rank.size();
          expect_right(group, trial, rank.number());
        }
      }
    }
  });
}

TEST_P(Collectives, AreRightWithUnevenCountsAndWithRanksThatGiveOrGetNothing) {
  Dice dice(static_cast<std::uint64_t>(GetParam()));
  std::vector<Trial> trials;
  while (trials.size() < 60) {
    Trial trial = random_trial(dice, GetParam(), 96 << 10);
    if (trial.counts.size() > 1 || GetParam() == 1) trials.push_back(trial);
  }
  with_group([&](Communicator& group, const Rank& rank) {
    for (const Trial& trial : trials) expect_right(group, trial, rank.number());
  });
}

// What arrives must not replace what has not left yet, whatever else a rank has to send.
TEST_P(Collectives, ExchangeInPlaceOverSeveralSlotsWhenSomePairsHaveNothingForEachOther) {
  with_group([](Communicator& group, const Rank& rank) {
    Trial trial = even_trial(Op::kAllToAll, rank.size(), DType::kInt32, settings().slot_bytes / 2 + 77);
    trial.in_place = trial.joined = true;
    const auto n = static_cast<std::size_t>(rank.size());
    for (std::size_t other = 2; other < n; ++other) trial.counts[0 * n + other] = trial.counts[other * n + 0] = 0;
    expect_right(group, trial, rank.number());
  });
}

// A tensor of the arena is read where it lies by the ranks that need it, and is another operation's memory as soon as its own
// rank is through: what is read too late is wrong.
TEST_P(Collectives, ReadTensorsOfTheArenaWhereTheyLieAndOnlyWhileTheirRankIsInTheOperation) {
  with_group([](Communicator& group, const Rank& rank) {
    auto number = static_cast<std::size_t>(rank.size());
    for (const Op op : {Op::kAllReduce, Op::kReduce, Op::kBroadcast, Op::kAllGather, Op::kReduceScatter, Op::kScatter,
                        Op::kGather, Op::kAllToAll}) {
      for (int choice = 0; choice < 8; ++choice) {
        if (!chosen(number++)) continue;
        const bool shows = choice < 4 || rank.number() % 2 == choice % 2;  // all ranks, or every other one
        Trial trial = even_trial(op, rank.size(), DType::kFloat32, settings().slot_bytes / 4 * 3 / 2 + 77);
        trial.input_shape = shows ? Shape::kShared : Shape::kPlain;
        trial.output_shape = shows && choice % 4 != 3 ? Shape::kShared : Shape::kPlain;
        trial.in_place = choice % 4 < 2;
        trial.joined = true;
        trial.root = choice % rank.size();
        trial.seed = number;
        expect_right(group, trial, rank.number());
      }
    }
  });
}

// Random operations back to back, no rank waits for another but through them: finds what one operation leaves to the next.
TEST_P(Collectives, AreRightBackToBackInAnyOrderAndSize) {
  const auto seed = static_cast<std::uint64_t>(GetParam()) + 7000;
  const int count = rounds(150);
  SCOPED_TRACE("seed " + std::to_string(seed));
  with_group([&](Communicator& group, const Rank& rank) {
    Dice dice(seed);
    Dice skew(seed * 100 + static_cast<std::uint64_t>(rank.number()));
    for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
      const Trial trial = random_trial(dice, rank.size(), dice.one_in(40) ? 6 << 20 : 24 << 10);
      for (auto pause = skew.below(std::uint64_t{4}); pause > 2; --pause) std::this_thread::yield();
      expect_right(group, trial, rank.number());
    }
  });
}

// More ranks than a small slot has cache lines.
TEST(ManyRanks, GetRightResults) {
  for (const int size : {17, 70}) {
    Dice dice(static_cast<std::uint64_t>(size));
    std::vector<Trial> trials;
    for (int i = 0; i < std::max(3, rounds(12)); ++i) trials.push_back(random_trial(dice, size, 300 << 10));
    run_threads(size, [&](const Rank& rank) {
      const auto group = rank.join("g");
      for (const Trial& trial : trials) {
        const Part part(trial, rank.number());
        const Status status = group->run(part.call());
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_EQ(part.verify(), "") << "rank " << rank.number() << ": " << trial.describe();
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Range(1, 9));

// They are read in rows, and written around the caches where they are only moved (shm_engine.cpp).
TEST(LargeTensors, ThatExceedTheLastLevelCacheAreRight) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    for (const Op op : {Op::kAllGather, Op::kBroadcast, Op::kAllToAll, Op::kAllReduce}) {
      const bool one_block = op == Op::kBroadcast || op == Op::kAllReduce;
      const std::size_t block = last_level_cache() / (one_block ? 2 : 4);
      const Trial trial = even_trial(op, 2, DType::kInt32, block / 4 + 1237);
      const Part part(trial, rank.number());
      const Status status = group->run(part.call());
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(part.verify(), "") << "rank " << rank.number() << ": " << trial.describe();
    }
  });
}

}  // namespace
}  // namespace customccl::test
