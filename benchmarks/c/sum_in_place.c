/* What it takes two processes to sum two tensors in shared memory where they lie, each pinned to one processor: each reads its half of
 * both, which were written anew before, and writes the sums into both. An all_reduce that stages nothing takes no less.
 *
 * sum_in_place SECONDS A B BYTES...   prints a JSON list of {"bytes", "sum_ns"}: the median of the slower process, of the fastest way to
 * do it: by plain stores or by non-temporal ones; from the begin, or in pieces from the end, which was written last; in huge pages, if
 * the kernel grants them, or not. Waiting for the other does not count.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "median.h"
#include "pair.h"
#include "streaming.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { kMost = 1001, kPiece = 256 << 10, kHugePage = 2 << 20, kWays = 8 };

static int64_t slower(int64_t mine) {
  int64_t* both = sync_samples(region);
  both[rank] = mine;
  meet();
  const int64_t first = both[0], second = both[1];
  meet();
  return first > second ? first : second;
}

static void sum(float* a, float* b, size_t count, int streaming) {
#if defined(__SSE2__)
  for (size_t i = 0; i < count; i += 4) {
    const __m128 both = _mm_add_ps(_mm_load_ps(a + i), _mm_load_ps(b + i));
    if (streaming) {
      _mm_stream_ps(a + i, both);
      _mm_stream_ps(b + i, both);
    } else {
      _mm_store_ps(a + i, both);
      _mm_store_ps(b + i, both);
    }
  }
  _mm_sfence();
#else
  (void)streaming;
  for (size_t i = 0; i < count; ++i) a[i] = b[i] = a[i] + b[i];
#endif
}

static int64_t measure(float* const tensors[2], const float* fresh, size_t count, int streaming, int from_end, double seconds) {
  static int64_t spent[kMost];
  const size_t half = count / 2, piece = half < kPiece / sizeof *fresh ? half : kPiece / sizeof *fresh;
  float *a = tensors[0] + rank * half, *b = tensors[1] + rank * half;
  const int64_t end = sync_now() + (int64_t)(seconds * 1e9);
  int done = 0;
  for (int more = 1; more && done < kMost; ++done) {
    memcpy(tensors[rank], fresh, count * sizeof *fresh);
    meet();
    const int64_t begin = sync_now();
    for (size_t at = 0; at < half; at += piece) {
      const size_t first = from_end ? half - at - piece : at;
      sum(a + first, b + first, piece, streaming);
    }
    spent[done] = sync_now() - begin;
    meet(); /* nobody writes anew what the other still reads */
    more = one_more(done + 1, end);
  }
  return slower(median(spent, done));
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  enum { kSizes = 16 };
  char* shared[kSizes] = {NULL};
  const int sizes = argc - 4 < kSizes ? argc - 4 : kSizes;
  for (int i = 0; i < sizes; ++i) { /* a power of two, 128 at least; two tensors, each in pages of its own */
    const size_t room = (strtoull(argv[4 + i], NULL, 10) + kHugePage - 1) / kHugePage * kHugePage;
    char* memory = mmap(NULL, 2 * room + kHugePage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    shared[i] = memory + (kHugePage - (uintptr_t)memory % kHugePage) % kHugePage;
    memset(shared[i], 1, 2 * room);
  }
  if (part(argv + 2) != 0) return 1;
  for (int i = 0; i < sizes; ++i) {
    const size_t bytes = strtoull(argv[4 + i], NULL, 10), room = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    float* const tensors[2] = {(float*)shared[i], (float*)(shared[i] + room)};
    float* fresh = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (fresh == NULL) _exit(1);
    for (size_t at = 0; at < bytes / sizeof *fresh; ++at) fresh[at] = (float)(at % 13 + (size_t)rank);
    int64_t best = INT64_MAX;
    for (int way = 0; way < kWays; ++way) {
      if (way == kWays / 2) { /* refused: measured in small pages again */
        meet();
        (void)madvise(shared[i], 2 * room, MADV_COLLAPSE);
        meet();
      }
      const int64_t took = measure(tensors, fresh, bytes / sizeof *fresh, way & 1, way >> 1 & 1, atof(argv[1]) / kWays);
      best = took < best ? took : best;
    }
    if (rank == 0) printf("%s{\"bytes\": %zu, \"sum_ns\": %lld}", i == 0 ? "[" : ", ", bytes, (long long)best);
    free(fresh);
  }
  if (rank != 0) _exit(0);
  printf("]\n");
  wait(NULL);
  return 0;
}
