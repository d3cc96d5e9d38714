#pragma once

#include <atomic>
#include <cstdint>

// A word in shared memory that tells whether its owner lives, kept by the kernel.
//
// The owning thread puts the word on its robust list (set_robust_list(2)). When that thread ends, however it ends
// (return, exit, SIGKILL, exec), the kernel sets bit 30 of the word before it tears the memory of the process down, so
// peers see it across pid namespaces, whatever the size of the process, and while the dead process is still a zombie.
// Reading it costs one load.
//
// Measured from kill(SIGKILL) to dead(): median 0.03 to 0.15 ms with nothing or with 1 GiB touched. The dying process
// needs a processor for it: 1 to 5 ms when a spinning waiter keeps the one it was on. A crash that dumps core is marked
// only when the core is written (300 MiB: 480 ms), as the kernel keeps the threads until then.

namespace customccl {

class LifeWord {
 public:
  // Called by the thread whose life the word shall show. It must make no other use of robust mutexes. One per thread, in memory that
  // stays as long as the thread.
  // False when the kernel refuses, when this thread has a word already, or when the word has had an owner.
  bool adopt();

  // Whether an owner adopted the word and is gone.
  bool dead() const { return (word_.load(std::memory_order_acquire) & kOwnerDied) != 0; }
  bool adopted() const { return word_.load(std::memory_order_acquire) != 0; }
  // The id of the owning thread in its own pid namespace; 0: none, or it is gone.
  int owner() const {
    const std::uint32_t word = word_.load(std::memory_order_acquire);
    return (word & kOwnerDied) != 0 ? 0 : static_cast<int>(word & kThread);
  }

 private:
  static constexpr std::uint32_t kOwnerDied = 0x4000'0000;  // FUTEX_OWNER_DIED
  static constexpr std::uint32_t kThread = 0x3fff'ffff;     // FUTEX_TID_MASK
  std::atomic<std::uint32_t> word_{0};
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

}  // namespace customccl
