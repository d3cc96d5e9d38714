#include "engines/shm/stopwatch.h"

#include <gtest/gtest.h>

// What counts of the time that an operation takes.

namespace customccl::test {
namespace {

using std::chrono::microseconds;

class Stopwatch : public ::testing::Test {
 protected:
  void phase(int us) {
    watch_.begin_phase(now_);
    wait(us);
  }
  void pause() { watch_.pause(now_); }
  void wait(int us) { now_ += microseconds(us); }
  auto total() { return std::chrono::duration_cast<microseconds>(watch_.total(now_)).count(); }

  shm::Stopwatch watch_;
  Clock::time_point now_{};
};

TEST_F(Stopwatch, CountsPhasesAndWaitsButForTheOneForLateRanks) {
  phase(100);
  pause();
  wait(5000);
  phase(200);
  wait(300);
  phase(200);
  EXPECT_EQ(total(), 800);
}

TEST_F(Stopwatch, LetsOtherLapsStandForOneInWhichAProcessorWasLost) {
  phase(100);
  pause();
  phase(3100);
  phase(100);
  wait(4000);
  phase(100);
  phase(100);
  EXPECT_EQ(total(), 500);
}

TEST_F(Stopwatch, CountsAllWhereAllLapsAreLong) {
  phase(2000);
  pause();
  phase(3000);
  EXPECT_EQ(total(), 5000);
}

}  // namespace
}  // namespace customccl::test
