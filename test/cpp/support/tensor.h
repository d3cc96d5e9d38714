#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/view.h"
#include "support/pattern.h"

namespace customccl::test {

// How a test tensor lies in memory.
enum class Shape : std::uint8_t {
  kPlain,       // consecutive, on a cache line
  kOffset,      // consecutive, but begins inside a larger tensor, on an odd element
  kGaps,        // every third element of the memory
  kTransposed,  // columns first, where the count allows, with a gap after each
  kShared,      // consecutive, in the arena of this process
  kPages,       // the same, alone in its pages, as the backend allocates tensors
};
inline constexpr int kShapes = 6;
// Of those, the ones without a layout whose first element lies on a cache line.
constexpr bool is_consecutive(Shape shape) {
  return shape == Shape::kPlain || shape == Shape::kShared || shape == Shape::kPages;
}

// `count` elements in a shape, in poisoned memory with guards around. Everything that is not an element (guards, gaps) must
// keep its poison.
class Tensor {
 public:
  Tensor(DType dtype, std::size_t count, Shape shape);
  // Elements [first, first + count) of this one, which lies consecutively.
  std::shared_ptr<Tensor> part(std::size_t first, std::size_t count) const;

  const View& view() const { return view_; }
  std::size_t count() const { return view_.count; }
  void write(const Pattern& pattern);
  // One after the other; until this thread asks a tensor for the next time.
  std::span<const std::byte> elements() const;
  // Nothing but the elements was written. Of a part: ask the whole.
  bool poison_intact() const;

  static constexpr std::byte kPoison{0x5b};

 private:
  Tensor() = default;
  std::size_t bytes() const { return count() * element_; }
  std::byte* at(std::size_t index) const { return memory_.data() + offset_of(index); }
  std::size_t offset_of(std::size_t index) const;  // bytes from the beginning of the memory

  bool is_part_ = false;
  std::size_t element_ = 1;
  std::unique_ptr<Layout> layout_;
  std::shared_ptr<std::byte> owner_;
  std::span<std::byte> memory_;
  std::size_t origin_ = 0;
  View view_;
};

}  // namespace customccl::test
