#include "platform/futex.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "child.h"
#include "shared_page.h"

namespace customccl {
namespace {

using test::Child;
using test::Mapping;
using test::new_page;
using Word = std::atomic<std::uint32_t>;

constexpr Nanos kGuard = std::chrono::seconds(60);  // against hanging; nothing is expected to take so long

// True when `word` left `value` before the guard ran out.
bool sleep_while(Word& word, std::uint32_t value) {
  const Deadline deadline(kGuard);
  while (word.load() == value && !deadline.passed()) futex_wait(word, value, deadline.left());
  return !deadline.passed();
}

TEST(Futex, WaitReturnsAtOnceWhenTheWordDiffers) {
  Word word{1};
  futex_wait(word, 0, std::chrono::hours(1));
}

TEST(Futex, WaitReturnsWhenItsTimeIsUp) {
  Word word{0};
  futex_wait(word, 0, std::chrono::milliseconds(1));
  futex_wait(word, 0, Nanos::zero());
  futex_wait(word, 0, Nanos(-5));
}

TEST(Futex, WakesEverySleepingThread) {
  Word word{0};
  std::atomic<int> woken{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 4; ++i) {
    sleepers.emplace_back([&] { woken += sleep_while(word, 0) ? 1 : 0; });
  }
  word.store(1);
  futex_wake_all(word);
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(woken, 4);
}

TEST(Futex, PingPongsBetweenProcesses) {
  constexpr std::uint32_t kRounds = 100;
  const MemoryFile file = new_page();
  const Mapping page(file);
  auto& word = page.as<Word>();
  Child child([&] {
    const Mapping own(file);
    auto& seen = own.as<Word>();
    for (std::uint32_t turn = 0; turn < 2 * kRounds; turn += 2) {
      if (!sleep_while(seen, turn)) return 1;
      seen.store(turn + 2);
      futex_wake_all(seen);
    }
    return 0;
  });
  for (std::uint32_t turn = 0; turn < 2 * kRounds; turn += 2) {
    word.store(turn + 1);
    futex_wake_all(word);
    ASSERT_TRUE(sleep_while(word, turn + 1));
  }
  EXPECT_EQ(word.load(), 2 * kRounds);
  EXPECT_EQ(child.wait(), 0);
}

TEST(ProcessBarrier, WorksWhereItCanBeRegistered) { EXPECT_EQ(register_process_barrier(), process_barrier()); }

TEST(ProcessBarrierDeathTest, CanBeSwitchedOff) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("CUSTOMCCL_DISABLE", "membarrier", 1);
  EXPECT_EXIT(::_exit(register_process_barrier() || process_barrier() ? 1 : 0), testing::ExitedWithCode(0), "");
  ::unsetenv("CUSTOMCCL_DISABLE");
}

}  // namespace
}  // namespace customccl
