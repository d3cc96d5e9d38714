#include "engines/shm/stopwatch.h"

#include <gtest/gtest.h>

// What counts of the time that an operation takes.

namespace customccl::test {
namespace {

using std::chrono::microseconds;

class StopwatchTest : public ::testing::Test {
 protected:
  void begin(bool waits_count) { watch_.reset(waits_count); }
  void work(int us, bool for_late_ranks = false) {
    watch_.start(now_);
    now_ += microseconds(us);
    watch_.pause(now_, for_late_ranks);
  }
  void wait(int us) { now_ += microseconds(us); }
  int total() { return static_cast<int>(std::chrono::duration_cast<microseconds>(watch_.total(now_)).count()); }

  shm::Stopwatch watch_;
  Clock::time_point now_{};
};

using Stopwatch = StopwatchTest;

TEST_F(Stopwatch, CountsWorkAndNoWaits) {
  begin(false);
  work(100, true);
  wait(5000);
  work(200);
  wait(300);
  work(200);
  EXPECT_EQ(total(), 500);
}

TEST_F(Stopwatch, CountsTheWaitsOfARootButForTheOneForLateRanks) {
  begin(true);
  work(100, true);
  wait(5000);
  work(200);
  wait(300);
  work(200);
  EXPECT_EQ(total(), 800);
}

TEST_F(Stopwatch, LetsOtherPhasesStandForOneThatLostItsProcessor) {
  begin(false);
  work(100, true);
  work(3100);
  work(100);
  work(4100);
  EXPECT_EQ(total(), 400);
}

TEST_F(Stopwatch, CountsAllWhereAllPhasesAreLong) {
  begin(false);
  work(2000, true);
  work(3000);
  EXPECT_EQ(total(), 5000);
}

TEST_F(Stopwatch, BeginsAnew) {
  begin(true);
  work(100);
  begin(false);
  wait(50);
  work(100);
  wait(50);
  EXPECT_EQ(total(), 100);
}

}  // namespace
}  // namespace customccl::test
