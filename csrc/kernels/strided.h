#pragma once

#include <cstddef>

#include "base/view.h"
#include "kernels/copy.h"

namespace customccl {

// Elements [first, first + count) of `view`, in logical order, to consecutive memory at dst.
// Contiguous views are one copy(); strided ones are gathered without a temporary. Elements have 1, 2, 4, 8 or 16 bytes.
void pack(std::byte* dst, const View& view, std::size_t first, std::size_t count, std::size_t element_size, Store store,
          Origin origin = Origin::kCache);

// The opposite: consecutive elements at src to elements [first, first + count) of `view`.
// Bytes between the elements of a strided view (its gaps) are never written.
void unpack(const View& view, std::size_t first, std::size_t count, const std::byte* src, std::size_t element_size,
            Store store, Origin origin = Origin::kCache);

}  // namespace customccl
