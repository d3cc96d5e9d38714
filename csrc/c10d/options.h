#pragma once

#include "c10d/compat.h"

namespace customccl::torch_shim {

// Options of a group, as torch.distributed hands them around (pg_options). Users set the timeout, and enable_reconfigure.
struct CustomOptions : ::c10d::Backend::Options {
  explicit CustomOptions(std::chrono::milliseconds limit = kBackendDefaultTimeout)
      : ::c10d::Backend::Options("customccl", limit) {}
  CustomOptions(const CustomOptions&) = default;
  c10::intrusive_ptr<::c10d::Backend::Options> clone() const CUSTOMCCL_OVERRIDE_SINCE_2_14 {
    return c10::make_intrusive<CustomOptions>(*this);
  }

  // Whether the group meets nobody until reconfigure().
  bool deferred() const {
#ifdef C10D_BACKEND_HAS_RECONFIGURE
    return enable_reconfigure;
#else
    return false;
#endif
  }
};

}  // namespace customccl::torch_shim
