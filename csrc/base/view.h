#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// How an engine sees a caller's tensor: a run of elements in logical (row-major) order, wherever they lie in memory.

namespace customccl {

// One dimension of a strided tensor. The stride counts elements; it may be zero (expanded) and never is negative.
struct Dim {
  std::int64_t size = 0;
  std::int64_t stride = 0;
};

// A strided tensor, outermost dimension first. Dimensions of size 1 are dropped and mergeable neighbours merged.
struct Layout { std::vector<Dim> dims; };

// Elements [begin, begin + count) of the tensor at `data`, counted in logical order.
// `layout == nullptr`: the elements lie one after the other. A View owns nothing.
struct View {
  std::byte* data = nullptr;
  const Layout* layout = nullptr;
  std::size_t begin = 0;
  std::size_t count = 0;

  bool contiguous() const { return layout == nullptr; }
  // Address of element `index` of a contiguous view.
  std::byte* at(std::size_t index, std::size_t element_size) const { return data + (begin + index) * element_size; }
  View part(std::size_t first, std::size_t length) const { return {data, layout, begin + first, length}; }
};

// Elements of all views together.
inline std::size_t count_of(std::span<const View> views) {
  std::size_t count = 0;
  for (const View& view : views) count += view.count;
  return count;
}

}  // namespace customccl
