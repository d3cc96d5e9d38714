/* Communicators come, go, fail and are misused; every failure has a code and a text. Two ranks as processes. */
#define _POSIX_C_SOURCE 200809L

#include "ranks.h"

static void refused(customccl_comm* comm, customccl_call call, const char* part) {
  CHECK(customccl_run(comm, &call) == CUSTOMCCL_INVALID_ARGUMENT);
  if (strstr(customccl_last_error(), part) == NULL) fprintf(stderr, "\"%s\" is missing in: ", part);
  CHECK(strstr(customccl_last_error(), part) != NULL);
}

/* What a rank can see to be wrong by itself. Nothing is sent, and the communicator goes on. */
static void misuse(customccl_comm* comm) {
  int32_t x[4] = {1, 2, 3, 4};
  const customccl_call good = customccl_make_call(CUSTOMCCL_ALL_REDUCE, x, x, 4, CUSTOMCCL_INT32);
  customccl_call call = good;
  call.op = 11;
  refused(comm, call, "no operation number 11");
  call.op = -1;
  refused(comm, call, "no operation number -1");
  call = good;
  call.dtype = CUSTOMCCL_FLOAT4_E2M1FN_X2 + 1;
  refused(comm, call, "all_reduce: there is no dtype number 21");
  call = good;
  call.reduce_op = 9;
  refused(comm, call, "no reduce op number 9");
  call.reduce_op = CUSTOMCCL_PREMUL_SUM;
  refused(comm, call, "PREMUL_SUM is not defined for int32");
  call = good;
  call.flags = 4;
  refused(comm, call, "flags must be zero, not 4");
  call = good;
  call.timeout_ms = -1;
  refused(comm, call, "timeout_ms is -1");
  call = good;
  call.send = NULL;
  refused(comm, call, "send is NULL, for 4 elements");
  call = good;
  call.recv = NULL;
  refused(comm, call, "recv is NULL, for 4 elements");
  call = good;
  call.count = (size_t)-1;
  refused(comm, call, "more than there is address space");
  call = good;
  call.op = CUSTOMCCL_ALL_GATHER;
  call.count = ((size_t)-1) / 9;
  refused(comm, call, "more elements than there is address space");
  call = good;
  call.op = CUSTOMCCL_BROADCAST;
  call.root = 2;
  refused(comm, call, "broadcast: root is 2, in a communicator of 2 ranks");
  call.op = CUSTOMCCL_SEND;
  call.peer = CUSTOMCCL_ANY_SOURCE;
  refused(comm, call, "send: peer is -1");
  call = good;
  call.op = CUSTOMCCL_ALL_TO_ALL;
  const size_t counts[2] = {1, 1};
  call.counts = counts;
  refused(comm, call, "both counts and recv_counts");
  call = good;
  call.size = 8;
  refused(comm, call, "customccl_call.size is 8");
  CHECK(customccl_run(NULL, &good) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK(customccl_run(comm, NULL) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK(customccl_async_error(NULL) == CUSTOMCCL_INVALID_ARGUMENT &&
        customccl_abort(NULL, NULL) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK(customccl_last_error_rank() == -1);
  CHECK_OK(customccl_async_error(comm));
  CHECK_OK(customccl_run(comm, &good));
  CHECK(x[0] == 2 && x[3] == 8);
}

/* A program compiled with a later customccl.h: more fields, of no effect while they are zero. */
static void later_header(customccl_comm* comm) {
  struct {
    customccl_call call;
    int64_t later[2];
  } longer;
  double x = 1;
  memset(&longer, 0, sizeof(longer));
  longer.call = customccl_make_call(CUSTOMCCL_ALL_REDUCE, &x, &x, 1, CUSTOMCCL_FLOAT64);
  longer.call.size = sizeof(longer);
  CHECK_OK(customccl_run(comm, &longer.call));
  CHECK(x == 2);
  longer.later[1] = 1;
  CHECK(customccl_run(comm, &longer.call) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK(strstr(customccl_last_error(), "update the library") != NULL);
}

static void tokens(void) {
  customccl_token a, b;
  customccl_comm* comm = NULL;
  CHECK_OK(customccl_make_token(&a));
  CHECK_OK(customccl_make_token(&b));
  CHECK(strcmp(a.text, b.text) != 0);
  CHECK_OK(customccl_init(&a, 0, 1, NULL, &comm));
  CHECK_OK(customccl_barrier(comm));
  CHECK_OK(customccl_destroy(comm));
  CHECK_OK(customccl_destroy(NULL));
  comm = NULL;
  CHECK(customccl_make_token(NULL) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK(customccl_init(NULL, 0, 1, NULL, &comm) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK(customccl_init(&a, 0, 1, NULL, NULL) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK(customccl_init(&a, 2, 2, NULL, &comm) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK(customccl_init(&a, 0, 0, NULL, &comm) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK(customccl_init(&a, 0, CUSTOMCCL_MAX_RANKS + 1, NULL, &comm) == CUSTOMCCL_INVALID_ARGUMENT);
  memcpy(a.text + 12, "..", 2);
  CHECK(customccl_init(&a, 0, 1, NULL, &comm) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK(strstr(customccl_last_error(), "token") != NULL);
  customccl_options options;
  memset(&options, 0, sizeof(options));
  options.directory = "relative";
  CHECK(customccl_init(&b, 0, 1, &options, &comm) == CUSTOMCCL_INVALID_ARGUMENT); /* size not set */
  options.size = sizeof(options);
  CHECK(customccl_init(&b, 0, 1, &options, &comm) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK(strstr(customccl_last_error(), "absolute path") != NULL);
  CHECK(comm == NULL);
}

/* A second communicator over the same processes: its token travels through the first. */
static customccl_comm* another(customccl_comm* first) {
  customccl_token token;
  customccl_comm* second = NULL;
  if (customccl_rank(first) == 0) CHECK_OK(customccl_make_token(&token));
  CHECK_OK(customccl_broadcast(first, &token, &token, sizeof(token), CUSTOMCCL_UINT8, 0));
  /* The other way round, so that a mix-up shows. */
  CHECK_OK(customccl_init(&token, 1 - customccl_rank(first), 2, NULL, &second));
  return second;
}

static void two_communicators(customccl_comm* first) {
  for (int turn = 0; turn < 4; ++turn) {
    customccl_comm* second = another(first);
    customccl_comm* third = another(first);
    const int64_t mine = customccl_rank(second);
    int64_t all[2];
    CHECK_OK(customccl_all_gather(second, &mine, all, 1, CUSTOMCCL_INT64));
    CHECK(all[0] == 0 && all[1] == 1);
    const int64_t rank = customccl_rank(first);
    CHECK_OK(customccl_all_gather(first, &rank, all, 1, CUSTOMCCL_INT64));
    CHECK(all[0] == 0 && all[1] == 1 && rank == 1 - mine);
    /* In the same order, and in the other one. */
    const int swap = turn % 2 == customccl_rank(first);
    CHECK_OK(customccl_destroy(swap ? third : second));
    CHECK_OK(customccl_destroy(swap ? second : third));
  }
}

/* Each failure ends its communicator on both ranks, and no other one. */
static void mismatch(customccl_comm* first) {
  customccl_comm* comm = another(first);
  float x[3] = {0, 0, 0};
  const size_t count = customccl_rank(comm) == 0 ? 3 : 2;
  CHECK(customccl_all_reduce(comm, x, x, count, CUSTOMCCL_FLOAT32, CUSTOMCCL_SUM) == CUSTOMCCL_MISMATCH);
  CHECK(strstr(customccl_last_error(), "float32 x 3") != NULL && strstr(customccl_last_error(), "float32 x 2") != NULL);
  CHECK(customccl_async_error(comm) == CUSTOMCCL_MISMATCH);
  CHECK(customccl_barrier(comm) == CUSTOMCCL_MISMATCH);
  CHECK_OK(customccl_destroy(comm));
}

static void timeout(customccl_comm* first) {
  customccl_comm* comm = another(first);
  if (customccl_rank(comm) == 0) {
    customccl_call call = customccl_make_call(CUSTOMCCL_BARRIER, NULL, NULL, 0, CUSTOMCCL_UINT8);
    call.timeout_ms = 50;
    CHECK(customccl_run(comm, &call) == CUSTOMCCL_TIMEOUT);
    CHECK(strstr(customccl_last_error(), "waited in vain for rank 1") != NULL && customccl_last_error_rank() == 1);
  }
  CHECK_OK(customccl_barrier(first));
  if (customccl_rank(comm) == 1) {
    /* Rank 0 had entered that barrier, so it may succeed here; nobody enters the next. */
    if (customccl_barrier(comm) == CUSTOMCCL_OK) CHECK(customccl_barrier(comm) == CUSTOMCCL_TIMEOUT);
    CHECK(customccl_async_error(comm) == CUSTOMCCL_TIMEOUT);
  }
  CHECK_OK(customccl_destroy(comm));
}

static void leaving(customccl_comm* first) {
  customccl_comm* comm = another(first);
  if (customccl_rank(comm) == 1) {
    CHECK_OK(customccl_destroy(comm));
    return;
  }
  CHECK(customccl_barrier(comm) == CUSTOMCCL_PEER_LEFT);
  CHECK(customccl_last_error_rank() == 1);
  CHECK_OK(customccl_destroy(comm));
}

static void abortion(customccl_comm* first) {
  customccl_comm* comm = another(first);
  if (customccl_rank(comm) == 1) CHECK_OK(customccl_abort(comm, "had enough"));
  CHECK(customccl_barrier(comm) == CUSTOMCCL_ABORTED);
  CHECK(strstr(customccl_last_error(), "had enough") != NULL && customccl_last_error_rank() == 1);
  CHECK(customccl_async_error(comm) == CUSTOMCCL_ABORTED);
  CHECK_OK(customccl_destroy(comm));
}

static void* memory_of(size_t bytes) {
  void* memory = NULL;
  CHECK_OK(customccl_mem_alloc(&memory, bytes));
  CHECK(memory != NULL && (uintptr_t)memory % 4096 == 0);
  return memory;
}

static void memory(customccl_comm* first) {
  void* none = &none;
  CHECK(customccl_mem_alloc(NULL, 8) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK(customccl_mem_alloc(&none, (size_t)-1) == CUSTOMCCL_SYSTEM && none == NULL);
  CHECK(strstr(customccl_last_error(), "CUSTOMCCL_ARENA_BYTES") != NULL);
  CHECK_OK(customccl_mem_free(NULL));
  CHECK(customccl_mem_free(&none) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK_OK(customccl_mem_free(memory_of(0)));
  void* once = memory_of(500000);
  memset(once, 1, 500000);
  CHECK_OK(customccl_mem_free(once));
  CHECK(customccl_mem_free(once) == CUSTOMCCL_INVALID_ARGUMENT);
  CHECK(strstr(customccl_last_error(), "given back before") != NULL);
  void* again = memory_of(500000);
  CHECK(again == once);

  customccl_comm* comm = another(first);
  memset(again, customccl_rank(comm), 500000);
  CHECK_OK(customccl_all_reduce(comm, again, again, 500000, CUSTOMCCL_INT8, CUSTOMCCL_SUM));
  CHECK_OK(customccl_destroy(comm));
  for (size_t i = 0; i < 500000; ++i) CHECK(((const char*)again)[i] == 1);
  CHECK_OK(customccl_mem_free(again));
}

static void texts(void) {
  CHECK(strcmp(customccl_error_text(CUSTOMCCL_OK), "CUSTOMCCL_OK") == 0);
  CHECK(strcmp(customccl_error_text(CUSTOMCCL_SYSTEM), "CUSTOMCCL_SYSTEM") == 0);
  CHECK(strstr(customccl_error_text(10), "unknown") != NULL && strstr(customccl_error_text(-1), "unknown") != NULL);
  CHECK(customccl_dtype_size(CUSTOMCCL_COMPLEX128) == 16 && customccl_dtype_size(CUSTOMCCL_BFLOAT16) == 2);
  CHECK(customccl_dtype_size(-1) == 0 && customccl_dtype_size(CUSTOMCCL_FLOAT4_E2M1FN_X2 + 1) == 0);
  CHECK(customccl_version()[0] != '\0');
}

int main(int argc, char** argv) {
  if (argc != 5) {
    CHECK(customccl_last_error()[0] == '\0' && customccl_last_error_rank() == -1);
    texts();
    tokens();
    pid_t pids[2];
    start_ranks(argv[0], "", 2, pids);
    return join_ranks(2, pids) != 0;
  }
  customccl_comm* comm = join(argv, 60000);
  misuse(comm);
  later_header(comm);
  two_communicators(comm);
  mismatch(comm);
  timeout(comm);
  leaving(comm);
  abortion(comm);
  memory(comm);
  CHECK_OK(customccl_barrier(comm));
  CHECK_OK(customccl_destroy(comm));
  return 0;
}
