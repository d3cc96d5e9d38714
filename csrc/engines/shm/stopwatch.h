#pragma once

#include "platform/clock.h"

namespace customccl::shm {

// What the store policy learns from: how long a rank worked on an operation.
//
// Where all ranks have the same to do, the work itself counts and the waits between its phases do not, nor does a phase during which
// the thread lost its processor; the others stand for it. The progress thread shares its processor with a training step and gets it
// in turns: operations of 16 MiB beside one took 0.2 to 2.6 ns per byte with the waits, 0.08 to 0.13 without, and only then it showed
// which kind of store was faster. (A thread's own processor time would tell, too; asking for it takes 1 us, 64 MiB 1.07x.)
// A root has nothing to read; what its stores cost shows while it waits for its readers. So there the waits count.
class Stopwatch {
 public:
  void reset(bool waits_count) {
    *this = Stopwatch();
    waits_count_ = waits_count;
  }
  // The work of a phase begins.
  void start(Clock::time_point now) {
    if (running_) return;
    running_ = true;
    begin_ = now;
  }
  // It is over, and a wait begins. The one for ranks that come late to the operation never counts.
  void pause(Clock::time_point now, bool for_late_ranks) {
    if (!waits_count_ || for_late_ranks) stop(now);
  }
  // Of an operation that is over.
  Nanos total(Clock::time_point now) {
    stop(now);
    if (counted_ == 0) return lost_;
    return spent_ * (counted_ + uncounted_) / counted_;
  }

 private:
  // Longer than any phase takes, and shorter than a thread is kept from its processor.
  static constexpr Nanos kPreempted = std::chrono::milliseconds(1);

  void stop(Clock::time_point now) {
    if (!running_) return;
    running_ = false;
    const Nanos took = now - begin_;
    const bool counts = waits_count_ || took < kPreempted;
    (counts ? spent_ : lost_) += took;
    ++(counts ? counted_ : uncounted_);
  }

  bool waits_count_ = false;
  bool running_ = false;
  Clock::time_point begin_{};
  Nanos spent_{0};  // in phases that count, and in others
  Nanos lost_{0};
  int counted_ = 0;
  int uncounted_ = 0;
};

}  // namespace customccl::shm
