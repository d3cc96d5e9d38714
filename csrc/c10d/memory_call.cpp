#include "c10d/memory_call.h"

#include <torch/csrc/autograd/python_variable.h>

#include "c10d/python_lock.h"
#include "c10d/tensor_checks.h"
#include "c10d/types.h"
#include "capi/customccl.h"

namespace customccl::torch_shim {

namespace {

constexpr int kNotPlain = -1;

// customccl_run's code; kNotPlain where Python has to look closer, and then nothing was done.
int all_reduce_memory(std::uintptr_t communicator, const pybind11::handle& object, int reduce_op) {
  if (!THPVariable_Check(object.ptr())) return kNotPlain;
  const at::Tensor& tensor = THPVariable_Unpack(object.ptr());
  if (!is_plain(tensor) || !tensor.is_contiguous()) return kNotPlain;
  const auto dtype = static_cast<customccl_dtype>(dtype_of(tensor.scalar_type()));
  const auto count = static_cast<std::size_t>(tensor.numel());
  const std::size_t element = tensor.itemsize();
  const std::size_t begin = static_cast<std::size_t>(tensor.storage_offset()) * element;
  if (C10_UNLIKELY(reach_beyond(tensor.storage(), begin, count, element))) check_memory(tensor);
  void* data = tensor.mutable_data_ptr();
  const pybind11::gil_scoped_release release;
  const int code = customccl_all_reduce(reinterpret_cast<customccl_comm*>(communicator), data, data, count, dtype,
                                        static_cast<customccl_reduce_op>(reduce_op));
  stay_if_python_ends();
  return code;
}

}  // namespace

void bind_memory_call(pybind11::module_& module) {
  namespace py = pybind11;
  module.def("all_reduce_memory", &all_reduce_memory, py::arg("communicator"), py::arg("tensor"), py::arg("reduce_op"));
}

}  // namespace customccl::torch_shim
