#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/collective_lane.h"
#include "core/communicator.h"
#include "support/ranks.h"
#include "support/scripted_engine.h"
#include "support/trial.h"

// The lane of collectives over an engine that does what the test says: moments that are hard to hit with real ranks.

namespace customccl::test {
namespace {

// A lane over a scripted engine, in a group of one that answers its questions.
class LaneTest : public testing::Test {
 protected:
  LaneTest() {
    const Rank rank(0, 1, [this](const std::string& group) { return std::make_unique<BoardBootstrap>(board_, group); });
    group_ = rank.join("g");
    lane_ = std::make_unique<CollectiveLane>(*group_, engine_, 1);
  }
  std::shared_ptr<Task> post(Nanos limit = std::chrono::hours(1)) {
    auto task = std::make_shared<Task>(part_.call(), limit);
    lane_->post(*task, 1, task);
    return task;
  }
  void expect_well(const Task& task) const {
    ASSERT_TRUE(task.done());
    EXPECT_TRUE(task.status().ok()) << task.status().message();
    EXPECT_TRUE(group_->health().ok());
  }
  Lane::Begun begin() { return lane_->begin(operation_, 1, failure_); }
  std::shared_ptr<Task> go_on(Lane::Begun begun) {
    auto task = std::make_shared<Task>(part_.call(), std::chrono::hours(1));
    lane_->continue_as(*task, begun, operation_, 1, std::move(failure_), task);
    return task;
  }

  // A blocking call whose thread sleeps until it is rung. Done when it sleeps, or is about to and will not miss it.
  std::thread sleeper(const Task& task) {
    std::atomic<bool> announced{false};
    std::thread thread([this, &task, &announced] {
      group_->bell().sleep(std::chrono::hours(1), [&] {
        announced = true;
        return task.done();
      });
    });
    while (!announced) std::this_thread::yield();
    return thread;
  }

