/* sync.h and copies as a library for ctypes. */
#include "streaming.h"
#include "sync.h"

int benchmarks_sync(void* region, int rank, int ranks, int spins, double seconds) {
  return sync_wait(region, rank, ranks, spins, seconds);
}

/* Aligned to 64 bytes, of whole lines. */
void benchmarks_copy(char* to, const char* from, size_t bytes, int streaming) {
  (streaming ? copy_streaming : copy_plain)(to, from, bytes);
}
