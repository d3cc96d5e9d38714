#pragma once

#include <cstddef>

#include "base/cache_line.h"
#include "kernels/origin.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

// Non-temporal copies for callers that make many of them and fence once.

namespace customccl::kernels {

#if defined(__x86_64__)
// dst is line-aligned. Non-temporal stores have no portable spelling, hence intrinsics. 16-byte ones suffice: four in a
// row fill a write-combining buffer, and that buffer is the limit. Zen 4, GB/s with 16- / 32- / 64-byte stores: 24.2 /
// 24.2 / 23.7 at 16 KiB, 27.9 / 27.5 / 27.8 at 256 KiB, 15.6 / 17.9 / 17.4 (within noise) at 64 MiB.
[[gnu::always_inline]] inline void stream_lines(std::byte* dst, const std::byte* src, std::size_t lines) {
  for (std::size_t i = 0; i < lines; ++i, dst += kCacheLine, src += kCacheLine) {
    const __m128i* from = reinterpret_cast<const __m128i*>(src);
    __m128i* to = reinterpret_cast<__m128i*>(dst);
    const __m128i a = _mm_loadu_si128(from);
    const __m128i b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2);
    const __m128i d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
}
#endif

// Copies like memcpy, but whole cache lines of dst bypass the caches. Before anything is published: streaming_fence().
void streaming_copy(std::byte* dst, const std::byte* src, std::size_t bytes, Origin origin);

// Orders all streaming stores of this thread before its later stores. A release store alone does not on x86.
void streaming_fence();

}  // namespace customccl::kernels
