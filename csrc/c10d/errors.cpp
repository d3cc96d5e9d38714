#include "c10d/errors.h"

namespace customccl::torch_shim {

void throw_status(const Status& status) {
  switch (status.code) {
    case Code::kInvalidArgument: C10_THROW_ERROR(ValueError, status.message());
    case Code::kUnreachable: C10_THROW_ERROR(DistNetworkError, status.message());
    case Code::kOk:
    case Code::kMismatch:
    case Code::kTimeout:
    case Code::kPeerDied:
    case Code::kPeerLeft:
    case Code::kAborted:
    case Code::kClosed:
    case Code::kSystem: break;
  }
  C10_THROW_ERROR(DistBackendError, status.message());
}

std::exception_ptr to_exception(const Status& status) {
  try {
    throw_status(status);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace customccl::torch_shim
