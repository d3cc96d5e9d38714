#pragma once

#include "engines/shm/algorithm.h"
#include "kernels/strided.h"

namespace customccl::shm {

// Copies elements [first, first + count) of an output from where a member has put them.
void take_across(const Context& context, const View& output, std::size_t first, std::size_t count, Staged from,
                 std::size_t element);

inline void take(const Context& context, const View& output, std::size_t first, std::size_t count, Staged from,
                 std::size_t element, Store store) {
  if (from.mapped()) [[likely]]
    return unpack(output, first, count, from.data, element, store, from.origin);
  take_across(context, output, first, count, from, element);
}

}  // namespace customccl::shm
