#pragma once

#include "base/view.h"

namespace customccl {

// A run of memory.
struct Extent {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  bool meets(const Extent& other) const { return begin < other.end && other.begin < end; }
};

// All that a view's elements lie between; of one with a layout, those of the whole tensor.
inline Extent extent_of(const View& view, std::size_t element) {
  if (view.contiguous()) return {view.at(0, element), view.at(view.count, element)};
  std::size_t last = 0;
  for (const Dim& dim : view.layout->dims) {
    if (dim.size == 0) return {view.data, view.data};
    last += static_cast<std::size_t>((dim.size - 1) * dim.stride);
  }
  return {view.data, view.data + (last + 1) * element};
}

}  // namespace customccl
