#pragma once

#include <pybind11/pybind11.h>

namespace customccl::torch_shim {

// send_message, receive_message and probe_message of the module: whole Python values from rank to rank (torch_customccl/messages).
void bind_message_exchange(pybind11::module_& module);

}  // namespace customccl::torch_shim
