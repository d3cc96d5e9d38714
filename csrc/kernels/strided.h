#pragma once

#include <cstddef>

#include "base/view.h"
#include "kernels/copy.h"

namespace customccl {

// pack() and unpack() of strided views, without a temporary.
void gather_elements(std::byte* dst, const View& view, std::size_t first, std::size_t count, std::size_t element_size,
                     Store store, Origin origin);
void scatter_elements(const View& view, std::size_t first, std::size_t count, const std::byte* src,
                      std::size_t element_size, Store store, Origin origin);

// Elements [first, first + count) of `view`, in logical order, to consecutive memory at dst.
// Elements have 1, 2, 4, 8 or 16 bytes. Contiguous views are one copy().
inline void pack(std::byte* dst, const View& view, std::size_t first, std::size_t count, std::size_t element_size,
                 Store store, Origin origin = Origin::kCache) {
  if (!view.contiguous()) return gather_elements(dst, view, first, count, element_size, store, origin);
  copy(dst, view.at(first, element_size), count * element_size, store, origin);
}

// The opposite: consecutive elements at src to elements [first, first + count) of `view`.
// Bytes between the elements of a strided view (its gaps) are never written.
inline void unpack(const View& view, std::size_t first, std::size_t count, const std::byte* src,
                   std::size_t element_size, Store store, Origin origin = Origin::kCache) {
  if (!view.contiguous()) return scatter_elements(view, first, count, src, element_size, store, origin);
  copy(view.at(first, element_size), src, count * element_size, store, origin);
}

}  // namespace customccl
