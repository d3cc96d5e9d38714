/* Every operation, in place and out of place, with 1 to 4 processes as ranks. */
#define _POSIX_C_SOURCE 200809L

#include "ranks.h"

static customccl_comm* comm;
static int rank, size;

static void all_reduce(size_t count) {
  int32_t* in = new_buffer(count);
  int32_t* out = new_buffer(count);
  fill(in, rank, 0, count);
  CHECK_OK(customccl_all_reduce(comm, in, out, count, CUSTOMCCL_INT32, CUSTOMCCL_SUM));
  CHECK(holds(in, rank, 0, count) && holds_sum(out, size, 0, count));
  CHECK_OK(customccl_all_reduce(comm, in, in, count, CUSTOMCCL_INT32, CUSTOMCCL_SUM));
  CHECK(holds_sum(in, size, 0, count));
  CHECK_OK(customccl_all_reduce(comm, in, out, count, CUSTOMCCL_INT32, CUSTOMCCL_MAX));
  CHECK(holds_sum(out, size, 0, count));
  free_buffer(in, count);
  free_buffer(out, count);
}

static void reduce(size_t count) {
  for (int root = 0; root < size; ++root) {
    int32_t* in = new_buffer(count);
    int32_t* out = new_buffer(count);
    fill(in, rank, 0, count);
    CHECK_OK(customccl_reduce(comm, in, rank == root ? out : NULL, count, CUSTOMCCL_INT32, CUSTOMCCL_SUM, root));
    CHECK(holds(in, rank, 0, count));
    CHECK(rank == root ? holds_sum(out, size, 0, count) : is_poison(out, count));
    CHECK_OK(customccl_reduce(comm, in, in, count, CUSTOMCCL_INT32, CUSTOMCCL_SUM, root));
    CHECK(rank == root ? holds_sum(in, size, 0, count) : holds(in, rank, 0, count));
    free_buffer(in, count);
    free_buffer(out, count);
  }
}

static void broadcast(size_t count) {
  for (int root = 0; root < size; ++root) {
    int32_t* in = new_buffer(count);
    int32_t* out = new_buffer(count);
    fill(in, rank, 0, count);
    CHECK_OK(customccl_broadcast(comm, in, out, count, CUSTOMCCL_INT32, root));
    CHECK(holds(in, rank, 0, count) && holds(out, root, 0, count));
    CHECK_OK(customccl_broadcast(comm, in, in, count, CUSTOMCCL_INT32, root));
    CHECK(holds(in, root, 0, count));
    CHECK_OK(
        customccl_broadcast(comm, rank == root ? in : NULL, rank == root ? NULL : out, count, CUSTOMCCL_INT32, root));
    free_buffer(in, count);
    free_buffer(out, count);
  }
}

/* Blocks of equal or of different lengths. */
static size_t block_count(int ragged, size_t count, int i) {
  return ragged ? count * (size_t)i / 2 + (size_t)(i == 2) : count;
}
static size_t set_counts(int ragged, size_t count, size_t* counts, size_t* firsts) {
  size_t total = 0;
  for (int i = 0; i < size; ++i) {
    firsts[i] = total;
    counts[i] = block_count(ragged, count, i);
    total += counts[i];
  }
  return total;
}

static void gathers(size_t count, int ragged) {
  size_t counts[8], firsts[8];
  const size_t total = set_counts(ragged, count, counts, firsts);
  for (int root = -1; root < size; ++root) { /* -1: all_gather */
    int32_t* in = new_buffer(counts[rank]);
    int32_t* out = new_buffer(total);
    fill(in, rank, firsts[rank], counts[rank]);
    customccl_call call =
        customccl_make_call(root < 0 ? CUSTOMCCL_ALL_GATHER : CUSTOMCCL_GATHER, in, out, count, CUSTOMCCL_INT32);
    call.root = root < 0 ? 99 : root;      /* ignored where there is none */
    call.reduce_op = CUSTOMCCL_PREMUL_SUM; /* ignored where nothing is reduced */
    call.counts = ragged ? counts : NULL;
    for (int in_place = 0; in_place < 2; ++in_place) {
      if (in_place) {
        for (size_t i = 0; i < total; ++i) out[i] = POISON;
        fill(out + firsts[rank], rank, firsts[rank], counts[rank]);
        call.send = out + firsts[rank];
      }
      CHECK_OK(customccl_run(comm, &call));
      CHECK(holds(in, rank, firsts[rank], counts[rank]));
      for (int i = 0; i < size; ++i) {
        const int written = root < 0 || root == rank;
        if (written) CHECK(holds(out + firsts[i], i, firsts[i], counts[i]));
        if (!written && !in_place) CHECK(is_poison(out + firsts[i], counts[i]));
      }
    }
    free_buffer(in, counts[rank]);
    free_buffer(out, total);
  }
}

