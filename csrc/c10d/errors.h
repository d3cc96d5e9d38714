#pragma once

#include <c10/util/Exception.h>

#include <exception>

#include "base/status.h"

namespace customccl::torch_shim {

// A Status as the exception that Python sees: ValueError, torch.distributed.DistNetworkError or DistBackendError.
[[noreturn]] void throw_status(const Status& status);
std::exception_ptr to_exception(const Status& status);

inline void check(const Status& status) {
  if (C10_UNLIKELY(!status.ok())) throw_status(status);
}

}  // namespace customccl::torch_shim
