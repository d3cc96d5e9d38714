#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

namespace customccl::torch_shim {

// The memory of a Python object that offers the buffer protocol (bytes, bytearray, memoryview, array.array, numpy.ndarray) as a
// tensor that shares it and keeps the object alive. Throws TypeError or ValueError where that is not possible. Holds the GIL.
at::Tensor tensor_of_buffer(const pybind11::object& object, bool writable);

}  // namespace customccl::torch_shim
