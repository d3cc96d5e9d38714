#pragma once

#include <torch/csrc/utils/pybind.h>

namespace customccl::torch_shim {

// The flight log as the parts of torch's dump: {"entries": [...], "pg_config": {...}, "pg_status": {...}}, plain values.
// `stacks`: with the Python frames that made each call. `only_active`: without what is completed.
pybind11::dict flight_dump(bool stacks, bool only_active);

}  // namespace customccl::torch_shim
