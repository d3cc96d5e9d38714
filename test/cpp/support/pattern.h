#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"

namespace customccl::test {

// Values that tell rank and position: element i of a pattern depends on i modulo a prime, so a chunk, slice or cache line at the
// wrong place shows, and expectations for millions of elements are computed once per period.
class Pattern {
 public:
  static constexpr std::size_t kPeriod = 509;

  // `source` names who made the values: different sources, different values.
  // `needed`: no more elements than that will be asked for.
  Pattern(DType dtype, std::uint64_t source, std::size_t needed = kPeriod);
  Pattern(DType dtype, std::vector<std::byte> period) : element_(size_of(dtype)), period_(std::move(period)) {}

  // The first `count` elements, one after the other.
  std::vector<std::byte> take(std::size_t count) const;
  // As many of them as `bytes` holds.
  void copy_to(std::span<std::byte> bytes) const;
  // Index of the first element of `bytes` that is not as it should be, or -1.
  std::int64_t first_difference(std::span<const std::byte> bytes) const;

 private:
  std::size_t element_;
  std::vector<std::byte> period_;
};

}  // namespace customccl::test
