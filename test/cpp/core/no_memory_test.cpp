#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "core/communicator.h"
#include "core/message_lane.h"
#include "core/progress.h"
#include "support/failing_new.h"
#include "support/letter.h"
#include "support/ranks.h"
#include "support/scripted_engine.h"
#include "support/scripted_port.h"
#include "support/trial.h"

// Whichever allocation fails under a lane's lock, every task ends, and the lane can be closed.

namespace customccl::test {
namespace {

using Kind = PacketHeader::Kind;

// One rank of a group of two that never moves, and a lane of messages over a port that holds what the test puts there.
class NoMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!allocations_can_fail()) GTEST_SKIP() << "a sanitizer has its own operator new";
  }

  // Each step does something with the lane; from the n-th allocation on there is no memory. Returns how many were asked for.
  int run(int n) {
    Board board;
    const auto on_board = [&](const std::string& group) { return std::make_unique<BoardBootstrap>(board, group); };
    std::shared_ptr<Communicator> peers;
    std::thread peer([&] { peers = Rank(1, 2, on_board).join("g"); });
    const auto group = Rank(0, 2, on_board).join("g");
    peer.join();
    ScriptedPort port;
    MessageLane lane(*group, &port, 0, 2);

    const Letter letters[] = {plain(Op::kRecv, kSmall, 1, 1, 5), plain(Op::kRecv, kLarge, 2, 1, 6),
                              plain(Op::kSend, kLarge, 3, 1, 7), plain(Op::kSend, kSmall, 4, 0, 8),
                              plain(Op::kRecv, kSmall, 4, 0, 8), plain(Op::kSend, kLarge, 5, 0, 9),
                              plain(Op::kRecv, kLarge, 5, 0, 9), plain(Op::kSend, kSmall, 6, 1, 10)};
    Call parcel;
    parcel.op = Op::kRecv;
    parcel.peer = 1;
    parcel.tag = 11;
    parcel.parcel = true;
    std::vector<std::shared_ptr<Task>> tasks;
    for (const Letter& letter : letters) tasks.push_back(std::make_shared<Task>(letter.call(), std::chrono::hours(1)));
    tasks.push_back(std::make_shared<Task>(parcel, std::chrono::hours(1)));
    // To be set aside, expected, a parcel, a large one that asks, and the answer to what was asked.
    std::vector<Packet> packets;
    const auto packet = [&](std::int64_t tag, std::uint64_t total, std::uint32_t bytes, Kind kind, DType dtype) {
      packets.push_back({{tag, total, 1, bytes, kind, dtype}, std::vector<std::byte>(bytes)});
    };
    packet(99, 8, 8, Kind::kEager, DType::kInt32);
    packet(98, 8000, 4000, Kind::kEager, DType::kInt32);
    packet(98, 8000, 4000, Kind::kMore, DType::kInt32);
    packet(5, 4 * kSmall, 4 * kSmall, Kind::kEager, DType::kInt32);
    packet(11, 100, 100, Kind::kEager, DType::kUInt8);
    packet(6, 4 * kLarge, 0, Kind::kRequest, DType::kInt32);
    packet(0, 1, 0, Kind::kClear, DType::kInt32);
    for (Packet& each : packets) each.payload.reserve(each.payload.size() + 1);

    fail_allocations_from(n);
    for (const auto& task : tasks) lane.post(*task, 1, task);
    for (Packet& each : packets) {
      const int before = disarm();  // the port's own
      port.arrived.push_back(std::move(each));
      fail_allocations_from(n - before);
      asked_before_ += before;
      lane.drive();
    }
    lane.inspect();
    lane.close({Code::kClosed, "over"});
    asked_before_ += disarm();

    for (const auto& task : tasks) {
      EXPECT_TRUE(task->done()) << "allocation " << n << ", tag " << task->call().tag;
      EXPECT_EQ(task.use_count(), 1) << "allocation " << n << ", tag " << task->call().tag;
    }
    EXPECT_FALSE(lane.busy());
    group->close();
    return std::exchange(asked_before_, 0);
  }

 private:
  int asked_before_ = 0;
};

TEST_F(NoMemory, EndsEveryMessageOfALane) {
  constexpr int kEnough = 1'000'000;
  const int asked = run(kEnough);
  ASSERT_GT(asked, 20);
  for (int n = 1; n <= asked && !HasFailure(); ++n) run(n);
}

// The first operation of a group, as it asks for most. How often it asks varies, as who waits asks, too.
constexpr int kMostAllocations = 30;
void run_without_memory(const Trial& trial, int n, int& asked) {
  run_threads(2, [&](const Rank& rank) {
    const auto group = rank.join("g", std::chrono::seconds(30));
    const Part part(trial, rank.number());
    const bool poor = rank.number() == 0;
    if (poor) fail_allocations_from(n);
    const Status status = group->run(part.call());
    if (poor) asked = disarm();
    const Call barrier;
    const Status after = group->run(barrier);
    const std::string what = trial.describe() + ", allocation " + std::to_string(n) + ": " + status.message();
    EXPECT_TRUE(status.ok() || !after.ok()) << what;
    EXPECT_TRUE(!poor || status.ok() == after.ok()) << what;
    EXPECT_TRUE(!poor || status.ok() || status.code == Code::kSystem) << what;
    EXPECT_EQ(status.ok() ? part.verify() : "", "") << what;
  });
}

