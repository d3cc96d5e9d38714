#pragma once

#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <optional>
#include <thread>

namespace customccl::torch_shim {

namespace python_lock {
extern std::atomic<std::thread::id> ending;  // who ends the interpreter
[[gnu::cold]] void stay_unless_it_is_this_thread();
}  // namespace python_lock

// To be called while Python ends: the thread that does it is this one.
void python_ends_here();

// Until Python 3.13 a thread that asks for the lock of an interpreter that has begun to end is ended itself, and as frames of C++ lie
// between, that ends the process. Such a thread stays here instead until the process is over. Call it, without the lock, after every wait
// of an operation, however it ended: Python may have begun to end meanwhile.
inline void stay_if_python_ends() {
  if (python_lock::ending.load(std::memory_order_relaxed) != std::thread::id()) [[unlikely]]
    python_lock::stay_unless_it_is_this_thread();
}

// While it lives, this thread is without Python's lock, whether or not it came with it. After the end of the interpreter, when there is
// no lock, it does nothing.
class WithoutPythonLock {
 public:
  WithoutPythonLock() {
    if (PyGILState_GetThisThreadState() != nullptr && PyGILState_Check() != 0) release_.emplace();
  }
  WithoutPythonLock(const WithoutPythonLock&) = delete;
  WithoutPythonLock& operator=(const WithoutPythonLock&) = delete;
  ~WithoutPythonLock() {
    if (release_) stay_if_python_ends();
  }

 private:
  std::optional<pybind11::gil_scoped_release> release_;
};

}  // namespace customccl::torch_shim
