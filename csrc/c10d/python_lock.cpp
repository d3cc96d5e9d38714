#include "c10d/python_lock.h"

#include <chrono>

namespace customccl::torch_shim {

namespace {

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

}  // namespace

namespace python_lock {

std::atomic<std::thread::id> ending{};

void stay_unless_it_is_this_thread() {
  if (ending.load(std::memory_order_relaxed) == std::this_thread::get_id() || !is_finalizing()) return;
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace python_lock

void python_ends_here() { python_lock::ending.store(std::this_thread::get_id(), std::memory_order_relaxed); }

}  // namespace customccl::torch_shim
