/* Placement: round trip of a flag between two processes, each pinned to one processor; half of it is one way.
 *
 * ping_pong SECONDS A B [A B]...   prints a JSON list of {"processors": [A, B], "round_trip_ns"}: the best of the medians
 * of short runs, because a neighbour's time slice says nothing about the distance.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pin.h"
#include "rank_process.h"
#include "sync.h"

enum { kTrips = 2000 };

static void answer(void* region) {
  _Atomic uint64_t *ball = sync_epoch(region, 0), *back = sync_epoch(region, 1);
  for (uint64_t last = 0;;) {
    uint64_t seen = last;
    for (int looks = 0; seen == last; ++looks) {
      seen = atomic_load_explicit(ball, memory_order_acquire);
      if (looks > 100000) sched_yield();
    }
    if (seen == UINT64_MAX) _exit(0);
    last = seen;
    atomic_store_explicit(back, seen, memory_order_release);
  }
}

static double best_round_trip(void* region, double seconds) {
  _Atomic uint64_t *ball = sync_epoch(region, 0), *back = sync_epoch(region, 1);
  const int64_t end = sync_now() + (int64_t)(seconds * 1e9);
  double best = 1e18;
  for (uint64_t trip = 1; sync_now() < end;) {
    const int64_t begin = sync_now();
    for (int i = 0; i < kTrips; ++i, ++trip) {
      atomic_store_explicit(ball, trip, memory_order_release);
      for (int looks = 0; atomic_load_explicit(back, memory_order_acquire) != trip; ++looks) {
        if (looks > 100000) sched_yield();
      }
    }
    const double trip_ns = (double)(sync_now() - begin) / kTrips;
    best = trip_ns < best ? trip_ns : best;
  }
  atomic_store_explicit(ball, UINT64_MAX, memory_order_release);
  return best;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  printf("[");
  for (int i = 2; i + 1 < argc; i += 2) {
    void* region = mmap(NULL, kSyncSamples, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED) return 1;
    const int a = atoi(argv[i]), b = atoi(argv[i + 1]);
    fflush(stdout);
    if (fork_rank() == 0) {
      pin_to(b);
      answer(region);
    }
    pin_to(a);
    printf("%s{\"processors\": [%d, %d], \"round_trip_ns\": %.1f}", i == 2 ? "" : ", ", a, b, best_round_trip(region, atof(argv[1])));
    wait(NULL);
    munmap(region, kSyncSamples);
  }
  printf("]\n");
  return 0;
}
