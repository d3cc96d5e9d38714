#include <gtest/gtest.h>

#include <algorithm>

#include "platform/cpu.h"
#include "support/dice.h"
#include "support/letter.h"
#include "support/ranks.h"

namespace customccl::test {
namespace {

TEST(Messages, OfEverySizeAndShapeArriveWhole) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    std::uint64_t seed = 0;
    for (const std::size_t count : {0, 1, 5, 6, 7, 1000, 16'383, 16'384, 16'385, 65'536, 65'537, 200'003}) {
      for (int shape = 0; shape < kShapes * kShapes; ++shape) {
        const auto own = static_cast<Shape>(rank.number() == 0 ? shape % kShapes : shape / kShapes);
        const Letter letter(rank.number() == 0 ? Op::kSend : Op::kRecv, DType::kInt32, count, own, ++seed,
                            1 - rank.number(), 7);
        const Status status = group->run(letter.call());
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_EQ(letter.verify(), "") << count << " shape " << shape;
      }
    }
  });
}

TEST(Messages, OfEveryElementSizeArriveWholeInPiecesToo) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    for (const DTypeInfo& type : kDTypes) {
      const Letter letter(rank.number() == 0 ? Op::kSend : Op::kRecv, type.dtype, 100'001, Shape::kGaps, 3,
                          1 - rank.number(), 0);
      const Status status = group->run(letter.call());
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(letter.verify(), "") << type.name;
    }
  });
}

// They are read and written around the caches (message_packets.cpp).
TEST(Messages, ThatExceedTheLastLevelCacheArriveWhole) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    for (const Shape shape : {Shape::kPlain, Shape::kOffset, Shape::kGaps}) {
      const Letter letter(rank.number() == 0 ? Op::kSend : Op::kRecv, DType::kInt32, last_level_cache() / 16 + 1237,
                          shape, 11, 1 - rank.number(), 0);
      const Status status = group->run(letter.call());
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(letter.verify(), "");
    }
  });
}

TEST(Messages, OfOneTagKeepTheirOrderWhateverTheirSizes) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    std::vector<std::unique_ptr<Letter>> letters;
    std::vector<std::shared_ptr<Task>> tasks;
    for (std::uint64_t i = 0; i < 60; ++i) {
      const std::size_t count = i % 3 == 0 ? 50'000 : i % 3 == 1 ? 3 : 9000;
      letters.push_back(std::make_unique<Letter>(rank.number() == 0 ? Op::kSend : Op::kRecv, DType::kInt32, count,
                                                 Shape::kPlain, i, 1 - rank.number(), 5));
      tasks.push_back(post(*group, *letters.back()));
    }
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      group->wait(*tasks[i], Nanos{0});
      ASSERT_TRUE(tasks[i]->status().ok()) << tasks[i]->status().message();
      ASSERT_EQ(letters[i]->verify(), "") << i;
    }
  });
}

TEST(Messages, ToOneselfAreCopiedWhicheverEndComesFirst) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    for (const bool send_first : {true, false}) {
      const Letter out = plain(Op::kSend, kLarge, 4, rank.number(), 1);
      const Letter in(Op::kRecv, DType::kInt32, kLarge, Shape::kTransposed, 4, send_first ? kAnySource : rank.number(),
                      1);
      const auto first = post(*group, send_first ? out : in);
      const auto second = post(*group, send_first ? in : out);
      group->wait(*first, Nanos{0});
      group->wait(*second, Nanos{0});
      EXPECT_TRUE(first->status().ok() && second->status().ok());
      EXPECT_EQ(in.verify(), "");
    }
  });
}

// 10,000 seeds.
TEST(Messages, CompleteInWhateverOrderTheirEndsArePosted) {
  constexpr int kPerGroup = 50;
  const int groups = std::max(1, rounds(10'000) / kPerGroup);
  for (int batch = 0; batch < groups; ++batch) {
    const int size = 2 + batch % 3;
    run_threads(size, [&](const Rank& rank) {
      const auto group = rank.join("g");
      for (int i = 0; i < kPerGroup && !testing::Test::HasFailure(); ++i) {
        const auto seed = static_cast<std::uint64_t>(batch * kPerGroup + i);
        Dice shared(seed), own(seed * 10 + static_cast<std::uint64_t>(rank.number()));
        std::vector<std::unique_ptr<Letter>> letters;
        for (std::int64_t tag = 0; tag < 8; ++tag) {
          const int from = shared.below(size), to = shared.below(size);
          const std::size_t count = shared.one_in(4)   ? 20'000
                                    : shared.one_in(4) ? 4097 + shared.below(std::uint64_t{9000})
                                                       : shared.below(std::uint64_t{40});
          const auto add = [&](Op op, int peer) {
            letters.push_back(std::make_unique<Letter>(op, DType::kInt32, count, Shape::kPlain, seed, peer, tag));
          };
          if (from == rank.number()) add(Op::kSend, to);
          if (to == rank.number()) add(Op::kRecv, from);
        }
        for (std::size_t left = letters.size(); left > 1; --left)
          std::swap(letters[left - 1], letters[own.below(left)]);
        std::vector<std::shared_ptr<Task>> tasks;
        for (const auto& letter : letters) tasks.push_back(post(*group, *letter));
        for (const auto& task : tasks) group->wait(*task, Nanos{0});
        for (std::size_t k = 0; k < tasks.size(); ++k) {
          ASSERT_TRUE(tasks[k]->status().ok()) << "seed " << seed << ": " << tasks[k]->status().message();
          ASSERT_EQ(letters[k]->verify(), "") << "seed " << seed;
        }
      }
    });
  }
}

// A sender may run ahead of a receiver that does not read: until the ring and what is set aside are full, then its sends wait,
// and all arrive once the receiver reads.
TEST(Messages, WaitForAReceiverThatDoesNotRead) {
  static constexpr std::uint64_t kMessages = 500;  // of 60 KB: more than is set aside
  static constexpr std::size_t kCount = 15'000;
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    if (rank.number() == 0) {
      std::vector<std::unique_ptr<Letter>> letters;
      std::vector<std::shared_ptr<Task>> tasks;
      for (std::uint64_t i = 0; i < kMessages; ++i) {
        letters.push_back(std::make_unique<Letter>(Op::kSend, DType::kInt32, kCount, Shape::kPlain, i, 1, 1));
        tasks.push_back(post(*group, *letters.back()));
      }
      EXPECT_FALSE(group->poll(*tasks.back()));
      rank.meet("all posted");
      for (const auto& task : tasks) {
        group->wait(*task, Nanos{0});
        ASSERT_TRUE(task->status().ok());
      }
      return;
    }
    rank.meet("all posted");
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      const Letter letter = plain(Op::kRecv, kCount, i, 0, 1);
      ASSERT_TRUE(group->run(letter.call()).ok());
      ASSERT_EQ(letter.verify(), "") << i;
    }
  });
}

