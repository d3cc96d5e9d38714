#pragma once

#include <torch/csrc/utils/pybind.h>

#include <optional>

namespace customccl::torch_shim {

// While it lives, this thread is without Python's lock, whether or not it came with it: for waits and for hooks that a thread with
// the lock may start. After the end of the interpreter, when there is no lock, it does nothing.
class WithoutPythonLock {
 public:
  WithoutPythonLock() {
    if (PyGILState_GetThisThreadState() != nullptr && PyGILState_Check() != 0) release_.emplace();
  }

 private:
  std::optional<pybind11::gil_scoped_release> release_;
};

}  // namespace customccl::torch_shim
