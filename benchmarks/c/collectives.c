/* The C level: the same program for every library, compiled with one peer_*.c.
 * BENCHMARKS_PROCESSORS, "0 2 ...": rank r is pinned to the r-th one, whatever the library or its launcher did.
 *
 * collectives REGION_FILE COMMANDS
 *
 * Rank r does what is written to the named pipe COMMANDS-r, the same for all ranks, until it is closed; between commands it
 * sleeps, so that other libraries can have their turns. Rank 0 prints an answer, a line of JSON, at the start and to each:
 *
 *   exchange             what the slowest rank needs for a bare exchange of flags
 *   cell NAME ELEMENTS   makes and fills the buffers for an operation on a full tensor of so many elements, calls it once from
 *                        spoilt outputs and a few times more: how many results were wrong on all ranks, and what a call takes
 *                        with the writing of its input
 *   calls WARM TIMED     calls it so often: nanoseconds of each timed call, the maximum over ranks
 *
 * Before each call the input is written anew and the ranks meet at a barrier of our own. The region is a file of zeros.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "median.h"
#include "peer.h"
#include "pin.h"
#include "sync.h"

enum { kMostCalls = 200, kWarmCalls = 9, kPeriod = 13 };
static const int64_t kLongCall = 20000000; /* nanoseconds */

static const char* const kNames[kOps] = {"all_reduce", "reduce",  "broadcast",  "all_gather",        "gather",   "reduce_scatter",
                                         "scatter",    "all_to_all", "all_to_all_skewed", "send_recv", "barrier"};

static void* region;
static int rank, ranks, spins;

struct cell {
  enum bench_op op;
  size_t count;   /* what peer_run gets */
  size_t inputs;  /* elements of send */
  size_t outputs; /* elements of recv that are checked on this rank */
  float *send, *recv, *fresh;
};

static void stop(const char* why) {
  fprintf(stderr, "rank %d: %s\n", rank, why);
  _exit(1);
}

static void meet(void) {
  if (sync_wait(region, rank, ranks, spins, 60) != 0) stop("another rank did not come");
}

static int64_t worst(int64_t mine) {
  *sync_word(region, rank) = mine;
  meet();
  int64_t most = mine;
  for (int peer = 0; peer < ranks; ++peer) most = *sync_word(region, peer) > most ? *sync_word(region, peer) : most;
  meet();
  return most;
}

static float value(int of_rank, size_t index) { return (float)(index % kPeriod) + (float)of_rank; }

static float sum(size_t index) { return (float)ranks * (float)(index % kPeriod) + (float)(ranks * (ranks - 1) / 2); }

static size_t parts_before_me(void) {
  size_t before = 0;
  for (int i = 0; i < rank; ++i) before += skewed_weight(i, ranks);
  return before;
}

/* What element i of this rank's output must be. */
static float right(const struct cell* c, size_t i) {
  const size_t block = c->count;
  const size_t mine = skewed_weight(rank, ranks) * block;
  switch (c->op) {
    case kAllReduce:
    case kReduce: return sum(i);
    case kBroadcast: return value(0, i);
    case kAllGather:
    case kGather: return value((int)(i / block), i % block);
    case kReduceScatter: return sum((size_t)rank * block + i);
    case kScatter: return value(0, (size_t)rank * block + i);
    case kAllToAll: return value((int)(i / block), (size_t)rank * block + i % block);
    case kAllToAllSkewed: return value((int)(i / mine), parts_before_me() * block + i % mine);
    default: return value(rank ^ 1, i);
  }
}

static int in_place(enum bench_op op) { return op == kAllReduce || op == kReduce || op == kBroadcast; }

static void size_cell(struct cell* c, size_t elements) {
  const size_t n = (size_t)ranks;
  size_t weights = 0;
  for (int i = 0; i < ranks; ++i) weights += skewed_weight(i, ranks);
  c->count = c->inputs = c->outputs = elements;
  if (in_place(c->op)) {
    if (c->op == kReduce && rank != 0) c->outputs = 0;
  } else if (c->op == kAllToAllSkewed) {
    c->count = elements / (n * skewed_weight(0, ranks));
    c->inputs = weights * c->count;
    c->outputs = n * skewed_weight(rank, ranks) * c->count;
  } else if (c->op == kSendRecv) {
    if ((rank ^ 1) >= ranks) c->outputs = 0;
  } else if (c->op != kBarrier) {
    c->count = elements / n;
    c->inputs = c->op == kAllGather || c->op == kGather ? c->count : elements;
    c->outputs = c->op == kReduceScatter || c->op == kScatter ? c->count : c->op == kGather && rank != 0 ? 0 : elements;
  }
}

static float* allocate(size_t elements) {
  const size_t bytes = (elements * sizeof(float) + 4096) / 4096 * 4096;
  float* memory = aligned_alloc(4096, bytes);
  if (memory == NULL) stop("out of memory");
  memset(memory, 0, bytes);
  return memory;
}

static int64_t call_once(struct cell* c) {
  memcpy(c->send, c->fresh, c->inputs * sizeof(float));
  const int partner = rank ^ 1, first = rank % 2 == 0;
  int failed = 0;
  meet();
  const int64_t begin = sync_now();
  if (c->op != kSendRecv) {
    failed = peer_run(c->op, c->send, c->recv, c->count);
  } else if (partner < ranks) {
    failed = first ? peer_send(c->send, c->count, partner) : peer_recv(c->recv, c->count, partner);
    failed |= first ? peer_recv(c->recv, c->count, partner) : peer_send(c->send, c->count, partner);
  }
  const int64_t duration = sync_now() - begin;
  if (failed) stop("a call failed");
  return duration;
}

