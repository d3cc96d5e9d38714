#pragma once

#include <torch/csrc/utils/pybind.h>

#include <optional>

namespace customccl::torch_shim {

// To be called while Python ends: the thread that does it is this one.
void python_ends_here();

// Until Python 3.13 a thread that asks for the lock of an interpreter that has begun to end is ended itself, and as frames of C++ lie
// between, that ends the process. Such a thread stays here instead until the process is over. Call it, without the lock, after every wait
// that the end of a group interrupts: Python's groups end with it.
void stay_if_python_ends();

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
