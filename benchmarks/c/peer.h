/* What collectives.c needs from a library: one file peer_*.c each. float32 and SUM, root 0; functions return 0 or an error.
 *
 *   operation                   send                  recv                  count
 *   ALL_REDUCE REDUCE BROADCAST the tensor            the same tensor       of the tensor
 *   ALL_GATHER GATHER           a block               n blocks              of a block
 *   REDUCE_SCATTER SCATTER      n blocks              a block               of a block
 *   ALL_TO_ALL                  n blocks              n blocks              of a block
 *   ALL_TO_ALL_SKEWED           weights[i] parts to i weights[r] from each  of a part
 *   SEND, RECV                  the tensor            the tensor            of the tensor, with rank `peer`
 */
#ifndef BENCHMARKS_PEER_H
#define BENCHMARKS_PEER_H

#include <stddef.h>

enum bench_op {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kGather,
  kReduceScatter,
  kScatter,
  kAllToAll,
  kAllToAllSkewed,
  kSendRecv,
  kBarrier,
  kOps
};

/* Of the parts that a rank sends, rank i gets weights[i]: as operations.py says. */
static inline size_t skewed_weight(int to, int ranks) { return to != 0 || ranks == 1 ? 1 : 3 * ((size_t)ranks - 1); }

int peer_start(int* argc, char*** argv, int* rank, int* ranks);
const char* peer_version(void);
int peer_run(enum bench_op op, const float* send, float* recv, size_t count);
int peer_send(const float* send, size_t count, int peer);
int peer_recv(float* recv, size_t count, int peer);
void peer_stop(void);

#endif
