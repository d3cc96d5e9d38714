/* What it takes two processes to hand each other data through shared memory, each pinned to one processor: each copies BYTES from
 * its own memory, which was written anew before, into the shared part, and what the other put there over it. In pieces: each
 * puts one there, then takes the other's. It takes no less whatever the algorithm.
 *
 * handover SECONDS A B BYTES...   prints a JSON list of {"bytes", "in_ns", "out_ns", "pull_ns"}: medians of the slower process, of the
 * fastest way to do it: pieces of 16 KiB to 1 MiB; always in the same place, or moving on through a window of 1 or 2 MiB, or, by
 * plain stores, where this process has read last, as the two change sides every other piece; plain stores, or non-temporal ones; the
 * own memory and the shared one read in one run or at four places in turn. pull_ns: without shared memory, each has the kernel copy
 * the other's tensor (process_vm_readv(2)), whole or in pieces of 1 MiB; 0 where it must not. Waiting for the other does not count.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "median.h"
#include "pair.h"
#include "streaming.h"

enum { kMost = 4001, kLargestPiece = 1 << 20, kLargestWindow = 2 << 20, kMostWays = 72 };

typedef void (*copying)(char*, const char*, size_t);

static const struct {
  copying put, take;
} kKinds[] = {{copy_plain, copy_plain},
              {copy_plain, copy_in_rows},
              {copy_in_rows, copy_in_rows},
              {copy_streaming, copy_plain},
              {copy_streaming, copy_in_rows}};
enum { kKindCount = sizeof kKinds / sizeof *kKinds, kPlainKinds = 3 };

struct way {
  size_t piece, window;
  int kind, changes_sides;
};

struct times {
  int64_t in, out;
};

struct tensor {
  char *own, *fresh;
  size_t bytes;
};

/* Where the other finds a tensor: at the begin of a process's half of the shared part. */
struct place {
  pid_t process;
  char* own;
};

static char* shared;

static struct times faster(struct times a, struct times b) { return a.in + a.out <= b.in + b.out ? a : b; }

/* Of the process that took longer. */
static struct times slower(struct times mine) {
  struct times* both = (struct times*)sync_samples(region);
  both[rank] = mine;
  meet();
  const struct times first = both[0], second = both[1];
  meet();
  return first.in + first.out > second.in + second.out ? first : second;
}

/* Of one tensor; `step` counts the pieces of all. */
static struct times hand_over(const struct way* way, const struct tensor* tensor, size_t* step) {
  const copying put = kKinds[way->kind].put, take = kKinds[way->kind].take;
  struct times spent = {0, 0};
  for (size_t done = 0; done < tensor->bytes; done += way->piece, ++*step) {
    const size_t place = *step % (way->window / way->piece) * way->piece;
    const int side = way->changes_sides ? rank ^ (*step / 2 % 2) : rank;
    char *mine = shared + side * kLargestWindow + place, *theirs = shared + (1 - side) * kLargestWindow + place;
    const int64_t begin = sync_now();
    put(mine, tensor->own + done, way->piece);
    spent.in += sync_now() - begin;
    meet();
    const int64_t again = sync_now();
    take(tensor->own + done, theirs, way->piece);
    spent.out += sync_now() - again;
    if (way->window < 2 * way->piece) meet(); /* else the place is written again only after the next meeting */
  }
  return spent;
}

static struct times measure(const struct way* way, const struct tensor* tensor, double seconds) {
  static int64_t in[kMost], out[kMost];
  const int64_t end = sync_now() + (int64_t)(seconds * 1e9);
  int count = 0;
  size_t step = 0;
  for (int more = 1; more && count < kMost; ++count) {
    memcpy(tensor->own, tensor->fresh, tensor->bytes);
    meet();
    const struct times spent = hand_over(way, tensor, &step);
    in[count] = spent.in;
    out[count] = spent.out;
    more = one_more(count + 1, end);
  }
  return slower((struct times){median(in, count), median(out, count)});
}

