#pragma once

#include <exception>

#include "base/status.h"
#include "capi/customccl.h"

// The last failure of each thread, and the border that no exception crosses.

namespace customccl::capi {

// Remembers `status`, which is not ok, as this thread's last failure. Never throws, never allocates.
[[gnu::cold]] customccl_code remember(const Status& status);

inline customccl_code report(const Status& status) { return status.ok() ? CUSTOMCCL_OK : remember(status); }

[[gnu::cold]] inline Status invalid(std::string what) {
  return {Code::kInvalidArgument, "customccl: " + std::move(what)};
}

// Runs `body`, which returns a Status, and makes a code of whatever comes of it.
template <class Body>
customccl_code guarded(Body&& body) noexcept {
  try {
    return report(body());
  } catch (const std::exception& error) {
    return report({Code::kSystem, error.what()});
  } catch (...) {
    return CUSTOMCCL_SYSTEM;
  }
}

}  // namespace customccl::capi
