#pragma once

#include "c10d/compat.h"

namespace customccl::torch_shim {

// Options of a group, as torch.distributed hands them around (pg_options). Only the timeout is set by users.
struct CustomOptions : ::c10d::Backend::Options {
  explicit CustomOptions(std::chrono::milliseconds limit = kBackendDefaultTimeout)
      : ::c10d::Backend::Options("customccl", limit) {}
  CustomOptions(const CustomOptions&) = default;
};

}  // namespace customccl::torch_shim
