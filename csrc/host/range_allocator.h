#pragma once

#include <cstddef>
#include <map>
#include <optional>

namespace customccl {

// Hands out ranges of [0, total), first fit, in multiples of a page, at multiples of `alignment`. Not thread-safe.
class RangeAllocator {
 public:
  static constexpr std::size_t kPage = 4096;

  explicit RangeAllocator(std::size_t total) : total_(total) { free_.emplace(0, total); }

  // Of at most what there is: more could be too much to round.
  static constexpr std::size_t rounded(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

  std::optional<std::size_t> take(std::size_t bytes, std::size_t alignment = kPage) {
    if (bytes == 0 || bytes > total_) return std::nullopt;
    bytes = rounded(bytes);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const std::size_t offset = (it->first + alignment - 1) / alignment * alignment;
      const std::size_t before = offset - it->first;
      if (it->second < before || it->second - before < bytes) continue;
      const std::size_t left = it->second - before - bytes;
      if (before == 0)
        free_.erase(it);
      else
        it->second = before;
      if (left != 0) free_.emplace(offset + bytes, left);
      return offset;
    }
    return std::nullopt;
  }

  void give(std::size_t offset, std::size_t bytes) {
    bytes = rounded(bytes);
    auto next = free_.lower_bound(offset);
    if (next != free_.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        free_.erase(previous);
      }
    }
    if (next != free_.end() && offset + bytes == next->first) {
      bytes += next->second;
      free_.erase(next);
    }
    free_.emplace(offset, bytes);
  }

 private:
  std::size_t total_;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes
};

}  // namespace customccl
