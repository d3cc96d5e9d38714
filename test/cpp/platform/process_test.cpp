#include "platform/process.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string_view>
#include <thread>

#include "child.h"
#include "platform/once_per_process.h"

namespace customccl {
namespace {

using test::Child;

TEST(Process, RandomIdsDiffer) {
  std::set<Id128> seen;
  for (int i = 0; i < 100; ++i) seen.insert(random_id());
  EXPECT_EQ(seen.size(), 100U);
}

TEST(Process, HexHasAllDigitsInOrder) {
  EXPECT_EQ(to_hex({0x0123456789abcdefULL, 0xfULL}), "0123456789abcdef000000000000000f");
}

TEST(Process, CountsTheForksSinceTheWatchBegan) {
  watch_for_fork();
  watch_for_fork();
  EXPECT_EQ(fork_generation(), 0U);
  Child child([] {
    if (fork_generation() != 1) return 1;
    Child grandchild([] { return fork_generation() == 2 ? 0 : 1; });
    return grandchild.wait();
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(fork_generation(), 0U);
}

TEST(Process, KnowsWhetherAMomentLiesBeforeItsStart) {
  const std::string earlier = moment_now();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // longer than a tick
  EXPECT_FALSE(before_this_process(earlier));
  EXPECT_FALSE(before_this_process(moment_now()));
  EXPECT_FALSE(before_this_process("another-boot:1"));
  EXPECT_FALSE(before_this_process(boot_id() + ":"));
  EXPECT_FALSE(before_this_process(""));
  Child child([&] { return before_this_process(earlier) && !before_this_process(moment_now()) ? 0 : 1; });
  EXPECT_EQ(child.wait(), 0);
}

// Of a static variable it would wait for the end of a thread that it does not have.
TEST(Process, AForkedChildMakesItselfWhatAThreadOfItsParentIsMaking) {
  static std::atomic<bool> making{false}, forked{false};
  static constexpr auto kMake = [] {
    making = true;
    while (!forked) std::this_thread::yield();
    return 7;
  };
  std::thread maker([] { made_once<kMake>(); });
  while (!making) std::this_thread::yield();
  Child child([] {
    ::alarm(20);
    forked = true;
    return made_once<kMake>();
  });
  EXPECT_EQ(child.wait(), 7);
  forked = true;
  maker.join();
  EXPECT_EQ(made_once<kMake>(), 7);
}

TEST(Process, KnowsTheHost) { EXPECT_FALSE(host_name().empty()); }

TEST(Process, TheHostHasANameOfOneWord) {
  constexpr int kMayNot = 77;
  Child child([] {
    const std::string_view name = "a host\nof \xff";
    if (::unshare(CLONE_NEWUTS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0) return kMayNot;
    if (::sethostname(name.data(), name.size()) != 0) return kMayNot;
    return host_name() == "a_host_of__" ? 0 : 1;
  });
  const int result = child.wait();
  if (result == kMayNot) GTEST_SKIP() << "this process may not rename its host, not even for itself";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace customccl
