#pragma once

#include <algorithm>
#include <bit>
#include <span>

#include "kernels/strided.h"

namespace customccl {

// Several views, one behind the other, as one run of bytes. Positions and lengths are multiples of the element size, a power of two.

inline std::uint64_t bytes_of(std::span<const View> views, std::size_t element) { return count_of(views) * element; }

// Calls visit(view, first element, elements) for what lies in bytes [first, first + bytes) of the run.
template <class Visit>
void visit_runs(std::span<const View> views, std::size_t element, std::uint64_t first, std::size_t bytes,
                Visit&& visit) {
  const int shift = std::countr_zero(element);  // a division takes longer than moving a small message
  if (views.size() == 1) return visit(views[0], first >> shift, bytes >> shift);
  for (const View& view : views) {
    if (bytes == 0) return;
    const std::uint64_t length = view.count * element;
    if (first >= length) {
      first -= length;
      continue;
    }
    const std::size_t part = std::min<std::uint64_t>(bytes, length - first);
    visit(view, first >> shift, part >> shift);
    bytes -= part;
    first = 0;
  }
}

inline void pack_runs(std::byte* dst, std::span<const View> views, std::size_t element, std::uint64_t first,
                      std::size_t bytes, Store store = Store::kPlain, Origin origin = Origin::kCache) {
  visit_runs(views, element, first, bytes, [&](const View& view, std::size_t from, std::size_t count) {
    pack(dst, view, from, count, element, store, origin);
    dst += count * element;
  });
}

// From what a peer has put down.
inline void unpack_runs(std::span<const View> views, std::size_t element, std::uint64_t first, const std::byte* src,
                        std::size_t bytes, Store store) {
  visit_runs(views, element, first, bytes, [&](const View& view, std::size_t from, std::size_t count) {
    unpack(view, from, count, src, element, store, Origin::kPeer);
    src += count * element;
  });
}

}  // namespace customccl