  Board board_;
  std::shared_ptr<Communicator> group_;
  ScriptedEngine engine_;
  std::unique_ptr<CollectiveLane> lane_;
  Part part_{even_trial(Op::kAllReduce, 1, DType::kInt32, 5), 0};
  Operation operation_{.call = &part_.call()};
  Status failure_;
};

// A peer may publish the last flag and leave between two looks of this rank.
TEST_F(LaneTest, APeerThatLeftAfterItDidItsPartIsNoFailure) {
  const auto task = post();
  engine_.diagnosed = [this]() -> Status {
    engine_.next = Step::kDone;  // it had published before it left
    return {Code::kPeerLeft, "rank 7 destroyed the group", 7};
  };
  lane_->inspect();
  expect_well(*task);
}

TEST_F(LaneTest, APeerThatLeftBeforeItDidItsPartIsAFailure) {
  const auto task = post();
  engine_.diagnosed = [] { return Status{Code::kPeerLeft, "rank 7 destroyed the group", 7}; };
  lane_->inspect();
  lane_->close(group_->health());
  ASSERT_TRUE(task->done());
  EXPECT_EQ(task->status().code, Code::kPeerLeft);
  EXPECT_EQ(group_->health().code, Code::kPeerLeft);
}

// It may do so while this rank takes what another one had published that has left as well.
TEST_F(LaneTest, APeerThatLeavesWhileAnotherIsDrainedIsDrained) {
  const auto task = post();
  int looks = 0;
  engine_.diagnosed = [&]() -> Status {
    if (++looks == 1) return {Code::kPeerLeft, "rank 7 destroyed the group", 7};
    engine_.next = Step::kDone;
    return {Code::kPeerLeft, "rank 8 destroyed the group", 8};
  };
  lane_->inspect();
  expect_well(*task);
}

TEST_F(LaneTest, AnEngineWithoutMemoryEndsTheGroupAndNoMore) {
  engine_.advanced = [](Operation&) { throw std::bad_alloc(); };
  const auto at_once = post();
  ASSERT_TRUE(at_once->done());
  EXPECT_EQ(at_once->status().code, Code::kSystem);
  EXPECT_NE(at_once->status().message().find("no memory"), std::string::npos) << at_once->status().message();
  EXPECT_EQ(group_->health().code, Code::kSystem);
  EXPECT_EQ(engine_.abandons, 1);
  EXPECT_FALSE(lane_->busy());
  lane_->close({Code::kClosed, "over"});  // its lock is free
}

TEST_F(LaneTest, WithoutMemoryWhoWaitsIsTold) {
  const auto first = post();
  const auto second = post();
  engine_.advanced = [](Operation&) { throw std::bad_alloc(); };
  lane_->drive();
  for (const auto& task : {first, second}) {
    ASSERT_TRUE(task->done());
    EXPECT_EQ(task->status().code, Code::kSystem);
    EXPECT_EQ(task.use_count(), 2);  // `task`'s and this loop's: the lane has let go of it
  }
  EXPECT_FALSE(lane_->busy());
}

TEST_F(LaneTest, ADiagnosisWithoutMemoryEndsTheGroup) {
  const auto task = post();
  engine_.diagnosed = []() -> Status { throw std::bad_alloc(); };
  lane_->inspect();
  ASSERT_TRUE(task->done());
  EXPECT_EQ(task->status().code, Code::kSystem);
}

TEST_F(LaneTest, ACallThatBeginsWithoutMemoryFailsAsATask) {
  engine_.advanced = [](Operation&) { throw std::bad_alloc(); };
  ASSERT_EQ(begin(), Lane::Begun::kUnderWay);
  const auto task = go_on(Lane::Begun::kUnderWay);
  lane_->close(group_->health());
  ASSERT_TRUE(task->done());
  EXPECT_EQ(task->status().code, Code::kSystem);
}

// Between the failure and the closing of the lane other threads may come by.
TEST_F(LaneTest, AFailedOperationIsNotDrivenOn) {
  engine_.on_start = {Code::kSystem, "no memory"};
  const auto task = post();
  lane_->drive();
  lane_->inspect();
  EXPECT_EQ(engine_.advances, 0);
  EXPECT_EQ(engine_.starts, 1);
  const auto later = post();
  EXPECT_EQ(engine_.starts, 1);
  lane_->close(group_->health());
  EXPECT_EQ(task->status().code, Code::kSystem);
  EXPECT_FALSE(later->status().ok());
}

TEST_F(LaneTest, ATaskBehindAnotherKeepsItsOwnDeadline) {
  const auto patient = post();
  const auto hasty = post(Nanos{1});
  lane_->inspect();
  lane_->close(group_->health());
  EXPECT_EQ(hasty->status().code, Code::kTimeout) << hasty->status().message();
  EXPECT_EQ(patient->status().code, Code::kTimeout);
}

// This process may have been stopped since its last look, while the others went on.
TEST_F(LaneTest, WhatCameBeforeTheDeadlineWasNotAwaitedInVain) {
  const auto task = post(Nanos{1});
  engine_.next = Step::kDone;
  lane_->inspect();
  expect_well(*task);
}

TEST_F(LaneTest, CountsItsTasksAndForgetsThemOnceDone) {
  EXPECT_FALSE(lane_->busy());
  const auto task = post();
  EXPECT_TRUE(lane_->busy());
  EXPECT_EQ(task.use_count(), 2);
  engine_.next = Step::kDone;
  EXPECT_TRUE(lane_->drive());
  EXPECT_FALSE(lane_->busy());
  EXPECT_EQ(task.use_count(), 1);
  EXPECT_EQ(lane_->issued(), 1u);
}

TEST_F(LaneTest, ACallThatIsOverAtOnceNeedsNoTask) {
  engine_.next = Step::kDone;
  EXPECT_EQ(begin(), Lane::Begun::kOver);
  EXPECT_EQ(operation_.sequence, 1u);
  EXPECT_FALSE(lane_->busy());
  EXPECT_TRUE(post()->done());  // the lane is free
}

TEST_F(LaneTest, ACallThatIsUnderWayGoesOnAsATask) {
  ASSERT_EQ(begin(), Lane::Begun::kUnderWay);
  const auto task = go_on(Lane::Begun::kUnderWay);
  EXPECT_EQ(task->operation().sequence, 1u);
  EXPECT_EQ(lane_->awaited(*task), std::vector<int>{0});
  engine_.next = Step::kDone;
  engine_.advanced = [&](Operation& op) {
    EXPECT_EQ(&op, &task->operation());
    EXPECT_EQ(op.call, &task->call());
  };
  lane_->drive();
  EXPECT_TRUE(task->done());
  EXPECT_TRUE(task->status().ok());
  EXPECT_EQ(engine_.starts, 1);
  EXPECT_FALSE(lane_->busy());
  EXPECT_EQ(task.use_count(), 1);
}

TEST_F(LaneTest, ACallBehindAnotherWaitsAsATask) {
  const auto first = post();
  ASSERT_EQ(begin(), Lane::Begun::kNot);
  const auto task = go_on(Lane::Begun::kNot);
  EXPECT_EQ(engine_.starts, 1);
  engine_.next = Step::kDone;
  lane_->drive();
  EXPECT_TRUE(first->done());
  EXPECT_TRUE(task->done());
  EXPECT_EQ(task->operation().sequence, 2u);
}

TEST_F(LaneTest, ACallThatFailsAsItBeginsFailsAsATask) {
  engine_.on_start = {Code::kSystem, "no memory"};
  ASSERT_EQ(begin(), Lane::Begun::kUnderWay);
  const auto task = go_on(Lane::Begun::kUnderWay);
  lane_->close(group_->health());
  ASSERT_TRUE(task->done());
  EXPECT_EQ(task->status().code, Code::kSystem);
  EXPECT_FALSE(group_->health().ok());
}

TEST_F(LaneTest, ACallOfAClosedLaneIsRefusedAsATask) {
  lane_->close({Code::kClosed, "over"});
  ASSERT_EQ(begin(), Lane::Begun::kNot);
  const auto task = go_on(Lane::Begun::kNot);
  EXPECT_TRUE(task->done());
  EXPECT_FALSE(task->status().ok());
  EXPECT_EQ(engine_.starts, 0);
}

TEST_F(LaneTest, AThreadThatEndsTheCallOfAnotherWakesIt) {
  const Watchdog watchdog("a sleeper");
  Task task(part_.call(), std::chrono::hours(1));
  lane_->post(task, 1);
  std::thread sleeping = sleeper(task);
  engine_.next = Step::kDone;
  lane_->drive();
  EXPECT_TRUE(task.done());
  sleeping.join();
}

TEST_F(LaneTest, AThreadThatClosesTheLaneWakesTheCallsInIt) {
  const Watchdog watchdog("a sleeper");
  Task task(part_.call(), std::chrono::hours(1));
  lane_->post(task, 1);
  std::thread sleeping = sleeper(task);
  lane_->close({Code::kClosed, "over"});
  EXPECT_TRUE(task.done());
  sleeping.join();
}

// Whoever drives at that moment may have looked before a peer published, and may not look again.
TEST_F(LaneTest, WhoIsAboutToSleepLooksAfterTheOneWhoDrives) {
  const Watchdog watchdog("two that drive");
  const auto task = post();
  std::atomic<bool> driving{false}, coming{false};
  engine_.advanced = [&](Operation&) {
    if (driving.exchange(true)) return;
    while (!coming) std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  };
  const int before = engine_.advances;
  std::thread first([&] { lane_->drive(); });
  while (!driving) std::this_thread::yield();
  EXPECT_FALSE(lane_->drive());  // another is at it
  coming = true;
  EXPECT_FALSE(lane_->drive(task.get(), true));
  EXPECT_EQ(engine_.advances, before + 2);
  first.join();
  lane_->close({Code::kClosed, "over"});
}

}  // namespace
}  // namespace customccl::test