static struct times fastest(const struct tensor* tensor, double seconds) {
  struct times best = {INT64_MAX / 4, INT64_MAX / 4};
  const size_t whole = tensor->bytes < kLargestPiece ? tensor->bytes : kLargestPiece;
  for (size_t piece = whole; piece == whole || piece >= 16 << 10; piece /= 4) {
    const size_t windows[] = {piece, kLargestWindow / 2, kLargestWindow};
    for (int i = 0; i < 3 * kKindCount; ++i) {
      const struct way way = {piece, windows[i / kKindCount], i % kKindCount, 0};
      best = faster(best, measure(&way, tensor, seconds));
    }
    for (int kind = 0; kind < kPlainKinds; ++kind) {
      const struct way way = {piece, 2 * piece, kind, 1};
      best = faster(best, measure(&way, tensor, seconds));
    }
  }
  return best;
}

/* Into `fresh`, so that no more memory is touched than above. */
static int pull_once(const struct place* from, const struct tensor* tensor, size_t piece) {
  for (size_t done = 0; done < tensor->bytes; done += piece) {
    const struct iovec to = {tensor->fresh + done, piece}, at = {from->own + done, piece};
    if (process_vm_readv(from->process, &to, 1, &at, 1, 0) != (ssize_t)piece) return -1;
  }
  return 0;
}

static int64_t pull(const struct tensor* tensor, size_t piece, double seconds) {
  static int64_t spent[kMost];
  *(struct place*)(shared + rank * kLargestWindow) = (struct place){getpid(), tensor->own};
  meet();
  const struct place from = *(struct place*)(shared + (1 - rank) * kLargestWindow);
  const int64_t end = sync_now() + (int64_t)(seconds * 1e9);
  int count = 0, failed = 0;
  for (int more = 1; more && count < kMost; ++count) {
    memcpy(tensor->own, tensor->fresh, tensor->bytes);
    meet();
    const int64_t begin = sync_now();
    failed |= pull_once(&from, tensor, piece);
    spent[count] = sync_now() - begin;
    more = one_more(count + 1, end);
  }
  return slower((struct times){failed ? INT64_MAX / 4 : median(spent, count), 0}).in;
}

static int64_t fastest_pull(const struct tensor* tensor, double seconds) {
  const size_t piece = tensor->bytes < kLargestPiece ? tensor->bytes : kLargestPiece;
  const int64_t whole = pull(tensor, tensor->bytes, seconds), pieces = pull(tensor, piece, seconds);
  const int64_t best = whole < pieces ? whole : pieces;
  return best == INT64_MAX / 4 ? 0 : best;
}

static char* allocate(size_t bytes) {
  char* memory = aligned_alloc(4096, bytes + 4096);
  if (memory == NULL) _exit(1);
  memset(memory, 1 + rank, bytes);
  return memory;
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  shared = mmap(NULL, 2 * kLargestWindow, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (shared == MAP_FAILED || part(argv + 2) != 0) return 1;
  for (int i = 4; i < argc; ++i) {
    const size_t bytes = strtoull(argv[i], NULL, 10); /* a power of two, 64 at least */
    const struct tensor tensor = {allocate(bytes), allocate(bytes), bytes};
    const struct times best = fastest(&tensor, atof(argv[1]) / kMostWays);
    const long long pulled = fastest_pull(&tensor, atof(argv[1]) / kMostWays);
    if (rank == 0) {
      printf("%s{\"bytes\": %zu, \"in_ns\": %lld, \"out_ns\": %lld, \"pull_ns\": %lld}", i == 4 ? "[" : ", ", bytes,
             (long long)best.in, (long long)best.out, pulled);
    }
    free(tensor.own);
    free(tensor.fresh);
  }
  if (rank != 0) _exit(0);
  printf("]\n");
  wait(NULL);
  return 0;
}
