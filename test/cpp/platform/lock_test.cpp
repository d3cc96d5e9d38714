#include "platform/lock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace customccl::test {
namespace {

TEST(Lock, OneThreadAtATimeHasIt) {
  constexpr int kThreads = 6;
  constexpr int kTimes = 20'000;
  Lock lock;
  long first = 0;
  long second = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kTimes; ++k) {
        const std::lock_guard guard(lock);
        const long seen = first;
        second += 2;
        first = seen + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first, kThreads * kTimes);
  EXPECT_EQ(second, 2 * kThreads * kTimes);
}

TEST(Lock, IsNotGivenTwice) {
  Lock lock;
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

// All sleep when it is given back: each must be woken in turn.
TEST(Lock, EverybodyWhoSleepsGetsIt) {
  constexpr int kThreads = 4;
  Lock lock;
  int had_it = 0;
  lock.lock();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const std::lock_guard guard(lock);
      ++had_it;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(had_it, kThreads);
}

}  // namespace
}  // namespace customccl::test
