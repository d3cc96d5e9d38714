#pragma once

#include <torch/csrc/utils/pybind.h>

namespace customccl::torch_shim {

// One level of a function that calls itself for what a value contains: RecursionError, as Python's own functions raise it, where a
// value contains itself or is nested too deeply. `where` goes on from "maximum recursion depth exceeded".
class RecursionGuard {
 public:
  explicit RecursionGuard(const char* where) {
    if (Py_EnterRecursiveCall(where) != 0) throw pybind11::error_already_set();
  }
  RecursionGuard(const RecursionGuard&) = delete;
  RecursionGuard& operator=(const RecursionGuard&) = delete;
  ~RecursionGuard() { Py_LeaveRecursiveCall(); }
};

}  // namespace customccl::torch_shim
