#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "host/host_arena.h"
#include "host/limbo.h"
#include "support/letter.h"
#include "support/no_threads.h"
#include "support/ranks.h"
#include "support/trial.h"

// What groups leave behind: nothing.

namespace customccl::test {
namespace {

std::size_t entries(const char* folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

std::size_t bytes_in_use() { return HostArena::existing() == nullptr ? 0 : HostArena::existing()->bytes_in_use(); }

struct Footprint {
  std::size_t memory = bytes_in_use();
  std::size_t files = entries("/proc/self/fd");
  std::size_t threads = entries("/proc/self/task");
};

void one_cycle(const Rank& rank, const std::string& name, bool large) {
  const auto group = rank.join(name);
  const Part part(even_trial(Op::kAllReduce, rank.size(), DType::kFloat32, large ? 100'000 : 3), rank.number());
  const auto task = std::make_shared<Task>(part.call(), group->limit_of(part.call()));
  group->post(task);
  group->wait(*task, Nanos{0});
  ASSERT_TRUE(task->status().ok()) << task->status().message();
  ASSERT_EQ(part.verify(), "");
  group->close();
}

// The progress thread starts with the first task that has to wait.
void start_progress_thread(const Rank& rank) {
  const auto group = rank.join("first wait");
  const Letter never(Op::kRecv, DType::kInt32, 1, Shape::kPlain, 0, 1 - rank.number(), 0);
  group->post(std::make_shared<Task>(never.call(), group->limit_of(never.call())));
  rank.meet("waiting");
  group->close();
}

std::size_t mapped_arenas() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("customccl") == std::string::npos ? 0 : 1;
  return count;
}

TEST(FootprintProcess, OfAnArenaWhoseKeeperCannotStartIsNothing) {
  run_processes(1, [](const Rank&) {
    HostArena* arena = nullptr;
    const std::size_t files = entries("/proc/self/fd");
    const std::size_t maps = mapped_arenas();
    {
      const NoThreads none;
      const Status status = HostArena::get(arena);
      EXPECT_EQ(status.code, Code::kSystem) << status.message();
    }
    EXPECT_EQ(HostArena::existing(), nullptr);
    EXPECT_EQ(entries("/proc/self/fd"), files);
    EXPECT_EQ(mapped_arenas(), maps);
    const Status status = HostArena::get(arena);
    EXPECT_TRUE(status.ok()) << status.message();
  });
}

TEST(FootprintProcess, StaysFlatOverAThousandGroups) {
  run_processes(2, [](const Rank& rank) {
    start_progress_thread(rank);
    for (int i = 0; i < 5; ++i) one_cycle(rank, "warm " + std::to_string(i), true);
    rank.meet("warm");
    while (!reclaim_limbo()) std::this_thread::yield();
    const Footprint before;
    const int cycles = rounds(1000);
    for (int i = 0; i < cycles; ++i) one_cycle(rank, "cycle " + std::to_string(i), i % 10 == 0);
    rank.meet("done");
    while (!reclaim_limbo()) std::this_thread::yield();
    while (Footprint().threads > before.threads) std::this_thread::yield();  // those of callbacks end when idle
    const Footprint after;
    EXPECT_EQ(after.memory, before.memory);
    EXPECT_EQ(after.files, before.files);
  });
}

TEST(LimboProcess, KeepsMemoryWhileAPeerHasTheGroupAndGivesItBackWhenThePeerCloses) {
  run_processes(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    const std::size_t in_use = bytes_in_use();
    if (rank.number() == 0) {
      group->close();
      EXPECT_FALSE(reclaim_limbo());
      EXPECT_EQ(bytes_in_use(), in_use);
      rank.meet("rank 0 closed");
      while (bytes_in_use() == in_use) std::this_thread::yield();  // the keeper notices
      EXPECT_TRUE(reclaim_limbo());
      return rank.meet("given back");
    }
    rank.meet("rank 0 closed");
    group->close();
    rank.meet("given back");
  });
}

TEST(LimboProcess, GivesMemoryBackWhenThePeerDies) {
  Processes ranks(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    if (rank.number() == 1) {
      rank.meet("rank 0 closed");
      ::kill(::getpid(), SIGKILL);
    }
    const std::size_t in_use = bytes_in_use();
    group->close();
    EXPECT_FALSE(reclaim_limbo());
    rank.meet("rank 0 closed");
    while (bytes_in_use() == in_use) std::this_thread::yield();
  });
  EXPECT_EQ(ranks.wait(0), 0);
}

}  // namespace
}  // namespace customccl::test
