#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "host/host_arena.h"
#include "host/tensor_memory.h"
#include "support/letter.h"
#include "support/ranks.h"
#include "support/trial.h"

// Ranks that die or stop, as forked processes: every survivor ends with an error that names the global rank.

namespace customccl::test {
namespace {

using namespace std::chrono_literals;

constexpr int kVictim = 1;
constexpr int kVictimGlobally = kVictim + Rank::kGlobal;

// What a survivor must see, whatever it was doing.
void expect_death_noticed(Communicator& group, const Status& status) {
  EXPECT_EQ(status.code, Code::kPeerDied) << status.message();
  EXPECT_EQ(status.culprit, kVictimGlobally) << status.message();
  EXPECT_NE(status.message().find("rank 41 "), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("died"), std::string::npos) << status.message();
  const Status later = group.run(Call{});
  EXPECT_EQ(later.code, Code::kPeerDied) << later.message();
  EXPECT_NE(later.message().find("refused"), std::string::npos) << later.message();
}

Status work_until_it_fails(const Rank& rank, Communicator& group, std::uint64_t seed) {
  Dice dice(seed);
  for (;;) {
    const Trial trial = random_trial(dice, rank.size(), dice.one_in(5) ? 4 << 20 : 10'000);
    const Part part(trial, rank.number());
    const auto task = std::make_shared<Task>(part.call(), group.limit_of(part.call()));
    group.post(task);
    group.wait(*task, Nanos{0});
    if (!task->status().ok()) return task->status();
    if (part.verify() != "") return {Code::kOk, part.verify()};
  }
}

[[noreturn]] void die_after(int yields) {
  for (; yields > 0; --yields) std::this_thread::yield();
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

TEST(DeathProcess, AtAnyMomentEndsEverySurvivorWithItsName) {
  Dice dice(17);
  for (int round = 0; round < rounds(12); ++round) {
    const int yields = dice.below(round % 2 == 0 ? 200 : 20'000);
    SCOPED_TRACE("yields before the kill: " + std::to_string(yields));
    Processes ranks(3, [&](const Rank& rank) {
      const auto group = rank.join("g");
      std::thread killer;
      if (rank.number() == kVictim) killer = std::thread(die_after, yields);
      const Status status = work_until_it_fails(rank, *group, 900 + static_cast<std::uint64_t>(round));
      expect_death_noticed(*group, status);
    });
    EXPECT_EQ(ranks.wait(kVictim), -SIGKILL);
    EXPECT_EQ(ranks.wait(0), 0);
    EXPECT_EQ(ranks.wait(2), 0);
  }
}

TEST(DeathProcess, EndsWaitsForMessagesToo) {
  Processes ranks(3, [&](const Rank& rank) {
    const auto group = rank.join("g");
    rank.meet("joined");
    if (rank.number() == kVictim) die_after(100);
    // Rank 0 waits for a message of the victim, rank 2 with a large one for its answer.
    const Letter letter(rank.number() == 0 ? Op::kRecv : Op::kSend, DType::kInt32, 1'000'000, Shape::kPlain, 1, kVictim,
                        0);
    expect_death_noticed(*group, group->run(letter.call()));
  });
  EXPECT_EQ(ranks.wait(kVictim), -SIGKILL);
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(2), 0);
}

TEST(DeathProcess, OfTheSenderInTheMiddleOfALargeMessageIsAnErrorAtItsReceiver) {
  static constexpr std::size_t kCount = 64 << 20;  // 256 MiB
  Dice dice(23);
  for (int round = 0; round < rounds(3); ++round) {
    const int polls = 1 + dice.below(50);  // each moves what the ring holds at most: far from all
    Processes ranks(2, [&](const Rank& rank) {
      const auto group = rank.join("g");
      const Letter letter(rank.number() == kVictim ? Op::kSend : Op::kRecv, DType::kInt32, kCount, Shape::kPlain, 1,
                          1 - rank.number(), 0);
      if (rank.number() == kVictim) {
        const auto task = std::make_shared<Task>(letter.call(), group->limit_of(letter.call()));
        group->post(task);
        for (int poll = 0; poll < polls; ++poll) group->poll(*task);
        die_after(0);
      }
      expect_death_noticed(*group, group->run(letter.call()));
    });
    EXPECT_EQ(ranks.wait(kVictim), -SIGKILL);
    EXPECT_EQ(ranks.wait(0), 0);
  }
}

TEST(DeathProcess, ByExitWithoutCloseIsNoticed) {
  Processes ranks(2, [&](const Rank& rank) {
    const auto group = rank.join("g");
    if (rank.number() == kVictim) ::_exit(0);
    expect_death_noticed(*group, group->run(Call{}));
  });
  EXPECT_EQ(ranks.wait(kVictim), 0);
  EXPECT_EQ(ranks.wait(0), 0);
}

TEST(DeathProcess, AfterTheLastOperationDoesNotSpoilIt) {
  for (int round = 0; round < rounds(30); ++round) {
    run_processes(3, [&](const Rank& rank) {
      const auto group = rank.join("g");
      const Part part(even_trial(Op::kAllGather, 3, DType::kInt32, round % 2 == 0 ? 3 : 50'000), rank.number());
      const Status status = group->run(part.call());
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(part.verify(), "");
      std::fflush(nullptr);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);  // no close: the kernel says goodbye
    });
  }
}

TEST(DeathProcess, ANewGroupOfTheSurvivorsWorks) {
  Processes ranks(3, [&](const Rank& rank) {
    auto group = rank.join("g");
    if (rank.number() == kVictim) die_after(0);
    EXPECT_EQ(group->run(Call{}).code, Code::kPeerDied);
    group.reset();
    GroupSpec spec = rank.spec("survivors", 1min);
    spec.size = 2;
    spec.rank = rank.number() / 2;
    spec.global_ranks = {40, 42};
    ASSERT_TRUE(rank.try_join(spec, group).ok());
    const Part part(even_trial(Op::kAllReduce, 2, DType::kFloat32, 300'000), spec.rank);
    EXPECT_TRUE(group->run(part.call()).ok());
    EXPECT_EQ(part.verify(), "");
  });
  EXPECT_EQ(ranks.wait(kVictim), -SIGKILL);
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(2), 0);
}

TEST(DeathProcess, OfAStoppedRankIsNotClaimedButItsTimeoutNamesIt) {
  Processes ranks(3, [&](const Rank& rank) {
    const auto group = rank.join("g");
    if (rank.number() == kVictim) {
      rank.meet("joined");
      ::raise(SIGSTOP);
      for (;;) ::pause();
    }
    rank.meet("joined");
    Trial trial = even_trial(Op::kAllReduce, 3, DType::kFloat32, 1000);
    trial.timeout = 400ms;
    const Part part(trial, rank.number());
    const Status status = group->run(part.call());
    EXPECT_EQ(status.code, Code::kTimeout) << status.message();
    EXPECT_EQ(status.culprit, kVictimGlobally) << status.message();
    EXPECT_EQ(group->run(part.call()).code, Code::kTimeout);
    group->close();
  });
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(2), 0);
}

constexpr const char* kWhySkipped = "ranks have threads, and this sanitizer's heap does not survive their forks";

// The child of a rank gets an error from everything, and the rank works on as if nothing had happened.
TEST(ForkProcess, GivesTheChildAClearErrorAndLeavesTheParentAlone) {
  if (!kThreadsMayFork) GTEST_SKIP() << kWhySkipped;
  run_processes(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    const Part part(even_trial(Op::kAllReduce, 2, DType::kFloat32, 200'000), rank.number());
    const auto pending = std::make_shared<Task>(part.call(), group->limit_of(part.call()));
    if (rank.number() == 0) group->post(pending);
    const pid_t child = ::fork();
    if (child == 0) {
      const Watchdog limit("the child of a rank");
      const Part other(even_trial(Op::kAllGather, 2, DType::kInt32, 5), rank.number());
      const Status status = group->run(other.call());
      EXPECT_EQ(status.code, Code::kClosed) << status.message();
      EXPECT_NE(status.message().find("forked"), std::string::npos) << status.message();
      const auto task = std::make_shared<Task>(other.call(), group->limit_of(other.call()));
      group->post(task);
      EXPECT_EQ(task->status().code, Code::kClosed) << task->status().message();
      if (rank.number() == 0) {  // inherited while it ran
        EXPECT_TRUE(group->poll(*pending));
        EXPECT_TRUE(group->wait(*pending, Nanos{0}));
        EXPECT_EQ(pending->status().code, Code::kClosed) << pending->status().message();
      }
      group->abort("of no effect");
      group->close();
      std::fflush(nullptr);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    rank.meet("forked");  // before rank 1 takes its part, with which the other's is over
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    if (rank.number() == 0) {
      group->wait(*pending, Nanos{0});
      EXPECT_TRUE(pending->status().ok()) << pending->status().message();
    } else {
      EXPECT_TRUE(group->run(part.call()).ok());
    }
    EXPECT_EQ(part.verify(), "");
    EXPECT_TRUE(group->run(Call{}).ok());
  });
}

TEST(ForkProcess, LetsTheChildMakeGroupsOfItsOwn) {
  if (!kThreadsMayFork) GTEST_SKIP() << kWhySkipped;
  run_processes(1, [](const Rank& rank) {
    // This process has an arena, a keeper and memory in use; then two children of it make a group.
    const auto mine = rank.join("one");
    HostArena* arena = nullptr;
    ASSERT_TRUE(HostArena::get(arena).ok());
    run_processes(2, [](const Rank& child) {
      const auto group = child.join("children");
      const Part part(even_trial(Op::kAllReduce, 2, DType::kFloat32, 300'000), child.number());
      EXPECT_TRUE(group->run(part.call()).ok());
      EXPECT_EQ(part.verify(), "");
    });
  });
}

// As daemons do, and programs at their limits. The end of the thread that answers peers would be taken for the end of its process.
TEST(DeathProcess, AProcessWhoseDescriptorsAreLimitedOrClosedIsAlive) {
  run_processes(2, [](const Rank& rank) {
    const auto group = rank.join("g", 20s);
    for (const bool closes : {false, true}) {
      if (rank.number() == 1) {
        rlimit limit{};
        EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
        const rlimit least{1, limit.rlim_max};
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, closes ? &limit : &least), 0);
        if (closes) ::close_range(STDERR_FILENO + 1, ~0U, 0);
        Block block;
        EXPECT_TRUE(TensorMemory::of_process().allocate(100'000, block).ok());
        TensorMemory::of_process().release(block, 100'000);  // wakes the thread
        std::this_thread::sleep_for(50ms);                   // rank 0 looks after who is late
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
      }
      EXPECT_TRUE(group->run(Call{}).ok()) << group->health().message();
    }
  });
}

}  // namespace
}  // namespace customccl::test
