/* A barrier and a place for samples in memory shared by the ranks, independent of everything that is measured.
 *
 * Layout of the region: a line of 128 bytes per rank with its epoch (64 ranks), a 64-bit word per rank, then the samples.
 * Threads: one per rank.
 */
#ifndef BENCHMARKS_SYNC_H
#define BENCHMARKS_SYNC_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

enum { kSyncMaxRanks = 64, kSyncLine = 128, kSyncWords = kSyncMaxRanks * kSyncLine, kSyncSamples = 2 * kSyncWords };

static inline int64_t sync_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline _Atomic uint64_t* sync_epoch(void* region, int rank) {
  return (_Atomic uint64_t*)((char*)region + rank * kSyncLine);
}

static inline int64_t* sync_word(void* region, int rank) { return (int64_t*)((char*)region + kSyncWords) + rank; }

static inline int64_t* sync_samples(void* region) { return (int64_t*)((char*)region + kSyncSamples); }

/* Returns 0, or -1 if some rank has not come within `seconds`. `spins` looks before each sched_yield: many where every rank
 * has a core, few otherwise. */
static inline int sync_wait(void* region, int rank, int ranks, int spins, double seconds) {
  _Atomic uint64_t* mine = sync_epoch(region, rank);
  const uint64_t epoch = atomic_load_explicit(mine, memory_order_relaxed) + 1;
  atomic_store_explicit(mine, epoch, memory_order_release);
  int64_t give_up = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    for (int looks = 0; atomic_load_explicit(sync_epoch(region, peer), memory_order_acquire) < epoch;) {
      if (++looks < spins) continue;
      looks = 0;
      sched_yield();
      if (give_up == 0) give_up = sync_now() + (int64_t)(seconds * 1e9);
      if (sync_now() > give_up) return -1;
    }
  }
  return 0;
}

#endif