TEST(Messages, ThatWereAcceptedArriveAlthoughTheSenderLeftAtOnce) {
  for (int round = 0; round < rounds(100); ++round) {
    run_threads(2, [](const Rank& rank) {
      const auto group = rank.join("g");
      const Letter letter = plain(rank.number() == 0 ? Op::kSend : Op::kRecv, 5000, 1, 1 - rank.number(), 0);
      const Status status = group->run(letter.call());
      EXPECT_TRUE(status.ok()) << status.message();
      group->close();
      EXPECT_EQ(letter.verify(), "");
    });
  }
}

// Whatever came of it, the receiver must not take it for the message: its sender was told that it failed and may reuse the tensor.
TEST(Messages, WhoseSenderGaveUpFailAtTheReceiverToo) {
  for (const std::size_t count : {kLarge, std::size_t{16 << 20}}) {
    run_threads(2, [&](const Rank& rank) {
      const auto group = rank.join("g");
      Letter letter(rank.number() == 0 ? Op::kSend : Op::kRecv, DType::kInt32, count, Shape::kPlain, 1,
                    1 - rank.number(), 3);
      if (rank.number() == 0) {
        letter.set_timeout(std::chrono::milliseconds(50));
        const Status status = group->run(letter.call());
        EXPECT_EQ(status.code, Code::kTimeout) << status.message();
        rank.meet("gave up");
        return;
      }
      rank.meet("gave up");
      const Status status = group->run(letter.call());
      EXPECT_EQ(status.code, Code::kTimeout) << status.message();
      EXPECT_EQ(status.culprit, 1 + Rank::kGlobal) << status.message();
    });
  }
}

// Pieces of a message of which some came before the recv was posted, and the rest after it.
TEST(Messages, MayBeExpectedWhileTheyArrive) {
  for (int round = 0; round < rounds(40); ++round) {
    run_threads(2, [&](const Rank& rank) {
      const auto group = rank.join("g");
      std::vector<std::unique_ptr<Letter>> letters;
      std::vector<std::shared_ptr<Task>> tasks;
      for (std::int64_t tag = 0; tag < 40; ++tag) {
        const auto shape = static_cast<Shape>((tag + rank.number()) % kShapes);
        letters.push_back(std::make_unique<Letter>(rank.number() == 0 ? Op::kSend : Op::kRecv, DType::kInt32, 16'000,
                                                   shape, static_cast<std::uint64_t>(tag), 1 - rank.number(), tag));
      }
      if (rank.number() == 1) std::reverse(letters.begin(), letters.end());
      for (const auto& letter : letters) tasks.push_back(post(*group, *letter));
      for (const auto& task : tasks) group->wait(*task, Nanos{0});
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        ASSERT_TRUE(tasks[i]->status().ok()) << tasks[i]->status().message();
        ASSERT_EQ(letters[i]->verify(), "") << i;
      }
    });
  }
}

TEST(Messages, OfAnotherSizeOrDtypeThanExpectedAreAnErrorThatNamesBoth) {
  for (const bool other_dtype : {false, true}) {
    for (const std::size_t count : {kSmall, kLarge}) {
      run_threads(2, [&](const Rank& rank) {
        const auto group = rank.join("g");
        const bool sends = rank.number() == 0;
        const DType dtype = sends || !other_dtype ? DType::kInt32 : DType::kFloat32;
        const Letter letter(sends ? Op::kSend : Op::kRecv, dtype, sends || other_dtype ? count : count + 1,
                            Shape::kPlain, 1, 1 - rank.number(), 9);
        Status status = group->run(letter.call());
        if (sends && status.ok())
          status = group->run(Call{});  // an eager send is done before anybody sees it: the next call tells
        EXPECT_EQ(status.code, Code::kMismatch) << status.message();
        EXPECT_NE(status.message().find("rank 40 sent int32 x " + std::to_string(count)), std::string::npos)
            << status.message();
        EXPECT_NE(status.message().find("rank 41 expects"), std::string::npos) << status.message();
      });
    }
  }
}

}  // namespace
}  // namespace customccl::test
