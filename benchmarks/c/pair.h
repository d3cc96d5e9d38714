/* Two processes that measure together, each pinned to one processor; needs _GNU_SOURCE. Memory that both shall see is mapped before
 * they part. One size or way after the other, both the same. */
#ifndef BENCHMARKS_PAIR_H
#define BENCHMARKS_PAIR_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "pin.h"
#include "rank_process.h"
#include "sync.h"

enum { kPairLeast = 5, kPairSpins = 20000 };

static void* region;
static int rank;

static inline void meet(void) { sync_wait(region, rank, 2, kPairSpins, 60); }

/* Returns 0, or -1 without memory. processors: two numbers, as text. */
static inline int part(char* const processors[2]) {
  region = mmap(NULL, 2 * kSyncSamples, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED) return -1;
  rank = fork_rank() == 0 ? 1 : 0;
  pin_to(atoi(processors[rank]));
  return 0;
}

/* When both have done `done` rounds: whether they do one more, by rank 0's clock. */
static inline int one_more(int done, int64_t end) {
  if (rank == 0) *sync_word(region, 0) = sync_now() < end || done < kPairLeast;
  meet();
  return (int)*sync_word(region, 0);
}

#endif
