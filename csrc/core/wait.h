#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>

#include "host/doorbell.h"
#include "platform/clock.h"
#include "platform/cpu.h"
#include "platform/settings.h"

namespace customccl {

// How long a group's waits spin. Spinning pays when every rank has a processor and the others come soon; it is a disaster when
// ranks share processors (a spinner keeps the one it waits for from running: 1000x), so then nobody spins. What the ranks cannot
// know, such as other programs on the machine, is learnt: a wait that outlasts the spin shortens the next one, a
// short wait lengthens it.
class SpinBudget {
 public:
  void allow(bool processor_each) {
    allowed_ = processor_each;
    budget_.store(processor_each ? settings().spin.count() : 0, std::memory_order_relaxed);
  }
  Nanos now() const { return Nanos(budget_.load(std::memory_order_relaxed)); }
  void learn(Nanos waited) {
    if (!allowed_) return;
    const std::int64_t most = settings().spin.count();
    const std::int64_t budget = budget_.load(std::memory_order_relaxed);
    const std::int64_t next = waited.count() <= most ? budget + most / 8 : budget - budget / 4;
    budget_.store(std::clamp<std::int64_t>(next, most / 16, most), std::memory_order_relaxed);
  }

 private:
  bool allowed_ = false;
  std::atomic<std::int64_t> budget_{0};
};

// Waits until done(). Between looks it calls move(sleeps), which drives the group on and says whether anything moved; when waits get
// long also slow(), which looks for failures and drives other groups. Spins, then yields, then sleeps on the process's doorbell.
//
// No sleep misses what it waits for. A thread sleeps only when it has announced itself and then found, with nobody else at the group
// (sleeps = true), nothing to move and done() false. So what lets it go on came later: from a peer, which rings once it has
// published, or from a thread of this process that moved the group and ended its task, which rings once done() is true
// (Finished::deliver). Both then see that it is announced.
// Figures behind the stages: a flag crosses in 0.05 us, a yield costs 0.5 us, waking a sleeper 20 us.
template <class Done, class Move, class Slow>
void wait_until(SpinBudget& budget, Doorbell& bell, Done&& done, Move&& move, Slow&& slow) {
  Clock::time_point begin = Clock::now();
  const Nanos yield = settings().yield;
  constexpr Nanos kShortSleep = std::chrono::milliseconds(1);
  constexpr Nanos kLongSleep = std::chrono::milliseconds(12);  // bounds how late a death is noticed
  for (unsigned round = 1; !done(); ++round) {
    if (move(false)) {
      if (round % 64 == 0) slow();  // what moves may be others' work
      begin = Clock::now();
      continue;
    }
    const Nanos waited = Clock::now() - begin;
    const Nanos spin = budget.now();
    if (waited < spin) {
      for (int i = 0; i < 8; ++i) relax();
    } else if (waited < spin + yield) {
      if (round % 16 == 0) slow();
      ::sched_yield();
    } else {
      slow();
      bell.sleep(std::clamp(waited / 8, kShortSleep, kLongSleep), [&] { return move(true) || done(); });
    }
  }
  budget.learn(Clock::now() - begin);
}

}  // namespace customccl
