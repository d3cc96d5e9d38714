#pragma once

#include <atomic>
#include <cstdint>

#include "platform/clock.h"
#include "platform/futex.h"

// How a process that sleeps is woken by its peers. One per process, in its arena; it covers all its groups.
//
// The peers publish a flag and then look whether anybody sleeps; a sleeper announces itself and then looks at the flags.
// Each side must see the other's store, which costs a full fence on one of the two. The sleeper pays: it makes all registered
// processes pass a barrier (membarrier) between announcing and looking. So the publisher's cost is one load of a line
// that rarely changes. Without membarrier the publisher fences (`fence_`).

namespace customccl {

class alignas(128) Doorbell {
 public:
  // Called once by the owner, before peers see the doorbell.
  void prepare() { fence_.store(register_process_barrier() ? 0 : 1, std::memory_order_relaxed); }

  // By a peer, after it published something. `fence`: this peer is not registered for process barriers.
  void ring(bool fence) {
    if (fence || fence_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler must not look before it has published either
    if (sleepers_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake();
  }

  void wake() {
    bell_.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(bell_);
  }

  // By threads of the owner: sleeps until rung, or until `timeout`, unless ready() is true once the sleeper is announced.
  template <class Ready>
  void sleep(Nanos timeout, Ready&& ready) {
    const std::uint32_t seen = bell_.load(std::memory_order_acquire);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    const bool barrier = fence_.load(std::memory_order_relaxed) == 0 && process_barrier();
    if (!barrier) std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!ready()) futex_wait(bell_, seen, timeout);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<std::uint32_t> fence_{0};
  std::atomic<std::uint32_t> bell_{0};
};

}  // namespace customccl
