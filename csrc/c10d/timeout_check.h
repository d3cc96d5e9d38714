#pragma once

#include <c10/util/Exception.h>

#include <chrono>

namespace customccl::torch_shim {

// ValueError for a limit that a group cannot have.
inline void check_timeout(std::chrono::milliseconds timeout) {
  TORCH_CHECK_VALUE(timeout.count() > 0, "customccl: a timeout must be positive, not ", timeout.count(), " ms");
}

}  // namespace customccl::torch_shim
