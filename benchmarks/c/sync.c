/* sync.h as a library for ctypes. */
#include "sync.h"

int benchmarks_sync(void* region, int rank, int ranks, int spins, double seconds) {
  return sync_wait(region, rank, ranks, spins, seconds);
}
