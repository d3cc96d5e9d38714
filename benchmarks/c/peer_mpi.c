/* Any MPI. */
#include "peer.h"

#include <mpi.h>
#include <string.h>

static int my_rank, my_ranks;

int peer_start(int* argc, char*** argv, int* rank, int* ranks) {
  const int failed = MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &my_ranks);
  *rank = my_rank;
  *ranks = my_ranks;
  return failed;
}

const char* peer_version(void) {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  text[strcspn(text, ",\n")] = 0;
  return text;
}

static int all_to_all_skewed(const float* send, float* recv, int part) {
  enum { kMost = 64 };
  int sends[kMost], receives[kMost], from[kMost], to[kMost], at = 0;
  for (int i = 0; i < my_ranks; ++i) {
    sends[i] = (int)skewed_weight(i, my_ranks) * part;
    receives[i] = (int)skewed_weight(my_rank, my_ranks) * part;
    from[i] = at;
    to[i] = i * receives[i];
    at += sends[i];
  }
  return MPI_Alltoallv(send, sends, from, MPI_FLOAT, recv, receives, to, MPI_FLOAT, MPI_COMM_WORLD);
}

int peer_run(enum bench_op op, const float* send, float* recv, size_t elements) {
  const int count = (int)elements;
  const MPI_Comm all = MPI_COMM_WORLD;
  switch (op) {
    case kAllReduce: return MPI_Allreduce(MPI_IN_PLACE, recv, count, MPI_FLOAT, MPI_SUM, all);
    case kReduce:
      return my_rank == 0 ? MPI_Reduce(MPI_IN_PLACE, recv, count, MPI_FLOAT, MPI_SUM, 0, all)
                          : MPI_Reduce(send, NULL, count, MPI_FLOAT, MPI_SUM, 0, all);
    case kBroadcast: return MPI_Bcast(recv, count, MPI_FLOAT, 0, all);
    case kAllGather: return MPI_Allgather(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, all);
    case kGather: return MPI_Gather(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, 0, all);
    case kReduceScatter: return MPI_Reduce_scatter_block(send, recv, count, MPI_FLOAT, MPI_SUM, all);
    case kScatter: return MPI_Scatter(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, 0, all);
    case kAllToAll: return MPI_Alltoall(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, all);
    case kAllToAllSkewed: return all_to_all_skewed(send, recv, count);
    case kBarrier: return MPI_Barrier(all);
    default: return -1;
  }
}

int peer_send(const float* send, size_t count, int peer) {
  return MPI_Send(send, (int)count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
}

int peer_recv(float* recv, size_t count, int peer) {
  return MPI_Recv(recv, (int)count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void peer_stop(void) { MPI_Finalize(); }
