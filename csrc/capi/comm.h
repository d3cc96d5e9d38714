#pragma once

#include <algorithm>
#include <memory>

#include "capi/customccl.h"
#include "core/communicator.h"

// What a customccl_comm points to. Thread rule: constant from init to destroy.
struct customccl_comm {  // NOLINT(readability-identifier-naming): the name that C sees
  std::shared_ptr<customccl::Communicator> group;
};

namespace customccl::capi {

// INT64_MAX milliseconds mean "for ever"; a century is as good, and does not overflow when counted in nanoseconds.
inline Nanos to_limit(std::int64_t milliseconds) {
  constexpr std::int64_t kCentury = std::int64_t{100} * 365 * 24 * 3600 * 1000;
  return std::chrono::milliseconds(std::min(milliseconds, kCentury));
}

}  // namespace customccl::capi
