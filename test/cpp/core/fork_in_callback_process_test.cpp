#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <thread>

#include "support/calling.h"
#include "support/no_threads.h"
#include "support/ranks.h"
#include "support/trial.h"

// Callbacks of operations and forked children: callbacks that a child inherits, and callbacks that fork, so that the child finds itself
// within a call of its parent's group.

namespace customccl::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kNoForks = "ranks have threads, and this sanitizer's heap does not survive their forks";

Trial sum_of_two() { return even_trial(Op::kAllReduce, 2, DType::kFloat32, 3000); }

void expect_forked(const Status& status) {
  EXPECT_EQ(status.code, Code::kClosed) << status.message();
  EXPECT_NE(status.message().find("forked"), std::string::npos) << status.message();
}

[[noreturn]] void end_child() {
  std::fflush(nullptr);
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

void expect_passed(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

int threads() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return static_cast<int>(std::distance(begin(all), end(all)));
}

TEST(ForkInCallbackProcess, AnInheritedCallbackMayWaitForAnotherInheritedTask) {
  if (!kThreadsMayFork) GTEST_SKIP() << kNoForks;
  run_processes(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    const Part one(sum_of_two(), rank.number()), two(sum_of_two(), rank.number());
    if (rank.number() == 1) {
      rank.meet("forked");
      EXPECT_TRUE(group->run(one.call()).ok());
      EXPECT_TRUE(group->run(two.call()).ok());
      return;
    }
    const auto second = std::make_shared<Task>(two.call(), 1h);
    const auto first = std::make_shared<Calling>(one.call(), [&] { group->wait(*second, Nanos{0}); });
    group->post(first);
    group->post(second);
    const pid_t child = ::fork();
    if (child == 0) {
      const Watchdog limit("the child of a rank");
      group->wait(*first, Nanos{0});
      expect_forked(first->status());
      expect_forked(second->status());
      end_child();
    }
    expect_passed(child);
    rank.meet("forked");
    for (const std::shared_ptr<Task>& task : {std::shared_ptr<Task>(first), second}) {
      group->wait(*task, Nanos{0});
      EXPECT_TRUE(task->status().ok()) << task->status().message();
    }
  });
}

using GoOn = std::function<std::shared_ptr<Task>(const Rank&, Communicator&, const Part&)>;

// Rank 0 posts an operation whose callback forks, lets rank 1 take its part ("first"), and goes on with a second one: there the callback
// runs, as no thread of ours does. So the child finds itself there, too. Rank 1 takes part in the second when the child has ended.
void fork_within(const GoOn& go_on) {
  if (!kThreadsMayFork) GTEST_SKIP() << kNoForks;
  run_processes(2, [&](const Rank& rank) {
    const auto group = rank.join("g");
    const Part first(sum_of_two(), rank.number()), second(sum_of_two(), rank.number());
    if (rank.number() == 1) {
      rank.meet("first");
      EXPECT_TRUE(group->run(first.call()).ok());
      rank.meet("came");
      rank.meet("the child ends");
      EXPECT_TRUE(group->run(second.call()).ok());
      EXPECT_TRUE(group->run(Call()).ok());
      return;
    }
    auto none = std::make_unique<NoThreads>();
    std::optional<Watchdog> limit;
    pid_t child = -1;
    group->post(std::make_shared<Calling>(first.call(), [&] {
      child = ::fork();
      if (child != 0) return;
      limit.emplace("the child of a rank");
      none.reset();
    }));
    const std::shared_ptr<Task> task = go_on(rank, *group, second);
    if (child == 0) {
      EXPECT_EQ(threads(), 1);  // nobody goes on with it
      EXPECT_TRUE(group->wait(*task, Nanos{0}));
      expect_forked(task->status());
      group->close();
      rank.meet("came");
      rank.meet("the child ends");
      end_child();
    }
    expect_passed(child);
    EXPECT_TRUE(group->wait(*task, Nanos{0}));
    EXPECT_TRUE(task->status().ok()) << task->status().message();
    EXPECT_EQ(second.verify(), "");
    EXPECT_TRUE(group->run(Call()).ok());
  });
}

TEST(ForkInCallbackProcess, AChildWithinAWaitIsRefused) {
  fork_within([](const Rank& rank, Communicator& group, const Part& second) {
    auto task = post(group, second);
    rank.meet("first");
    group.wait(*task, Nanos{0});
    return task;
  });
}

TEST(ForkInCallbackProcess, AChildWithinAPollIsRefused) {
  fork_within([](const Rank& rank, Communicator& group, const Part& second) {
    auto task = post(group, second);
    rank.meet("first");
    while (!group.poll(*task)) std::this_thread::yield();
    return task;
  });
}

TEST(ForkInCallbackProcess, AChildThatDrainsIsThrough) {
  fork_within([](const Rank& rank, Communicator& group, const Part& second) {
    auto task = post(group, second);
    rank.meet("first");
    EXPECT_TRUE(group.drain(1h));
    return task;
  });
}

// What is posted there is the child's, and no thread of it goes on with it.
TEST(ForkInCallbackProcess, AChildWithinAPostIsRefused) {
  fork_within([](const Rank& rank, Communicator& group, const Part& second) {
    rank.meet("first");
    rank.meet("came");
    return post(group, second);
  });
}

}  // namespace
}  // namespace customccl::test
