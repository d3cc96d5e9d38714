#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/calling.h"
#include "support/ranks.h"
#include "support/trial.h"

// Callbacks of operations and forked children.

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
    group->wait(*first, Nanos{0});
    EXPECT_TRUE(first->status().ok()) << first->status().message();
  });
}

}  // namespace
}  // namespace customccl::test
