#pragma once

#include <atomic>
#include <cstdint>

namespace customccl {

// A mutex of few instructions, for the lock that every call takes: std::mutex costs 60 of them, in eight cache lines of another
// library, which are cold between two calls of a training step. Threads that find it taken sleep, as with std::mutex.
//
// Only the value tells: kFree, kTaken, or kAwaited (taken, and somebody may sleep). Whoever slept takes it as kAwaited, as others may
// sleep still; so the last of them is woken for nothing once, and nobody is forgotten.
class Lock {
 public:
  bool try_lock() {
    std::uint32_t state = kFree;
    return state_.compare_exchange_strong(state, kTaken, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void lock() {
    if (!try_lock()) wait();
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) state_.notify_one();
  }

 private:
  enum State : std::uint32_t { kFree, kTaken, kAwaited };

  [[gnu::cold, gnu::noinline]] void wait() {
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
      state_.wait(kAwaited, std::memory_order_relaxed);
    }
  }

  std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace customccl
