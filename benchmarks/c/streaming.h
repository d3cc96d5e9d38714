/* Copies by plain and by non-temporal stores. */
#ifndef BENCHMARKS_STREAMING_H
#define BENCHMARKS_STREAMING_H

#include <stddef.h>
#include <string.h>

static inline void copy_plain(char* to, const char* from, size_t bytes) { memcpy(to, from, bytes); }

/* Aligned to 64 bytes, of whole lines. */
#if defined(__SSE2__)
#include <emmintrin.h>
static inline void copy_streaming(char* to, const char* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) {
    const __m128i a = _mm_load_si128((const __m128i*)(from + i)), b = _mm_load_si128((const __m128i*)(from + i + 16));
    const __m128i c = _mm_load_si128((const __m128i*)(from + i + 32)), d = _mm_load_si128((const __m128i*)(from + i + 48));
    _mm_stream_si128((__m128i*)(to + i), a);
    _mm_stream_si128((__m128i*)(to + i + 16), b);
    _mm_stream_si128((__m128i*)(to + i + 32), c);
    _mm_stream_si128((__m128i*)(to + i + 48), d);
  }
  _mm_sfence();
}
enum { kHasStreaming = 1 };
#else
static inline void copy_streaming(char* to, const char* from, size_t bytes) { memcpy(to, from, bytes); }
enum { kHasStreaming = 0 };
#endif

#endif
