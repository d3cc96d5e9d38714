#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "support/letter.h"
#include "support/ranks.h"
#include "support/trial.h"

// Posted operations, waits with limits, timeouts, abort, close.

namespace customccl::test {
namespace {

using namespace std::chrono_literals;

Trial reduction(int size, std::size_t count = 300'000) {
  return even_trial(Op::kAllReduce, size, DType::kFloat32, count);
}

TEST(Async, TasksNobodyWaitsForComplete) {
  run_threads(3, [](const Rank& rank) {
    const auto group = rank.join("g");
    for (const std::size_t count : {3, 300'000}) {
      const Part part(reduction(3, count), rank.number());
      const auto task = post(*group, part);
      while (!task->done()) std::this_thread::yield();
      EXPECT_TRUE(task->status().ok());
      EXPECT_EQ(part.verify(), "");
    }
  });
}

TEST(Async, AWaitWithALimitEndsAndLeavesTheOperationRunning) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    const Part part(reduction(2), rank.number());
    if (rank.number() == 0) {
      const auto task = post(*group, part);
      EXPECT_FALSE(group->wait(*task, 3ms));
      EXPECT_FALSE(task->done());
      EXPECT_FALSE(group->poll(*task));
      rank.meet("the wait ended");
      EXPECT_TRUE(group->wait(*task, Nanos{0}));
      EXPECT_TRUE(task->status().ok());
    } else {
      rank.meet("the wait ended");
      EXPECT_TRUE(group->run(part.call()).ok());
    }
    EXPECT_EQ(part.verify(), "");
  });
}

// The last send waits for room with a part of it in the ring; the recv of that one may find only this part.
TEST(Async, MessagesThatBeganWithoutATaskGoOnWithOne) {
  constexpr int kRounds = 8;
  std::array<std::atomic<std::size_t>, kRounds> sent{};
  run_threads(2, [&](const Rank& rank) {
    const bool sends = rank.number() == 0;
    for (std::size_t round = 0; round < kRounds; ++round) {
      const auto group = rank.join(std::to_string(round));
      std::vector<std::unique_ptr<Letter>> letters;
      std::vector<std::shared_ptr<Task>> tasks;
      const auto begin_next = [&] {
        letters.push_back(std::make_unique<Letter>(sends ? Op::kSend : Op::kRecv, DType::kInt32, 15'000 - 900 * round,
                                                   Shape::kPlain, letters.size(), 1 - rank.number(), 0));
        Ended ended;
        tasks.push_back(begin(*group, *letters.back(), ended));
        return tasks.back() == nullptr || tasks.back()->done();
      };
      if (sends) {
        while (begin_next()) {
        }
        sent[round] = letters.size();
      }
      rank.meet(std::to_string(round) + ": the ring is full");
      while (letters.size() < sent[round]) {
        if (!tasks.empty() && tasks.back() != nullptr) group->wait(*tasks.back(), Nanos{0});
        begin_next();
      }
      rank.meet(std::to_string(round) + ": the last recv is posted");
      for (std::size_t i = 0; i < sent[round]; ++i) {
        if (tasks[i] != nullptr) {
          group->wait(*tasks[i], Nanos{0});
          ASSERT_TRUE(tasks[i]->status().ok()) << tasks[i]->status().message();
        }
        ASSERT_EQ(letters[i]->verify(), "");
      }
    }
  });
}

