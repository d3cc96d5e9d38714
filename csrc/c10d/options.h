#pragma once

#include "c10d/compat.h"

namespace customccl::torch_shim {

// Options of a group, as torch.distributed hands them around (pg_options). Only the timeout is set by users.
struct Options : ::c10d::Backend::Options {
  explicit Options(std::chrono::milliseconds limit = kBackendDefaultTimeout) : ::c10d::Backend::Options("customccl", limit) {}
  Options(const Options&) = default;
};

}  // namespace customccl::torch_shim
