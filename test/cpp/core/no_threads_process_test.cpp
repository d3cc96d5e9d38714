#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "core/progress.h"
#include "support/calling.h"
#include "support/letter.h"
#include "support/no_threads.h"
#include "support/ranks.h"
#include "support/trial.h"

// What goes on, and what is refused, where the system starts no more threads. As processes: a rank of the same one that waits would
// end the operations of the other.

namespace customccl::test {
namespace {

using namespace std::chrono_literals;

Trial reduction() { return even_trial(Op::kAllReduce, 2, DType::kFloat32, 3000); }

// Rank 1 comes to an operation only when rank 0 has posted it.
void come_later(const Rank& rank, Communicator& group, const std::string& point) {
  const Part part(reduction(), rank.number());
  rank.meet(point);
  const Status status = group.run(part.call());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(NoThreadsProcess, AGroupWithoutKeeperIsRefusedOnAllRanksAndTheNextOneWorks) {
  run_processes(2, [](const Rank& rank) {
    std::shared_ptr<Communicator> group;
    {
      const auto none = rank.number() == 0 ? std::make_unique<NoThreads>() : nullptr;
      const Status status = rank.try_join(rank.spec("g", 1h), group);
      EXPECT_EQ(status.code, Code::kUnreachable) << status.message();
      EXPECT_EQ(status.culprit, 40);
      EXPECT_NE(status.message().find("thread customccl-keep"), std::string::npos) << status.message();
    }
    group = rank.join("next");
    const Part part(reduction(), rank.number());
    EXPECT_TRUE(group->run(part.call()).ok());
    EXPECT_EQ(part.verify(), "");
  });
}

TEST(NoThreadsProcess, OperationsEndByThoseWhoWaitAndTheProgressThreadComesLater) {
  run_processes(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    if (rank.number() == 1) {
      come_later(rank, *group, "waited for");
      come_later(rank, *group, "left alone");
      return come_later(rank, *group, "both");
    }
    const Part first(reduction(), 0), second(reduction(), 0), third(reduction(), 0);
    std::shared_ptr<Task> task;
    {
      const NoThreads none;
      const int refused = NoThreads::refused();
      task = post(*group, first);
      EXPECT_GT(NoThreads::refused(), refused);
      rank.meet("waited for");
      group->wait(*task, Nanos{0});
      EXPECT_TRUE(task->status().ok()) << task->status().message();
      EXPECT_EQ(first.verify(), "");
      task = post(*group, second);
    }
    const auto next = post(*group, third);  // its lane is watched already
    rank.meet("left alone");
    rank.meet("both");
    while (!task->done() || !next->done()) std::this_thread::yield();
    EXPECT_EQ(second.verify(), "");
    EXPECT_EQ(third.verify(), "");
  });
}

// By a recv that this thread ends itself, so that no thread for callbacks exists yet.
void start_progress_thread(Communicator& group) {
  const Letter received = plain(Op::kRecv, kSmall, 1, 0, 0), sent = plain(Op::kSend, kSmall, 1, 0, 0);
  const auto task = post(group, received);
  EXPECT_TRUE(group.run(sent.call()).ok());
  EXPECT_TRUE(task->done());
}

TEST(NoThreadsProcess, ACallbackRunsOnTheProgressThreadWhenNoOtherServes) {
  run_processes(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    if (rank.number() == 1) return come_later(rank, *group, "posted");
    start_progress_thread(*group);
    const NoThreads none;
    const Part part(reduction(), 0);
    std::promise<bool> inside;
    group->post(std::make_shared<Calling>(part.call(), [&] { inside.set_value(Progress::is_this_thread()); }));
    rank.meet("posted");
    EXPECT_TRUE(inside.get_future().get());
  });
}

TEST(NoThreadsProcess, ACallbackWaitsForTheThreadThatRunsAnother) {
  run_processes(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    if (rank.number() == 1) {
      come_later(rank, *group, "first");
      return come_later(rank, *group, "second");
    }
    start_progress_thread(*group);
    const Part one(reduction(), 0), two(reduction(), 0);
    std::promise<void> begun, go_on;
    std::promise<bool> inside;
    group->post(std::make_shared<Calling>(one.call(), [&] {
      begun.set_value();
      go_on.get_future().wait();
    }));
    rank.meet("first");
    begun.get_future().wait();
    const NoThreads none;
    const int refused = NoThreads::refused();
    group->post(std::make_shared<Calling>(two.call(), [&] { inside.set_value(Progress::is_this_thread()); }));
    rank.meet("second");
    while (NoThreads::refused() == refused) std::this_thread::yield();
    go_on.set_value();
    EXPECT_FALSE(inside.get_future().get());
  });
}

}  // namespace
}  // namespace customccl::test