// completed() runs once, after done(), with no lock held: it may call the group again.
TEST(Async, CompletionMayPostTheNextOperation) {
  struct Chained final : Task {
    Chained(const Call& call, Nanos limit, std::function<void()> then_) : Task(call, limit), then(std::move(then_)) {}
    void completed() override {
      EXPECT_TRUE(done());
      then();
    }
    std::function<void()> then;
  };
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    const Part first(reduction(2), rank.number());
    const Part second(even_trial(Op::kAllGather, 2, DType::kInt32, 1000), rank.number());
    const auto next = std::make_shared<Task>(second.call(), group->limit_of(second.call()));
    std::atomic<int> calls{0};
    const auto chained = std::make_shared<Chained>(first.call(), group->limit_of(first.call()), [&] {
      group->post(next);
      ++calls;
    });
    group->post(chained);
    while (calls.load() == 0) std::this_thread::yield();
    group->wait(*next, Nanos{0});
    EXPECT_EQ(calls.load(), 1);
    EXPECT_EQ(first.verify(), "");
    EXPECT_EQ(second.verify(), "");
  });
}

TEST(Timeouts, NameTheRankThatDidNotComeAndEndTheGroup) {
  run_threads(3, [](const Rank& rank) {
    const auto group = rank.join("g");
    Trial trial = reduction(3);
    trial.timeout = sanitized() ? 2s : 100ms;
    const Part part(trial, rank.number());
    rank.meet("all are here");  // so that two of them wait for the third
    if (rank.number() == 2) return rank.meet("the others gave up");
    const Status status = group->run(part.call());
    EXPECT_EQ(status.code, Code::kTimeout) << status.message();
    EXPECT_NE(status.message().find("waited in vain for rank 42"), std::string::npos) << status.message();
    EXPECT_EQ(status.culprit, 42);
    EXPECT_EQ(group->run(part.call()).code, Code::kTimeout);
    rank.meet("the others gave up");
  });
}

TEST(Timeouts, OfASingleCallBeatTheGroupsAlsoBehindAnotherOperation) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g", 1h);
    if (rank.number() == 1) return rank.meet("it gave up");
    const Part patient(reduction(2), 0);
    Trial trial = reduction(2, 5);
    trial.timeout = 50ms;
    const Part hasty(trial, 0);
    const auto first = post(*group, patient);
    const auto second = post(*group, hasty);
    group->wait(*second, Nanos{0});
    EXPECT_EQ(second->status().code, Code::kTimeout) << second->status().message();
    group->wait(*first, Nanos{0});
    EXPECT_EQ(first->status().code, Code::kTimeout);
    rank.meet("it gave up");
  });
}

TEST(Timeouts, OfMessagesNameTheRankThatDidNotSendAndTheTag) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g", 1h);
    if (rank.number() == 1) return rank.meet("it gave up");
    Letter letter(Op::kRecv, DType::kInt32, 5, Shape::kPlain, 1, 1, 3);
    letter.set_timeout(50ms);
    const Status status = group->run(letter.call());
    EXPECT_EQ(status.code, Code::kTimeout) << status.message();
    EXPECT_NE(status.message().find("recv #1 from rank 41 with tag 3 of group"), std::string::npos) << status.message();
    rank.meet("it gave up");
  });
}

// Traffic with other tags must not keep a wait from seeing its deadline.
TEST(Timeouts, ComeAlsoWhileOtherMessagesFlow) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g", 1h);
    std::atomic<bool> over{false};
    const int peer = 1 - rank.number();
    const auto chatter = [&](Op op) {
      while (!over.load()) {
        const Letter letter(op, DType::kInt32, 3000, Shape::kPlain, 1, peer, 1);
        if (!group->run(letter.call()).ok()) break;
      }
    };
    std::thread sending(chatter, Op::kSend), receiving(chatter, Op::kRecv);
    Letter never(Op::kRecv, DType::kInt32, 5, Shape::kPlain, 1, peer, 2);
    never.set_timeout(100ms);
    EXPECT_EQ(group->run(never.call()).code, Code::kTimeout);
    over = true;
    sending.join();
    receiving.join();
  });
}