static void reduce_scatter(size_t count, int ragged) {
  size_t counts[8], firsts[8];
  const size_t total = set_counts(ragged, count, counts, firsts);
  int32_t* in = new_buffer(total);
  int32_t* out = new_buffer(counts[rank]);
  fill(in, rank, 0, total);
  customccl_call call = customccl_make_call(CUSTOMCCL_REDUCE_SCATTER, in, out, count, CUSTOMCCL_INT32);
  call.counts = ragged ? counts : NULL;
  CHECK_OK(customccl_run(comm, &call));
  CHECK(holds(in, rank, 0, total) && holds_sum(out, size, firsts[rank], counts[rank]));
  call.recv = in + firsts[rank];
  CHECK_OK(customccl_run(comm, &call));
  CHECK(holds_sum(in + firsts[rank], size, firsts[rank], counts[rank]));
  free_buffer(in, total);
  free_buffer(out, counts[rank]);
}

static void scatter(size_t count, int ragged) {
  size_t counts[8], firsts[8];
  const size_t total = set_counts(ragged, count, counts, firsts);
  for (int root = 0; root < size; ++root) {
    int32_t* in = new_buffer(total);
    int32_t* out = new_buffer(counts[rank]);
    fill(in, root, 0, total);
    customccl_call call = customccl_make_call(CUSTOMCCL_SCATTER, rank == root ? in : NULL, out, count, CUSTOMCCL_INT32);
    call.root = root;
    call.reduce_op = CUSTOMCCL_PREMUL_SUM;
    call.counts = ragged ? counts : NULL;
    CHECK_OK(customccl_run(comm, &call));
    CHECK(holds(out, root, firsts[rank], counts[rank]));
    if (rank == root) call.recv = in + firsts[rank];
    CHECK_OK(customccl_run(comm, &call));
    CHECK(holds(in, root, 0, total));
    free_buffer(in, total);
    free_buffer(out, counts[rank]);
  }
}

static void all_to_all(size_t count, int ragged) {
  size_t sends[8], recvs[8];
  size_t send_total = 0, recv_total = 0;
  for (int i = 0; i < size; ++i) {
    sends[i] = ragged ? count * (size_t)(rank + 2 * i) / 3 : count;
    recvs[i] = ragged ? count * (size_t)(i + 2 * rank) / 3 : count;
    send_total += sends[i];
    recv_total += recvs[i];
  }
  int32_t* in = new_buffer(send_total);
  int32_t* out = new_buffer(recv_total);
  customccl_call call = customccl_make_call(CUSTOMCCL_ALL_TO_ALL, in, out, count, CUSTOMCCL_INT32);
  call.reduce_op = CUSTOMCCL_PREMUL_SUM;
  if (ragged) {
    call.counts = sends;
    call.recv_counts = recvs;
  }
  for (int in_place = 0; in_place < (ragged ? 1 : 2); ++in_place) {
    size_t first = 0;
    for (int i = 0; i < size; first += sends[i++]) fill(in + first, rank, (size_t)i * 100, sends[i]);
    if (in_place) call.recv = in;
    CHECK_OK(customccl_run(comm, &call));
    first = 0;
    for (int i = 0; i < size; first += recvs[i++])
      CHECK(holds((in_place ? in : out) + first, i, (size_t)rank * 100, recvs[i]));
  }
  free_buffer(in, send_total);
  free_buffer(out, recv_total);
}

