#pragma once

#include <pybind11/pybind11.h>

namespace customccl::torch_shim {

// What `python -m torch_customccl info` shows of the C++ side.
pybind11::dict facts();

}  // namespace customccl::torch_shim
