#pragma once

#include <algorithm>

#include "engines/scratch.h"

namespace customccl {

// Copies elements [first, first + count) of `from` to the same elements of `to`, whatever their layouts. Nothing is done where
// both are the same memory (in place).
inline void move_elements(const Call& call, Scratch& scratch, const View& from, const View& to, std::size_t first,
                          std::size_t count, Store store = Store::kPlain, Origin origin = Origin::kCache) {
  const std::size_t element = size_of(call.dtype);
  if (from.contiguous()) return unpack(to, first, count, from.at(first, element), element, store, origin);
  if (to.contiguous()) return pack(to.at(first, element), from, first, count, element, store, origin);
  if (from.data == to.data && from.begin == to.begin && from.layout == to.layout) return;
  const std::size_t block = Scratch::kBytes / element;
  for (std::size_t done = 0; done < count; done += block) {
    const std::size_t part = std::min(block, count - done);
    pack(scratch.input(), from, first + done, part, element, Store::kPlain);
    unpack(to, first + done, part, scratch.input(), element, Store::kPlain);
  }
}

}  // namespace customccl