static void messages(size_t count) {
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  int32_t* in = new_buffer(count);
  int32_t* out = new_buffer(count);
  fill(in, rank, 0, count);
  /* Around the ring: one at a time, so that large ones need no room in between. */
  for (int turn = 0; turn < size && size > 1; ++turn) {
    int32_t source = -5;
    if (rank == turn) CHECK_OK(customccl_send(comm, in, count, CUSTOMCCL_INT32, next, 7));
    if (previous != turn) continue;
    customccl_call call = customccl_make_call(CUSTOMCCL_RECV, NULL, out, count, CUSTOMCCL_INT32);
    call.peer = CUSTOMCCL_ANY_SOURCE;
    call.tag = 7;
    call.source = &source;
    CHECK_OK(customccl_run(comm, &call));
    CHECK(source == previous && holds(out, previous, 0, count));
  }
  /* Two tags, received in the other order. */
  if (size > 1 && count < 1000) {
    CHECK_OK(customccl_send(comm, in, count, CUSTOMCCL_INT32, next, 1));
    CHECK_OK(customccl_send(comm, in, count / 2, CUSTOMCCL_INT32, next, 2));
    CHECK_OK(customccl_recv(comm, out, count / 2, CUSTOMCCL_INT32, previous, 2));
    CHECK_OK(customccl_recv(comm, out, count, CUSTOMCCL_INT32, previous, 1));
    CHECK(holds(out, previous, 0, count));
  }
  free_buffer(in, count);
  free_buffer(out, count);
}

static void floats(void) {
  float average[3] = {(float)rank, 1, 2};
  CHECK_OK(customccl_all_reduce(comm, average, average, 3, CUSTOMCCL_FLOAT32, CUSTOMCCL_AVG));
  CHECK(average[0] == (float)(size - 1) / 2 && average[1] == 1 && average[2] == 2);
  double scaled = 3;
  customccl_call call = customccl_make_call(CUSTOMCCL_ALL_REDUCE, &scaled, &scaled, 1, CUSTOMCCL_FLOAT64);
  call.reduce_op = CUSTOMCCL_PREMUL_SUM;
  call.factor[0] = rank + 1;
  CHECK_OK(customccl_run(comm, &call));
  CHECK(scaled == 3.0 * size * (size + 1) / 2);
}

/* Everything but the timeout is ignored, also where ranks give it differently. */
static void barrier_of_anything(void) {
  int32_t nothing = 0;
  customccl_call call = customccl_make_call(CUSTOMCCL_BARRIER, &nothing, &nothing, 77, rank == 0 ? 12345 : -1 - rank);
  call.reduce_op = -9;
  call.root = call.peer = 99;
  call.tag = rank;
  CHECK_OK(customccl_run(comm, &call));
  call.dtype = rank % 2 == 0 ? CUSTOMCCL_INT8 : CUSTOMCCL_INT16;
  CHECK_OK(customccl_run(comm, &call));
}

static int be_rank(char** argv) {
  static const size_t kCounts[] = {0, 1, 2, 333, 20000, 131072, 700000};
  of_library = strcmp(argv[4], "library") == 0;
  comm = join(argv, 60000);
  rank = customccl_rank(comm);
  size = customccl_size(comm);
  CHECK(rank == atoi(argv[2]) && size == atoi(argv[3]));
  for (size_t i = 0; i < sizeof(kCounts) / sizeof(kCounts[0]); ++i) {
    const size_t count = kCounts[i];
    all_reduce(count);
    reduce(count);
    broadcast(count);
    for (int ragged = 0; ragged < 2; ++ragged) {
      gathers(count, ragged);
      reduce_scatter(count, ragged);
      scatter(count, ragged);
      all_to_all(count, ragged);
    }
    messages(count);
    CHECK_OK(customccl_barrier(comm));
  }
  floats();
  barrier_of_anything();
  CHECK_OK(customccl_async_error(comm));
  CHECK_OK(customccl_destroy(comm));
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 5) return be_rank(argv);
  for (int n = 1; n <= 4; ++n) {
    pid_t pids[4];
    start_ranks(argv[0], "malloc", n, pids);
    CHECK(join_ranks(n, pids) == 0);
    start_ranks(argv[0], "library", n, pids);
    CHECK(join_ranks(n, pids) == 0);
  }
  return 0;
}
