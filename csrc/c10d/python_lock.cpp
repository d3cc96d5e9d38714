#include "c10d/python_lock.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace customccl::torch_shim {

namespace {

std::atomic<std::thread::id> ending{};  // who ends the interpreter

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

}  // namespace

void python_ends_here() { ending.store(std::this_thread::get_id(), std::memory_order_relaxed); }

void stay_if_python_ends() {
  const std::thread::id who = ending.load(std::memory_order_relaxed);
  if (who == std::thread::id()) [[likely]]
    return;
  if (who == std::this_thread::get_id() || !is_finalizing()) return;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace customccl::torch_shim
