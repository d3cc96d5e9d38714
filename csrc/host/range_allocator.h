#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

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
      // First what may need memory: without it nothing has changed.
      if (const std::size_t left = it->second - before - bytes; left != 0) free_.emplace(offset + bytes, left);
      if (before == 0)
        free_.erase(it);
      else
        it->second = before;
      return offset;
    }
    return std::nullopt;
  }

  // Needs memory only where neither neighbour is free.
  void give(std::size_t offset, std::size_t bytes) {
    bytes = rounded(bytes);
    const auto next = free_.lower_bound(offset);
    const auto previous = next == free_.begin() ? free_.end() : std::prev(next);
    const bool meets_previous = previous != free_.end() && previous->first + previous->second == offset;
    const bool meets_next = next != free_.end() && offset + bytes == next->first;
    if (meets_previous) {
      previous->second += bytes + (meets_next ? next->second : 0);
      if (meets_next) free_.erase(next);
    } else if (meets_next) {
      auto grown = free_.extract(next);
      grown.key() = offset;
      grown.mapped() += bytes;
      free_.insert(std::move(grown));
    } else {
      free_.emplace(offset, bytes);
    }
  }

 private:
  std::size_t total_;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes
};

}  // namespace customccl
