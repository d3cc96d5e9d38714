/* The ceiling: n processes copy at once, each its own buffers, plain (memcpy) and with non-temporal stores.
 *
 * memory RANKS SECONDS BYTES...   prints a JSON list of {"bytes", "plain", "streaming"}: GB/s per process (the slowest one);
 * "streaming" is null where the compiler knows no such stores.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "median.h"
#include "rank_process.h"
#include "streaming.h"
#include "sync.h"

/* Median nanoseconds of one copy, all processes starting each copy together. */
static int64_t median_copy(void* region, int rank, int ranks, char* to, char* from, size_t bytes, int streaming, double seconds) {
  enum { kMost = 1001 };
  static int64_t samples[kMost];
  const int64_t end = sync_now() + (int64_t)(seconds * 1e9);
  const int64_t repeats = bytes < (1 << 20) ? (1 << 20) / (int64_t)bytes : 1;
  int count = 0;
  for (int more = 1; more && count < kMost; ++count) {
    sync_wait(region, rank, ranks, 1000, 60);
    const int64_t begin = sync_now();
    for (int64_t i = 0; i < repeats; ++i) {
      if (streaming) {
        copy_streaming(to, from, bytes);
      } else {
        copy_plain(to, from, bytes);
      }
      __asm__ volatile("" ::: "memory");
    }
    samples[count] = (sync_now() - begin) / repeats;
    if (rank == 0) *sync_word(region, 0) = sync_now() < end || count < 5;
    sync_wait(region, rank, ranks, 1000, 60);
    more = (int)*sync_word(region, 0);
  }
  return median(samples, count);
}

static double slowest(void* region, int rank, int ranks, char* to, char* from, size_t bytes, int streaming, double seconds) {
  int64_t* results = sync_samples(region);
  results[rank] = median_copy(region, rank, ranks, to, from, bytes, streaming, seconds);
  sync_wait(region, rank, ranks, 1000, 60);
  int64_t worst = 1;
  for (int peer = 0; peer < ranks; ++peer) worst = results[peer] > worst ? results[peer] : worst;
  sync_wait(region, rank, ranks, 1000, 60);
  return (double)bytes / (double)worst;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const int ranks = atoi(argv[1]);
  const double seconds = atof(argv[2]);
  void* region = mmap(NULL, 2 * kSyncSamples, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED || ranks < 1 || ranks > kSyncMaxRanks) return 2;
  int rank = 0;
  for (int peer = 1; peer < ranks && rank == 0; ++peer) rank = fork_rank() == 0 ? peer : 0;
  for (int i = 3; i < argc; ++i) {
    const size_t bytes = (strtoull(argv[i], NULL, 10) + 63) / 64 * 64;
    char *to = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096), *from = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (to == NULL || from == NULL) return 1;
    memset(to, 1, bytes);
    memset(from, 2, bytes);
    const double plain = slowest(region, rank, ranks, to, from, bytes, 0, seconds);
    const double streaming = slowest(region, rank, ranks, to, from, bytes, 1, seconds);
    if (rank == 0) {
      printf("%s{\"bytes\": %zu, \"plain\": %.3f, \"streaming\": ", i == 3 ? "[" : ",\n", bytes, plain);
      if (kHasStreaming) printf("%.3f}", streaming);
      else printf("null}");
    }
    free(to);
    free(from);
  }
  if (rank != 0) _exit(0);
  printf("]\n");
  while (wait(NULL) > 0) {
  }
  return 0;
}
