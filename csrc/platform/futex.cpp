#include "platform/futex.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "platform/settings.h"

namespace customccl {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "shared between processes");

bool membarrier(int command) {
  static const bool allowed = !disabled("membarrier");
  return allowed && ::syscall(SYS_membarrier, command, 0, 0) == 0;
}

}  // namespace

// No FUTEX_PRIVATE_FLAG: the kernel then finds the sleepers by file and offset, whoever mapped the word wherever.
// The result does not matter: changed word, timeout and signal all mean "look again".
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Nanos timeout) {
  if (timeout <= Nanos::zero()) return;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(timeout);
  const timespec limit{static_cast<std::time_t>(seconds.count()), static_cast<long>((timeout - seconds).count())};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool register_process_barrier() { return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED); }

bool process_barrier() { return membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED); }

}  // namespace customccl
