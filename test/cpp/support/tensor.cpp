#include "support/tensor.h"

#include <algorithm>
#include <cstring>

#include "host/range_allocator.h"
#include "host/tensor_memory.h"

namespace customccl::test {

namespace {

constexpr std::size_t kGuard = 128;
constexpr std::size_t kOdd = 5;  // elements before a tensor that begins inside a larger one

// The layout of `total` elements; nullptr: consecutive.
std::unique_ptr<Layout> layout_for(Shape shape, std::size_t total) {
  const auto signed_total = static_cast<std::int64_t>(total);
  if (total < 2 || is_consecutive(shape) || shape == Shape::kOffset) return nullptr;
  if (shape == Shape::kTransposed) {
    for (const std::int64_t columns : {7, 5, 4, 3, 2}) {
      const std::int64_t rows = signed_total / columns;
      if (rows < 2 || rows * columns != signed_total) continue;
      return std::make_unique<Layout>(Layout{{{rows, 1}, {columns, rows + 1}}});
    }
  }
  return std::make_unique<Layout>(Layout{{{signed_total, 3}}});
}

std::size_t extent(const Layout* layout, std::size_t total) {
  if (layout == nullptr) return total;
  std::int64_t last = 0;
  for (const Dim& dim : layout->dims) last += (dim.size - 1) * dim.stride;
  return static_cast<std::size_t>(last) + 1;
}

std::shared_ptr<std::byte> memory_for(Shape shape, std::size_t bytes) {
  if (shape != Shape::kShared && shape != Shape::kPages)
    return {new std::byte[bytes], [](std::byte* data) { delete[] data; }};
  Block block;
  if (!TensorMemory::of_process().allocate(bytes, block).ok()) throw std::bad_alloc();
  return {block.data, [block, bytes](std::byte*) { TensorMemory::of_process().release(block, bytes); }};
}

// Bytes that this thread uses again and again: of new ones the thread sanitizer would have to touch many times their size.
std::span<std::byte> scratch(std::size_t bytes) {
  static thread_local std::vector<std::byte> memory;
  if (memory.size() < bytes) memory.resize(bytes);
  return {memory.data(), bytes};
}

bool is_poison(std::span<const std::byte> bytes) {
  if (bytes.empty()) return true;  // behind a tensor that fills its last page
  // Each byte equals the next.
  return bytes.front() == Tensor::kPoison && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

}  // namespace

Tensor::Tensor(DType dtype, std::size_t count, Shape shape) : element_(size_of(dtype)) {
  const std::size_t before = shape == Shape::kOffset ? kOdd : 0;
  layout_ = layout_for(shape, count + before);
  const std::size_t bytes = extent(layout_.get(), count + before) * element_;
  const bool pages = shape == Shape::kPages;  // behind a page that guards; the rest of the last one does, too
  const std::size_t room = bytes + (pages ? RangeAllocator::kPage : 2 * kGuard + 64);
  owner_ = memory_for(shape, room);
  memory_ = {owner_.get(), pages ? RangeAllocator::rounded(room) : room};
  std::fill(memory_.begin(), memory_.end(), kPoison);
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  origin_ = pages ? RangeAllocator::kPage : kGuard + (64 - address % 64) % 64;
  view_ = {memory_.data() + origin_, layout_.get(), before, count};
}

std::shared_ptr<Tensor> Tensor::part(std::size_t first, std::size_t count) const {
  std::shared_ptr<Tensor> part(new Tensor);
  part->is_part_ = true;
  part->element_ = element_;
  part->owner_ = owner_;
  part->memory_ = memory_;
  part->origin_ = origin_;
  part->view_ = view_.part(first, count);
  return part;
}

std::size_t Tensor::offset_of(std::size_t index) const {
  std::size_t left = view_.begin + index;
  if (layout_ == nullptr) return origin_ + left * element_;
  std::size_t place = 0;
  for (auto dim = layout_->dims.rbegin(); dim != layout_->dims.rend(); ++dim) {
    const auto size = static_cast<std::size_t>(dim->size);
    place += left % size * static_cast<std::size_t>(dim->stride);
    left /= size;
  }
  return origin_ + place * element_;
}

void Tensor::write(const Pattern& pattern) {
  if (layout_ == nullptr) return pattern.copy_to({at(0), bytes()});
  const std::span<std::byte> elements = scratch(bytes());
  pattern.copy_to(elements);
  for (std::size_t i = 0; i < count(); ++i) std::memcpy(at(i), elements.data() + i * element_, element_);
}

std::span<const std::byte> Tensor::elements() const {
  if (layout_ == nullptr) return {at(0), bytes()};
  const std::span<std::byte> elements = scratch(bytes());
  for (std::size_t i = 0; i < count(); ++i) std::memcpy(elements.data() + i * element_, at(i), element_);
  return elements;
}

bool Tensor::poison_intact() const {
  if (is_part_) return true;
  if (layout_ == nullptr)
    return is_poison({memory_.data(), at(0)}) && is_poison({at(count()), memory_.data() + memory_.size()});
  const std::span<std::byte> rest = scratch(memory_.size());
  std::memcpy(rest.data(), memory_.data(), rest.size());
  for (std::size_t i = 0; i < count(); ++i) {
    std::memset(rest.data() + offset_of(i), static_cast<int>(kPoison), element_);
  }
  return is_poison(rest);
}

}  // namespace customccl::test
