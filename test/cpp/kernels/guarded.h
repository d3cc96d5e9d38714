#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/cache_line.h"

namespace customccl::test {

// Memory that starts `misalignment` bytes into a cache line, filled with a pattern and guarded on both sides.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes, std::size_t misalignment = 0)
      : storage_(bytes + 2 * kGuard + 2 * kCacheLine, kPattern), bytes_(bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuard;
    begin_ = kGuard + (kCacheLine - address % kCacheLine) % kCacheLine + misalignment;
  }

  std::byte* data() { return storage_.data() + begin_; }
  const std::byte* data() const { return storage_.data() + begin_; }
  std::span<const std::byte> bytes() const { return {data(), bytes_}; }

  bool guards_intact() const {
    const auto untouched = [](std::byte value) { return value == kPattern; };
    return std::all_of(storage_.begin(), storage_.begin() + offset(0), untouched) &&
           std::all_of(storage_.begin() + offset(bytes_), storage_.end(), untouched);
  }

  static constexpr std::byte kPattern{0xa5};

 private:
  static constexpr std::size_t kGuard = 2 * kCacheLine;

  std::ptrdiff_t offset(std::size_t index) const { return static_cast<std::ptrdiff_t>(begin_ + index); }

  std::vector<std::byte> storage_;
  std::size_t bytes_;
  std::size_t begin_ = 0;
};

}  // namespace customccl::test
