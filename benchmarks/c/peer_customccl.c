/* Ours, through its C interface. BENCHMARKS_TOKEN, BENCHMARKS_RANK and BENCHMARKS_RANKS say who we are; with the argument
 * --token this program prints a fresh token instead. */
#include "peer.h"

#include <customccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static customccl_comm* comm;
static int my_rank, my_ranks;

static int number(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? -1 : atoi(text);
}

static int checked(customccl_code code) {
  if (code != CUSTOMCCL_OK) fprintf(stderr, "customccl: %s\n", customccl_last_error());
  return code;
}

int peer_start(int* argc, char*** argv, int* rank, int* ranks) {
  customccl_token token = {{0}};
  if (*argc > 1 && strcmp((*argv)[1], "--token") == 0) {
    const int failed = checked(customccl_make_token(&token));
    printf("%s\n", token.text);
    exit(failed);
  }
  const char* text = getenv("BENCHMARKS_TOKEN");
  if (text == NULL) return -1;
  strncpy(token.text, text, sizeof token.text - 1);
  *rank = my_rank = number("BENCHMARKS_RANK");
  *ranks = my_ranks = number("BENCHMARKS_RANKS");
  return checked(customccl_init(&token, my_rank, my_ranks, NULL, &comm));
}

const char* peer_version(void) { return customccl_version(); }

static int all_to_all_skewed(const float* send, float* recv, size_t part) {
  enum { kMost = 64 };
  size_t sends[kMost], receives[kMost];
  for (int i = 0; i < my_ranks; ++i) {
    sends[i] = skewed_weight(i, my_ranks) * part;
    receives[i] = skewed_weight(my_rank, my_ranks) * part;
  }
  customccl_call call = customccl_make_call(CUSTOMCCL_ALL_TO_ALL, send, recv, 0, CUSTOMCCL_FLOAT32);
  call.counts = sends;
  call.recv_counts = receives;
  return checked(customccl_run(comm, &call));
}

int peer_run(enum bench_op op, const float* send, float* recv, size_t count) {
  static const customccl_op kNames[kOps] = {
      [kAllReduce] = CUSTOMCCL_ALL_REDUCE,   [kReduce] = CUSTOMCCL_REDUCE,
      [kBroadcast] = CUSTOMCCL_BROADCAST,    [kAllGather] = CUSTOMCCL_ALL_GATHER,
      [kGather] = CUSTOMCCL_GATHER,          [kReduceScatter] = CUSTOMCCL_REDUCE_SCATTER,
      [kScatter] = CUSTOMCCL_SCATTER,        [kAllToAll] = CUSTOMCCL_ALL_TO_ALL,
      [kBarrier] = CUSTOMCCL_BARRIER,
  };
  if (op == kAllToAllSkewed) return all_to_all_skewed(send, recv, count);
  customccl_call call = customccl_make_call(kNames[op], send, recv, count, CUSTOMCCL_FLOAT32);
  call.reduce_op = CUSTOMCCL_SUM;
  return checked(customccl_run(comm, &call));
}

int peer_send(const float* send, size_t count, int peer) {
  return checked(customccl_send(comm, send, count, CUSTOMCCL_FLOAT32, peer, 0));
}

int peer_recv(float* recv, size_t count, int peer) {
  return checked(customccl_recv(comm, recv, count, CUSTOMCCL_FLOAT32, peer, 0));
}

void peer_stop(void) { customccl_destroy(comm); }
