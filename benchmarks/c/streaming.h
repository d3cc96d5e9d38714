/* Copies by plain and by non-temporal stores. */
#ifndef BENCHMARKS_STREAMING_H
#define BENCHMARKS_STREAMING_H

#include <stddef.h>
#include <string.h>

static inline void copy_plain(char* to, const char* from, size_t bytes) { memcpy(to, from, bytes); }

/* At four places in turn, as what lies in memory is read faster so; the rest in one run. */
static inline void copy_in_rows(char* to, const char* from, size_t bytes) {
  enum { kRows = 4, kStep = 256 };
  const size_t row = bytes / kRows / 4096 * 4096;
  for (size_t at = 0; at < row; at += kStep) {
    for (size_t i = 0; i < kRows; ++i) memcpy(to + i * row + at, from + i * row + at, kStep);
  }
  memcpy(to + kRows * row, from + kRows * row, bytes - kRows * row);
}

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
