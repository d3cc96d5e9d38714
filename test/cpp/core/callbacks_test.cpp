#include "core/callbacks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <stdexcept>
#include <thread>

#include "support/calling.h"
#include "support/failing_new.h"
#include "support/ranks.h"

// The threads that tell users of the end of operations.

namespace customccl::test {
namespace {

std::shared_ptr<Task> calling(std::function<void()> then) { return std::make_shared<Calling>(Call(), std::move(then)); }

TEST(Callbacks, ThatThrowEndNothing) {
  const Watchdog watchdog("callbacks");
  auto task = calling([] { throw std::runtime_error("no memory for what was to be told"); });
  const std::weak_ptr<Task> told = task;
  Callbacks::get().run(std::move(task));
  while (!told.expired()) std::this_thread::yield();
  std::promise<void> next;
  Callbacks::get().run(calling([&] { next.set_value(); }));
  next.get_future().wait();
}

// Each stays until the end, so that every one needs a thread of its own, or waits for the first.
TEST(Callbacks, AreRunOrRefusedWhicheverAllocationFails) {
  if (!allocations_can_fail()) GTEST_SKIP() << "a sanitizer has its own operator new";
  const Watchdog watchdog("callbacks");
  std::promise<void> over;
  const std::shared_future<void> end = over.get_future().share();
  std::atomic<int> entered{0};
  const auto stay = [&entered, end] {
    ++entered;
    end.wait();
  };
  Callbacks::get().run(calling(stay));
  while (entered == 0) std::this_thread::yield();
  int taken = 1;
  for (int n = 1, asked = n; asked >= n && !HasFailure(); ++n) {
    const auto task = calling(stay);
    bool refused = false;
    fail_allocations_from(n);
    try {
      Callbacks::get().run(task);
    } catch (const std::bad_alloc&) {
      refused = true;
    }
    asked = disarm();
    EXPECT_TRUE(!refused || task.use_count() == 1) << "allocation " << n;
    if (!refused) ++taken;
  }
  over.set_value();
  while (entered < taken) std::this_thread::yield();
}

void let_others_go_on() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST(Callbacks, OfWhichOneWaitsForTheNextHaveThreadsForBothWhereOneIsIdle) {
  const Watchdog watchdog("callbacks that wait for each other");
  static auto& callbacks = *new Callbacks();  // never destroyed: its threads end later
  std::latch first(1), second(1), all(2);
  callbacks.run(calling([&] { first.count_down(); }));
  first.wait();
  let_others_go_on();  // its thread is idle then
  callbacks.run(calling([&] {
    second.wait();
    all.count_down();
  }));
  callbacks.run(calling([&] {
    second.count_down();
    all.count_down();
  }));
  all.wait();
}

TEST(Callbacks, ThatRunAreAwaitedWhenTheyAreStopped) {
  const Watchdog watchdog("the end of callbacks");
  static auto& callbacks = *new Callbacks();
  std::latch begun(1), may_end(1);
  std::atomic<bool> ended{false};
  callbacks.run(calling([&] {
    begun.count_down();
    may_end.wait();
    ended = true;
  }));
  begun.wait();
  callbacks.stop(Nanos(1));  // no longer than it may
  EXPECT_FALSE(ended);
  std::thread stopping([&] {
    callbacks.stop(std::chrono::hours(1));
    EXPECT_TRUE(ended);
  });
  let_others_go_on();
  may_end.count_down();
  stopping.join();
}

}  // namespace
}  // namespace customccl::test
