#include "kernels/strided.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/streaming.h"

// A strided view is walked row by row, a row being a run along the innermost dimension. Where a range begins inside a row
// comes from one division per dimension; from then on an odometer of the outer dimensions only adds and compares.

namespace customccl {
namespace {

// No tensor has more: each dimension has at least two elements (Layout), and an index fits 63 bits.
constexpr std::size_t kMaxDims = 64;

// Where the current row lies.
class RowWalk {
 public:
  RowWalk(std::span<const Dim> dims, std::size_t index) : outer_(dims.first(dims.size() - 1)), row_(dims.back()) {
    auto rest = static_cast<std::int64_t>(index);
    column_ = rest % row_.size;
    rest /= row_.size;
    for (std::size_t d = outer_.size(); d-- > 0;) {
      position_[d] = rest % outer_[d].size;
      rest /= outer_[d].size;
      offset_ += position_[d] * outer_[d].stride;
    }
  }

  std::int64_t offset() const { return offset_ + column_ * row_.stride; }  // elements from the tensor's first
  std::size_t left_in_row() const { return static_cast<std::size_t>(row_.size - column_); }
  std::int64_t stride() const { return row_.stride; }

  void next_row() {
    column_ = 0;
    for (std::size_t d = outer_.size(); d-- > 0;) {
      offset_ += outer_[d].stride;
      if (++position_[d] < outer_[d].size) return;
      offset_ -= position_[d] * outer_[d].stride;
      position_[d] = 0;
    }
  }

 private:
  std::span<const Dim> outer_;
  Dim row_;
  std::int64_t column_ = 0;
  std::int64_t offset_ = 0;
  std::array<std::int64_t, kMaxDims> position_;  // only outer_.size() of them are used
};

// Runs at least this long are worth streaming; in shorter ones most lines are cut at an end.
constexpr std::size_t kStreamedRun = 1024;

void copy_run(std::byte* dst, const std::byte* src, std::size_t bytes, Store store) {
  if (store == Store::kStreaming && bytes >= kStreamedRun) {
    kernels::streaming_copy(dst, src, bytes);
  } else {
    std::memcpy(dst, src, bytes);
  }
}

// Copies `count` elements of `size` bytes between places `to_step` and `from_step` bytes apart.
template <std::size_t size>
void copy_steps(std::byte* to, std::size_t to_step, const std::byte* from, std::size_t from_step, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i, to += to_step, from += from_step) std::memcpy(to, from, size);
}

// Calls row(memory, packed, count, stride) for each run of the range; `packed` counts elements from its beginning.
template <class Row>
void for_each_row(const View& view, std::size_t first, std::size_t count, std::size_t element_size, const Row& row) {
  RowWalk walk(view.layout->dims, view.begin + first);
  for (std::size_t done = 0; done < count; walk.next_row()) {
    const std::size_t length = std::min(walk.left_in_row(), count - done);
    row(view.data + walk.offset() * static_cast<std::int64_t>(element_size), done, length, walk.stride());
    done += length;
  }
}

template <std::size_t size>
void pack_rows(std::byte* dst, const View& view, std::size_t first, std::size_t count, Store store) {
  for_each_row(view, first, count, size, [&](const std::byte* memory, std::size_t at, std::size_t length, auto stride) {
    if (stride == 1) {
      copy_run(dst + at * size, memory, length * size, store);
    } else {
      copy_steps<size>(dst + at * size, size, memory, static_cast<std::size_t>(stride) * size, length);
    }
  });
}

template <std::size_t size>
void unpack_rows(const View& view, std::size_t first, std::size_t count, const std::byte* src, Store store) {
  for_each_row(view, first, count, size, [&](std::byte* memory, std::size_t at, std::size_t length, auto stride) {
    if (stride == 1) {
      copy_run(memory, src + at * size, length * size, store);
    } else {
      copy_steps<size>(memory, static_cast<std::size_t>(stride) * size, src + at * size, size, length);
    }
  });
}

// Calls run with the element size as a constant.
template <class Run>
void with_size(std::size_t element_size, const Run& run) {
  switch (element_size) {
    case 1: return run(std::integral_constant<std::size_t, 1>());
    case 2: return run(std::integral_constant<std::size_t, 2>());
    case 4: return run(std::integral_constant<std::size_t, 4>());
    case 8: return run(std::integral_constant<std::size_t, 8>());
    case 16: return run(std::integral_constant<std::size_t, 16>());
  }
}

bool in_one_run(const View& view) { return view.contiguous() || view.layout->dims.empty(); }

}  // namespace

void pack(std::byte* dst, const View& view, std::size_t first, std::size_t count, std::size_t element_size, Store store) {
  if (count == 0) return;
  if (in_one_run(view)) return copy(dst, view.at(first, element_size), count * element_size, store);
  with_size(element_size, [&](auto size) { pack_rows<size>(dst, view, first, count, store); });
  if (store == Store::kStreaming) kernels::streaming_fence();
}

void unpack(const View& view, std::size_t first, std::size_t count, const std::byte* src, std::size_t element_size,
            Store store) {
  if (count == 0) return;
  if (in_one_run(view)) return copy(view.at(first, element_size), src, count * element_size, store);
  with_size(element_size, [&](auto size) { unpack_rows<size>(view, first, count, src, store); });
  if (store == Store::kStreaming) kernels::streaming_fence();
}

}  // namespace customccl
