#pragma once

#include <torch/csrc/utils/pybind.h>

namespace customccl::torch_shim {

// all_reduce_memory(communicator, tensor, reduce op's number): Communicator.allreduce of torch_customccl/communicator.py.
void bind_memory_call(pybind11::module_& module);

}  // namespace customccl::torch_shim
