#pragma once

#include "platform/clock.h"

namespace customccl::shm {

// What the store policy learns from: how long an operation took, without what has nothing to do with its stores.
//
// Time goes by in laps: a phase and the wait that follows. The wait for ranks that come late to the operation counts for none. Nor
// does a lap in which this rank's thread or a peer's lost its processor; the others stand for it. A progress thread shares its
// processor with a training step and gets it in turns: operations of 16 MiB beside one took 0.2 to 2.6 ns per byte as a whole, 0.08 to
// 0.13 of work. Other waits count: a root has nothing to read, and what its stores cost shows while it waits for its readers; and
// ranks that wait for each other see the same time, so they choose alike. (By the work alone, two ranks stayed with a kind each, 64 MiB
// 9.3 ms instead of 7. A thread's own processor time takes 1 us to ask for, 64 MiB 1.07x.)
class Stopwatch {
 public:
  // A phase begins.
  void begin_phase(Clock::time_point now) {
    end_lap(now);
    running_ = true;
    begin_ = now;
  }
  // What follows does not count.
  void pause(Clock::time_point now) {
    end_lap(now);
    running_ = false;
  }
  // Of an operation that is over.
  Nanos total(Clock::time_point now) {
    pause(now);
    return counted_ == 0 ? lost_ : spent_ * (counted_ + uncounted_) / counted_;
  }

 private:
  // Longer than any lap takes, and shorter than a thread is kept from its processor.
  static constexpr Nanos kPreempted = std::chrono::milliseconds(1);

  void end_lap(Clock::time_point now) {
    if (!running_) return;
    const Nanos took = now - begin_;
    const bool counts = took < kPreempted;
    (counts ? spent_ : lost_) += took;
    ++(counts ? counted_ : uncounted_);
  }

  bool running_ = false;
  Clock::time_point begin_{};
  Nanos spent_{0};  // in laps that count, and in others
  Nanos lost_{0};
  int counted_ = 0;
  int uncounted_ = 0;
};

}  // namespace customccl::shm
