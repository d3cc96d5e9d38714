#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/origin.h"

namespace customccl {

// How bytes are written. Streaming (non-temporal) stores bypass the caches: 12x faster into staging that a core with
// another last-level cache still holds, slower into staging that shares one (engines/shm/store_policy.h chooses).
enum class Store : std::uint8_t { kPlain, kStreaming };

// Where what was written so lies; `near` where it was by plain stores.
constexpr Origin origin_of(Store store, Origin near = Origin::kCache) {
  return store == Store::kStreaming ? Origin::kMemory : near;
}

// More than a few bytes, or by streaming stores: the rest of copy().
void copy_much(std::byte* dst, const std::byte* src, std::size_t bytes, Store store, Origin origin);

// `part` to 2 * part bytes: the first and the last of them.
template <std::size_t part>
inline void copy_ends(std::byte* dst, const std::byte* src, std::size_t bytes) {
  std::byte first[part];
  std::byte last[part];
  std::memcpy(first, src, part);
  std::memcpy(last, src + bytes - part, part);
  std::memcpy(dst, first, part);
  std::memcpy(dst + bytes - part, last, part);
}

// 1 to 64 bytes, by some moves in place of a call: what a flag's line or a packet's frame takes.
inline void copy_few(std::byte* dst, const std::byte* src, std::size_t bytes) {
  if (bytes > 32) [[unlikely]]
    return copy_ends<32>(dst, src, bytes);
  if (bytes > 16) [[unlikely]]
    return copy_ends<16>(dst, src, bytes);
  if (bytes >= 8) [[likely]]
    return copy_ends<8>(dst, src, bytes);
  if (bytes >= 4) return copy_ends<4>(dst, src, bytes);
  if (bytes >= 2) return copy_ends<2>(dst, src, bytes);
  *dst = *src;
}

// Copies `bytes` from src to dst; the ranges do not overlap, or are equal (then nothing is done).
// A streaming copy ends with a store fence, so a flag published afterwards with release order covers it.
inline void copy(std::byte* dst, const std::byte* src, std::size_t bytes, Store store, Origin origin = Origin::kCache) {
  constexpr std::size_t kFew = 64;
  constexpr std::size_t kByRegisters = 2048;  // below, memcpy uses them
  if (dst == src || bytes == 0) return;
  if (store != Store::kPlain || bytes >= kByRegisters) return copy_much(dst, src, bytes, store, origin);
  if (bytes <= kFew) return copy_few(dst, src, bytes);
  std::memcpy(dst, src, bytes);
}

}  // namespace customccl
