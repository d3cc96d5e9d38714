#pragma once

#include <algorithm>
#include <cstddef>

#include "base/cache_line.h"
#include "base/dtype.h"

// How tensors are cut into chunks. Pure arithmetic that every rank does alike.

namespace customccl::shm {

inline constexpr std::size_t kMaxMembers = 256;

constexpr std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }
constexpr std::size_t round_up(std::size_t a, std::size_t b) { return ceil_div(a, b) * b; }

// Elements in the largest whole number of cache lines within `bytes`.
constexpr std::size_t elements_within(std::size_t bytes, std::size_t element) {
  return bytes / kCacheLine * kCacheLine / element;
}

// The part of chunk number `index` that lies within `count` elements.
struct Range {
  std::size_t first = 0;
  std::size_t count = 0;
};

constexpr Range chunk_of(std::size_t count, std::size_t chunk, std::size_t index) {
  const std::size_t first = std::min(count, index * chunk);
  return {first, std::min(chunk, count - first)};
}

// `count` elements in equal chunks of at most `limit`, each a multiple of `multiple` elements (limit is one too).
constexpr std::size_t even_chunk(std::size_t count, std::size_t limit, std::size_t multiple) {
  if (count == 0) return limit;
  return std::min(limit, round_up(ceil_div(count, ceil_div(count, limit)), multiple));
}

}  // namespace customccl::shm
