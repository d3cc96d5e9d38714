#include "c10d/shim_stamp.h"

#include "platform/build_stamp.h"

namespace customccl::torch_shim {

std::string_view shim_stamp() { return CUSTOMCCL_BUILD_STAMP; }

}  // namespace customccl::torch_shim
