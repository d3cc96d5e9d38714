/* What it takes two processes to hand each other data through shared memory, each pinned to one processor: each copies BYTES from
 * its own memory into the shared part, then copies what the other put there. All private memory stays in the caches, so it
 * takes no less whatever the algorithm.
 *
 * handover SECONDS A B BYTES...   prints a JSON list of {"bytes", "in_ns", "out_ns"}: medians of the slower process, of the fastest
 * of four ways to do it: always in the same place, or moving on through a window of 2 MiB; plain stores, or non-temporal ones.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "median.h"
#include "pin.h"
#include "streaming.h"
#include "sync.h"

enum { kWays = 4, kMost = 4001, kWindow = 2 << 20, kSpins = 20000 };

struct times {
  int64_t in, out;
};

static void* region;
static char* shared;
static int rank;

static void meet(void) { sync_wait(region, rank, 2, kSpins, 60); }

/* Of the process that took longer. */
static struct times slower(struct times mine) {
  struct times* both = (struct times*)sync_samples(region);
  both[rank] = mine;
  meet();
  const struct times first = both[0], second = both[1];
  meet();
  return first.in + first.out > second.in + second.out ? first : second;
}

static struct times measure(int moving, int streaming, char* own, size_t bytes, double seconds) {
  static int64_t in[kMost], out[kMost];
  void (*put)(char*, const char*, size_t) = streaming ? copy_streaming : copy_plain;
  const size_t places = moving && bytes < kWindow ? kWindow / bytes : 1;
  const int64_t end = sync_now() + (int64_t)(seconds * 1e9);
  int count = 0;
  for (int more = 1; more && count < kMost; ++count) {
    char *mine = shared + rank * kWindow, *theirs = shared + (1 - rank) * kWindow;
    const size_t place = (size_t)count % places * bytes;
    meet();
    const int64_t begin = sync_now();
    put(mine + place, own, bytes);
    in[count] = sync_now() - begin;
    meet();
    const int64_t again = sync_now();
    copy_plain(own, theirs + place, bytes);
    out[count] = sync_now() - again;
    if (rank == 0) *sync_word(region, 0) = sync_now() < end || count < 9;
    meet();
    more = (int)*sync_word(region, 0);
  }
  return slower((struct times){median(in, count), median(out, count)});
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const double seconds = atof(argv[1]) / kWays;
  region = mmap(NULL, 2 * kSyncSamples, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  shared = mmap(NULL, 2 * kWindow, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  char* own = aligned_alloc(4096, kWindow);
  if (region == MAP_FAILED || shared == MAP_FAILED || own == NULL) return 1;
  rank = fork() == 0 ? 1 : 0;
  pin_to(atoi(argv[2 + rank]));
  memset(own, 1 + rank, kWindow);
  for (int i = 4; i < argc; ++i) {
    size_t bytes = (strtoull(argv[i], NULL, 10) + 63) / 64 * 64;
    bytes = bytes < kWindow ? bytes : kWindow;
    struct times best = {INT64_MAX / 4, INT64_MAX / 4};
    for (int way = 0; way < kWays; ++way) {
      const struct times found = measure(way % 2, way / 2, own, bytes, seconds);
      best = found.in + found.out < best.in + best.out ? found : best;
    }
    if (rank != 0) continue;
    printf("%s{\"bytes\": %zu, \"in_ns\": %lld, \"out_ns\": %lld}", i == 4 ? "[" : ", ", bytes, (long long)best.in, (long long)best.out);
  }
  if (rank != 0) _exit(0);
  printf("]\n");
  wait(NULL);
  return 0;
}