/* What the slowest rank needs for an exchange of flags and nothing else, in the middle of many; in nanoseconds. */
static int64_t bare_exchange(void) {
  enum { kExchanges = 501 };
  static int64_t slowest[kExchanges];
  for (int i = 0; i < kExchanges; ++i) {
    meet();
    const int64_t begin = sync_now();
    meet();
    slowest[i] = worst(sync_now() - begin);
  }
  return median(slowest, kExchanges);
}

static int64_t wrong_results(struct cell* c) {
  if (!in_place(c->op)) memset(c->recv, 0xff, c->outputs * sizeof(float));
  call_once(c);
  int64_t wrong = 0;
  for (size_t i = 0; i < c->outputs; ++i) wrong += c->recv[i] != right(c, i);
  return worst(wrong);
}

static void make(struct cell* c, size_t elements) {
  size_cell(c, elements);
  c->send = allocate(c->inputs);
  c->fresh = allocate(c->inputs);
  c->recv = in_place(c->op) ? c->send : allocate(c->outputs > c->count ? c->outputs : c->count);
  for (size_t i = 0; i < c->inputs; ++i) c->fresh[i] = value(rank, i);
}

static void release(struct cell* c) {
  if (c->recv != c->send) free(c->recv);
  free(c->send);
  free(c->fresh);
}

static void new_cell(struct cell* c, enum bench_op op, size_t elements) {
  release(c);
  *c = (struct cell){.op = op};
  make(c, elements);
  const int64_t wrong = op == kBarrier ? 0 : wrong_results(c);
  int64_t slowest[kWarmCalls];
  int calls = 0;
  do {
    const int64_t begin = sync_now();
    call_once(c);
    slowest[calls] = worst(sync_now() - begin);
  } while (slowest[calls++] < kLongCall && calls < kWarmCalls);
  if (rank == 0) printf("{\"wrong\": %lld, \"call_ns\": %lld}\n", (long long)wrong, (long long)median(slowest, calls));
}

static void time_calls(struct cell* c, int warm, int timed) {
  if (timed > kMostCalls) stop("too many calls at once");
  for (int i = -warm; i < timed; ++i) {
    const int64_t duration = call_once(c);
    if (i >= 0) sync_samples(region)[rank * kMostCalls + i] = duration;
  }
  meet();
  if (rank == 0) {
    for (int i = 0; i < timed; ++i) {
      int64_t most = 0;
      for (int peer = 0; peer < ranks; ++peer) {
        const int64_t sample = sync_samples(region)[peer * kMostCalls + i];
        most = sample > most ? sample : most;
      }
      printf("%s%lld", i == 0 ? "{\"samples\": [" : ", ", (long long)most);
    }
    printf("]}\n");
  }
  meet(); /* nobody writes the next samples before these are read */
}

static enum bench_op op_named(const char* name) {
  for (int op = 0; op < kOps; ++op) {
    if (strcmp(kNames[op], name) == 0) return (enum bench_op)op;
  }
  stop("unknown operation");
  return kOps;
}

static void pin(void) {
  char* at = getenv("BENCHMARKS_PROCESSORS");
  if (at == NULL) return;
  for (int skip = 0; skip < rank; ++skip) strtol(at, &at, 10);
  if (pin_to((int)strtol(at, NULL, 10)) != 0) stop("cannot be pinned to its processor");
}

static void map_region(const char* path) {
  const int file = open(path, O_RDWR);
  const size_t bytes = kSyncSamples + (size_t)ranks * kMostCalls * sizeof(int64_t);
  region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (region == MAP_FAILED) stop("cannot map its region");
}

static FILE* open_commands(const char* prefix) {
  char path[4096];
  snprintf(path, sizeof path, "%s-%d", prefix, rank);
  FILE* commands = fopen(path, "r");
  if (commands == NULL) stop("cannot open its commands");
  return commands;
}

static void follow(FILE* commands) {
  struct cell c = {.op = kBarrier};
  char line[256], name[32];
  size_t elements;
  int warm, timed;
  while (fgets(line, sizeof line, commands) != NULL) {
    if (sscanf(line, "cell %31s %zu", name, &elements) == 2) {
      new_cell(&c, op_named(name), elements);
    } else if (sscanf(line, "calls %d %d", &warm, &timed) == 2) {
      time_calls(&c, warm, timed);
    } else if (strcmp(line, "exchange\n") == 0) {
      const int64_t exchange = bare_exchange();
      if (rank == 0) printf("{\"exchange_ns\": %lld}\n", (long long)exchange);
    } else {
      stop("unknown command");
    }
    fflush(stdout);
  }
  release(&c);
}

int main(int argc, char** argv) {
  if (peer_start(&argc, &argv, &rank, &ranks) != 0) return 1;
  if (argc != 3) stop("usage: collectives REGION_FILE COMMANDS");
  spins = ranks <= usable_processors() ? 20000 : 20;
  pin();
  map_region(argv[1]);
  FILE* commands = open_commands(argv[2]);
  if (rank == 0) printf("{\"version\": \"%s\"}\n", peer_version());
  fflush(stdout);
  follow(commands);
  fclose(commands);
  peer_stop();
  return 0;
}
