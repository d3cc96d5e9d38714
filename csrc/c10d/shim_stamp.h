#pragma once

#include <string_view>

namespace customccl::torch_shim {

// The stamp of the headers that this shim was compiled with (platform/build_stamp.h).
std::string_view shim_stamp();

}  // namespace customccl::torch_shim