TEST(Abort, WakesEveryWaitOnEveryRankAndTheFirstReasonWins) {
  run_threads(3, [](const Rank& rank) {
    const auto group = rank.join("g", 1h);
    const Part part(reduction(3), rank.number());
    const auto never = [&](int peer) { return Letter(Op::kRecv, DType::kInt32, 5, Shape::kPlain, 1, peer, 3); };
    std::atomic<int> waiting{0};
    std::thread collective([&] {
      if (rank.number() == 2) return;  // so that the operation cannot complete
      ++waiting;
      const Status status = group->run(part.call());
      EXPECT_EQ(status.code, Code::kAborted) << status.message();
      EXPECT_NE(status.message().find("abort() was called on rank 40: enough"), std::string::npos) << status.message();
      EXPECT_EQ(status.culprit, 40);
    });
    std::thread message([&] {
      ++waiting;
      EXPECT_EQ(group->run(never((rank.number() + 1) % 3).call()).code, Code::kAborted);
    });
    while (waiting.load() < (rank.number() == 2 ? 1 : 2)) std::this_thread::yield();
    rank.meet("all wait");
    if (rank.number() == 0) {
      group->abort("enough");
      group->abort("again");
    }
    collective.join();
    message.join();
    EXPECT_EQ(group->run(part.call()).code, Code::kAborted);
  });
}

TEST(Abort, MayRaceWithEverything) {
  for (int round = 0; round < rounds(100); ++round) {
    run_threads(3, [&](const Rank& rank) {
      const auto group = rank.join("g", 1h);
      std::thread aborting([&, group] {
        for (int pause = (round * 37 + rank.number() * 11) % 200; pause > 0; --pause) std::this_thread::yield();
        if (rank.number() == round % 3) group->abort("race");
        if (rank.number() == (round + 1) % 3) group->close();
      });
      for (int i = 0;; ++i) {
        const Part part(reduction(3, i % 2 == 0 ? 3 : 20'000), rank.number());
        const auto task = post(*group, part);
        group->wait(*task, Nanos{0});
        if (!task->status().ok()) break;
        ASSERT_EQ(part.verify(), "");
      }
      EXPECT_NE(group->health().code, Code::kOk);
      aborting.join();
    });
  }
}

TEST(Closing, EndsWhatIsPendingHereAndTellsTheOthersWhoLeft) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g", 1h);
    const Part part(reduction(2), rank.number());
    if (rank.number() == 1) {
      const Letter letter(Op::kRecv, DType::kInt32, 5, Shape::kPlain, 1, 0, 3);
      const auto task = post(*group, letter);
      group->close();
      group->close();
      EXPECT_EQ(task->status().code, Code::kClosed) << task->status().message();
      EXPECT_EQ(group->run(part.call()).code, Code::kClosed);
      return;
    }
    const Status status = group->run(part.call());
    EXPECT_EQ(status.code, Code::kPeerLeft) << status.message();
    EXPECT_NE(status.message().find("rank 41"), std::string::npos) << status.message();
    EXPECT_EQ(status.culprit, 41);
  });
}

TEST(Closing, AtOnceAfterTheLastOperationHarmsNobodyWhoStillReads) {
  for (int round = 0; round < rounds(150); ++round) {
    run_threads(4, [&](const Rank& rank) {
      const auto group = rank.join("g");
      const Part part(reduction(4, round % 2 == 0 ? 3 : 60'000), rank.number());
      for (int pause = rank.number() * (round % 7); pause > 0; --pause) std::this_thread::yield();
      const Status status = group->run(part.call());
      group->close();
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(part.verify(), "");
    });
  }
}

TEST(Closing, ByDroppingTheLastReferenceWithTasksInFlightIsSafe) {
  for (int round = 0; round < rounds(50); ++round) {
    run_threads(2, [&](const Rank& rank) {
      const Part part(reduction(2), rank.number());
      std::shared_ptr<Task> task;
      {
        const auto group = rank.join("g");
        task = post(*group, part);
        if (round % 2 == 0) group->wait(*task, Nanos{0});
        if (round % 2 == 1) group->close();
      }
      EXPECT_TRUE(task->done());
    });
  }
}

}  // namespace
}  // namespace customccl::test
