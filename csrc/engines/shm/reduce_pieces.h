#pragma once

#include <array>
#include <cstddef>

#include "engines/shm/algorithm.h"
#include "engines/shm/geometry.h"

namespace customccl::shm {

// One run of elements to be reduced by this rank: every member's contribution and where the result goes.
struct Reduction {
  std::array<const std::byte*, kMaxMembers> staged;  // by member, or where it is shown; not this rank's if `own` is set
  Origin origin = Origin::kCache;                    // of those that were staged
  const View* own = nullptr;                         // this rank's input, where it was not staged
  std::size_t own_first = 0;
  const View* output = nullptr;  // nullptr: this rank wants no result
  std::size_t output_first = 0;
  std::byte* published = nullptr;  // staging from which peers copy the result, or nullptr
  std::size_t count = 0;

  void take(int member, Staged from) {
    staged[static_cast<std::size_t>(member)] = from.data;
    if (from.origin == Origin::kMemory) origin = Origin::kMemory;
  }
};

// Carries it out: at once where input and output lie consecutively, else block by block, so that what is read twice is still in the
// first-level cache.
void reduce_piece(const Context& context, const Operation& op, Reduction& piece);

}  // namespace customccl::shm
