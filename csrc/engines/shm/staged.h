#pragma once

#include <cstddef>

#include "kernels/origin.h"

namespace customccl::shm {

// Where elements of a member lie for others to read: in its staging, or where it shows them (shown_tensors.h).
struct Staged {
  static constexpr int kMapped = -1;

  const std::byte* data = nullptr;
  Origin origin = Origin::kPeer;
  int process = kMapped;  // else the member in whose process that address is one: not in this one

  bool mapped() const { return process == kMapped; }
  Staged operator+(std::size_t bytes) const { return {data + bytes, origin, process}; }
};

}  // namespace customccl::shm