TEST_F(NoMemory, EndsAGroupWhateverItWasAbout) {
  std::vector<Trial> trials;
  for (const Op op : {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter, Op::kAllToAll, Op::kGather, Op::kBroadcast}) {
    for (const Shape shape : {Shape::kPlain, Shape::kGaps, Shape::kPages}) {
      trials.push_back(even_trial(op, 2, DType::kFloat32, 100'000));
      trials.back().input_shape = trials.back().output_shape = shape;
      trials.back().seed = trials.size();
    }
  }
  trials.push_back(even_trial(Op::kAllReduce, 2, DType::kFloat32, 3));
  trials.push_back(even_trial(Op::kAllReduce, 2, DType::kFloat32, 1'000'000));
  trials.push_back(even_trial(Op::kAllToAll, 2, DType::kInt32, 5));
  trials.back().counts = {5, 70'000, 3, 8};
  for (const Trial& trial : trials) {
    for (int n = 1, asked = n; asked >= n && n < kMostAllocations && !HasFailure(); ++n) {
      run_without_memory(trial, n, asked);
    }
  }
}

// A late peer: what it was shown is withdrawn when the time is up, for which there is no memory.
TEST_F(NoMemory, EndsAGroupWhosePeerIsLate) {
  for (int n = 1, asked = n; asked >= n && n < kMostAllocations && !HasFailure(); ++n) {
    run_threads(2, [&](const Rank& rank) {
      const auto group = rank.join("g", std::chrono::milliseconds(50));
      Trial trial = even_trial(Op::kAllReduce, 2, DType::kFloat32, 100'000);
      trial.input_shape = trial.output_shape = Shape::kPages;
      if (rank.number() == 0) {
        const Part part(trial, 0);
        fail_allocations_from(n);
        const Status status = group->run(part.call());
        asked = disarm();
        EXPECT_TRUE(status.code == Code::kTimeout || status.code == Code::kSystem) << status.message();
        EXPECT_FALSE(group->run(Call()).ok());
      }
      rank.meet("late");
    });
  }
}

// What the first of two ranks does at its end, with less and less memory, and what the other gets.
void end_without_memory(const std::function<void(std::shared_ptr<Communicator>&)>& end, Code heard) {
  bool failed = true;
  for (int n = 1; failed && !testing::Test::HasFailure(); ++n) {
    run_threads(2, [&](const Rank& rank) {
      std::shared_ptr<Communicator> group = rank.join("g");
      if (rank.number() == 1) {
        EXPECT_EQ(group->run(Call()).code, heard) << n;
        return;
      }
      fail_allocations_from(n);
      end(group);
      failed = disarm() >= n;
    });
  }
}

TEST_F(NoMemory, LetsAGroupBeDestroyedAndAborted) {
  end_without_memory([](std::shared_ptr<Communicator>& group) { group.reset(); }, Code::kPeerLeft);
  end_without_memory([](std::shared_ptr<Communicator>& group) { group->abort("enough of it"); }, Code::kAborted);
}

TEST_F(NoMemory, ForATaskLeavesTheGroupInStep) {
  class Maker final : public TaskMaker {
   public:
    std::shared_ptr<Task> make() override { throw std::bad_alloc(); }
  };
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    const int other = 1 - rank.number();
    // What the first one gets has come before it asks; the other one asks first.
    const bool first = rank.number() == 0;
    for (int turn = 0; turn < 20; ++turn) {
      const Letter out = plain(Op::kSend, kLarge, 1, other, turn);
      const Letter in = plain(Op::kRecv, kLarge, 1, other, turn);
      for (const Letter* letter : {first ? &out : &in, first ? &in : &out}) {
        Ended ended;
        Maker none;
        try {
          group->begin(letter->call(), ended, none);
        } catch (const std::bad_alloc&) {
          // It was carried out all the same.
        }
      }
      EXPECT_EQ(in.verify(), "");
      Call barrier;
      EXPECT_TRUE(group->run(barrier).ok()) << group->health().message();
    }
  });
}

TEST_F(NoMemory, AGroupThatIsLetGoSaysGoodbye) {
  for (int n = 1, asked = n; asked >= n && n < kMostAllocations && !HasFailure(); ++n) {
    run_threads(2, [&](const Rank& rank) {
      auto group = rank.join("g");
      if (rank.number() == 0) {
        fail_allocations_from(n);
        group.reset();
        asked = disarm();
      } else {
        EXPECT_EQ(group->run(Call()).code, Code::kPeerLeft) << "allocation " << n;
      }
    });
  }
}

// Nobody catches what ends a thread of ours.
TEST_F(NoMemory, TheProgressThreadGoesOn) {
  const Watchdog watchdog("the progress thread");
  Board board;
  const auto group =
      Rank(0, 1, [&](const std::string& name) { return std::make_unique<BoardBootstrap>(board, name); }).join("g");
  ScriptedEngine engine;
  const auto lane = std::make_shared<CollectiveLane>(*group, engine, 1);
  constexpr int kSeveralRounds = 100;
  int looks = 0;
  engine.advanced = [&](Operation&) {
    if (!Progress::is_this_thread()) return;
    if (++looks == 1) fail_allocations_from(1);
    if (looks < kSeveralRounds) return;
    EXPECT_EQ(disarm(), 0);
    engine.next = Step::kDone;
  };
  const Part part(even_trial(Op::kAllReduce, 1, DType::kInt32, 5), 0);
  const auto task = std::make_shared<Task>(part.call(), std::chrono::hours(1));
  lane->post(*task, 1, task);
  Progress::get().watch(lane);
  while (!task->done()) std::this_thread::yield();
  lane->close({Code::kClosed, "over"});
}

}  // namespace
}  // namespace customccl::test
