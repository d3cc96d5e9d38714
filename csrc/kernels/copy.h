#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/origin.h"

namespace customccl {

// How bytes are written. Streaming (non-temporal) stores bypass the caches: 12x faster into staging that a core with
// another last-level cache still holds, slower into staging that shares one (docs/performance.md).
enum class Store : std::uint8_t { kPlain, kStreaming };

// Where what was written so lies.
constexpr Origin origin_of(Store store) { return store == Store::kStreaming ? Origin::kMemory : Origin::kCache; }

// More than a few bytes, or by streaming stores: the rest of copy().
void copy_much(std::byte* dst, const std::byte* src, std::size_t bytes, Store store, Origin origin);

// Copies `bytes` from src to dst; the ranges do not overlap, or are equal (then nothing is done).
// A streaming copy ends with a store fence, so a flag published afterwards with release order covers it.
inline void copy(std::byte* dst, const std::byte* src, std::size_t bytes, Store store, Origin origin = Origin::kCache) {
  constexpr std::size_t kFew = 2048;  // below, memcpy uses registers
  if (dst == src || bytes == 0) return;
  if (store != Store::kPlain || bytes >= kFew) return copy_much(dst, src, bytes, store, origin);
  std::memcpy(dst, src, bytes);
}

}  // namespace customccl
