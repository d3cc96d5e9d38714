#include "platform/build_stamp.h"

namespace customccl {

std::string_view library_stamp() { return CUSTOMCCL_BUILD_STAMP; }

}  // namespace customccl
