/* customccl: collectives between processes or threads of one machine, through shared memory, on raw pointers.
 *
 *   customccl_token token;                          rank 0, or whoever starts the ranks:
 *   customccl_make_token(&token);                   hand token.text to every rank (argument, environment, file)
 *
 *   customccl_comm* comm;                           every rank:
 *   customccl_init(&token, rank, size, NULL, &comm);
 *   customccl_all_reduce(comm, values, values, count, CUSTOMCCL_FLOAT32, CUSTOMCCL_SUM);
 *   customccl_destroy(comm);
 *
 * Link with libcustomccl.so (pkg-config customccl; CMake: find_package(customccl)). Plain C11; C++ may include it too.
 *
 * Errors    Functions return CUSTOMCCL_OK (0) or a code. customccl_last_error() then says in sentences what went wrong, which rank
 *           caused it and what to do. A call refused with CUSTOMCCL_INVALID_ARGUMENT has touched nothing and the communicator goes
 *           on. Every other failure ends the communicator on all its ranks: pending and later calls fail; destroy it.
 * Waiting   Every call blocks until it is done, and never longer than its timeout (milliseconds). Death of a peer ends it
 *           within milliseconds. On return all buffers are the caller's again; what was sent has been copied or read.
 * Order     Every rank calls the same collectives on a communicator in the same order, with the same dtype, counts, reduce op and
 *           root; what differs is found and ends the communicator with CUSTOMCCL_MISMATCH. Messages (send, recv) are
 *           matched by rank and tag, in the order they were sent, independently of collectives.
 * Threads   All functions may be called by any thread, several at once, also on the same communicator; the order of
 *           collectives is then the order in which threads enter them. Only customccl_destroy wants the communicator to itself:
 *           nobody may be inside, or enter, another function with it. (To get threads out of their calls: customccl_abort, not
 *           pthread_cancel.) A thread that calls them needs 64 KiB of stack.
 * Ranks     may be processes or threads of one process, one communicator each. A process can have many communicators.
 *           A child of fork() cannot use its parent's communicators (CUSTOMCCL_CLOSED); it destroys them or makes its own.
 * Units     Counts are elements, never bytes. Times are milliseconds.
 * Versions  Structures begin with their size. A newer library takes older callers; an older library takes newer callers whose
 *           additional fields are zero. Numbers of constants never change. */
#ifndef CUSTOMCCL_H
#define CUSTOMCCL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What functions return. */
typedef int32_t customccl_code;
enum {
  CUSTOMCCL_OK = 0,
  CUSTOMCCL_INVALID_ARGUMENT = 1, /* refused on this rank before anything was sent; the communicator goes on */
  CUSTOMCCL_MISMATCH = 2,         /* the ranks called different things */
  CUSTOMCCL_TIMEOUT = 3,          /* a time limit passed */
  CUSTOMCCL_PEER_DIED = 4,        /* a process of the communicator is gone */
  CUSTOMCCL_PEER_LEFT = 5,        /* a rank destroyed the communicator while others still used it */
  CUSTOMCCL_ABORTED = 6,          /* a rank called customccl_abort */
  CUSTOMCCL_CLOSED = 7,           /* the communicator cannot be used in this process */
  CUSTOMCCL_UNREACHABLE = 8,      /* the ranks cannot share memory */
  CUSTOMCCL_SYSTEM = 9            /* the operating system refused something */
};

typedef int32_t customccl_op;
enum {
  CUSTOMCCL_ALL_REDUCE = 0,
  CUSTOMCCL_REDUCE = 1,
  CUSTOMCCL_BROADCAST = 2,
  CUSTOMCCL_ALL_GATHER = 3,
  CUSTOMCCL_REDUCE_SCATTER = 4,
  CUSTOMCCL_GATHER = 5,
  CUSTOMCCL_SCATTER = 6,
  CUSTOMCCL_ALL_TO_ALL = 7,
  CUSTOMCCL_BARRIER = 8,
  CUSTOMCCL_SEND = 9,
  CUSTOMCCL_RECV = 10
};

typedef int32_t customccl_dtype;
enum {
  CUSTOMCCL_BOOL = 0, /* one byte, 0 or 1 */
  CUSTOMCCL_UINT8 = 1,
  CUSTOMCCL_INT8 = 2,
  CUSTOMCCL_UINT16 = 3,
  CUSTOMCCL_INT16 = 4,
  CUSTOMCCL_UINT32 = 5,
  CUSTOMCCL_INT32 = 6,
  CUSTOMCCL_UINT64 = 7,
  CUSTOMCCL_INT64 = 8,
  CUSTOMCCL_FLOAT16 = 9,
  CUSTOMCCL_BFLOAT16 = 10,
  CUSTOMCCL_FLOAT32 = 11,
  CUSTOMCCL_FLOAT64 = 12,
  CUSTOMCCL_COMPLEX64 = 13,  /* two float32: real, imaginary */
  CUSTOMCCL_COMPLEX128 = 14, /* two float64 */
  CUSTOMCCL_FLOAT8_E4M3FN = 15,
  CUSTOMCCL_FLOAT8_E4M3FNUZ = 16,
  CUSTOMCCL_FLOAT8_E5M2 = 17,
  CUSTOMCCL_FLOAT8_E5M2FNUZ = 18,
  CUSTOMCCL_FLOAT8_E8M0FNU = 19,  /* moved, never reduced */
  CUSTOMCCL_FLOAT4_E2M1FN_X2 = 20 /* two in a byte; moved, never reduced */
};

/* Reduced in the order of ranks; all ranks get the same bits. Integers wrap; 16-bit and 8-bit floats accumulate in float32. */
typedef int32_t customccl_reduce_op;
enum {
  CUSTOMCCL_SUM = 0,
  CUSTOMCCL_PRODUCT = 1,
  CUSTOMCCL_MIN = 2,       /* not complex */
  CUSTOMCCL_MAX = 3,       /* not complex */
  CUSTOMCCL_AVG = 4,       /* not bool */
  CUSTOMCCL_BAND = 5,      /* bool and integers */
  CUSTOMCCL_BOR = 6,       /* bool and integers */
  CUSTOMCCL_BXOR = 7,      /* bool and integers */
  CUSTOMCCL_PREMUL_SUM = 8 /* the sum of factor * input, each product rounded; floats and complex */
};

#define CUSTOMCCL_ANY_SOURCE (-1)
#define CUSTOMCCL_MAX_RANKS 256

/* What the ranks of one communicator have in common: printable text that ends with a zero byte. A token serves one
 * customccl_init per rank. It is random; who knows it and runs as the same user can join. */
typedef struct customccl_token { char text[256]; } customccl_token;

typedef struct customccl_options {
  size_t size;                 /* sizeof(customccl_options) */
  const char* name;            /* of the communicator in messages; NULL: made from the token. All ranks give the same */
  const char* directory;       /* absolute path where the ranks meet, the same for all; NULL: the one in the token */
  int64_t timeout_ms;          /* limit of customccl_init, and of every call that names none; 0: 30 minutes */
  const int32_t* global_ranks; /* `size of communicator` numbers, what messages call each rank; NULL: 0, 1, 2, ... */
} customccl_options;

typedef struct customccl_comm customccl_comm;

/* One operation. n: size of the communicator; r: this rank. Fields that an operation does not use are ignored, unless they are
 * said to be zero.
 *
 *   op              send: what is read                  recv: what is written               in place
 *   ALL_REDUCE      count                               count                               send == recv
 *   REDUCE          count                               count, on root only                 send == recv
 *   BROADCAST       count, on root only                 count (on root: a copy, or NULL)    send == recv
 *   ALL_GATHER      block r                             n blocks                            send == block r of recv
 *   REDUCE_SCATTER  n blocks                            block r                             recv == block r of send
 *   GATHER          block r                             n blocks, on root only              send == block r of recv
 *   SCATTER         n blocks, on root only              block r                             recv == block r of send
 *   ALL_TO_ALL      n blocks, block i goes to rank i    n blocks, block i from rank i       send == recv, if counts agree
 *   BARRIER         -                                   -
 *   SEND            count, to rank `peer`               -
 *   RECV            -                                   count, from rank `peer`
 *
 * Blocks lie one after the other, by rank. Block i has counts[i] elements, or `count` if counts is NULL. ALL_TO_ALL: counts are
 * those of send, recv_counts those of recv, both or neither given. Buffers overlap as the table says or not at all. A
 * buffer of no elements may be NULL. The input is never changed unless it is the output. */
typedef struct customccl_call {
  size_t size; /* sizeof(customccl_call) */
  customccl_op op;
  customccl_dtype dtype;
  customccl_reduce_op reduce_op; /* ALL_REDUCE, REDUCE, REDUCE_SCATTER */
  int32_t root;                  /* REDUCE, BROADCAST, GATHER, SCATTER */
  int32_t peer;                  /* SEND: destination. RECV: source, or CUSTOMCCL_ANY_SOURCE */
  int32_t flags;                 /* zero */
  int64_t tag;                   /* SEND, RECV */
  const void* send;
  void* recv;
  size_t count;
  const size_t* counts;      /* n numbers, the same on every rank (but for ALL_TO_ALL), or NULL */
  const size_t* recv_counts; /* ALL_TO_ALL only */
  int64_t timeout_ms;        /* 0: the communicator's */
  double factor[2];          /* PREMUL_SUM: this rank's factor, real and imaginary part */
  int32_t* source;           /* RECV: where the sender's rank is written, or NULL */
} customccl_call;

/* Version of the library, "0.1.0". */
const char* customccl_version(void);
/* A name for a code: "CUSTOMCCL_TIMEOUT". Never NULL. */
const char* customccl_error_text(customccl_code code);
/* The latest failure on this thread; what succeeds does not change it. The text is valid until this thread's next failure; empty if
 * there was none. The rank is the one that caused the failure (as global_ranks calls it), or -1. */
const char* customccl_last_error(void);
int32_t customccl_last_error_rank(void);

/* A fresh token. It names the directory where the ranks will meet: in $XDG_RUNTIME_DIR, else $TMPDIR, else /tmp. */
customccl_code customccl_make_token(customccl_token* token);
/* Collective: joins as `rank` of `size` and returns when all have joined. options may be NULL. *comm is set on success only.
 * The ranks meet in a directory that is made for it, and gone when all have come and returned, whether they succeeded or not. Once one
 * has failed the token is used up: who joins later fails at once. docs/c-abi.md says what is left if a rank never joins. */
customccl_code customccl_init(const customccl_token* token, int32_t rank, int32_t size,
                              const customccl_options* options, customccl_comm** comm);
/* Carries out one operation. Allocates nothing and makes no system call where the ranks are in step. */
customccl_code customccl_run(customccl_comm* comm, const customccl_call* call);
/* CUSTOMCCL_OK while the communicator works, else why it does not (text: customccl_last_error). Does not wait and does not look
 * for new failures: it knows what calls on this rank have met. */
customccl_code customccl_async_error(customccl_comm* comm);
/* Ends the communicator on all ranks: their calls return CUSTOMCCL_ABORTED. `why` is added to their texts; may be NULL. */
customccl_code customccl_abort(customccl_comm* comm, const char* why);
/* Leaves the communicator and frees it. Waits for nobody, so ranks and communicators may be destroyed in any order; a peer that
 * still needs this rank gets CUSTOMCCL_PEER_LEFT. What was sent before can still be received. NULL is fine. */
customccl_code customccl_destroy(customccl_comm* comm);

/* Memory of this process for buffers of any of its communicators, now and later. Peers read and write it where it lies, which saves
 * copies: in all_reduce and reduce from 32 KiB on, else from 1 MiB. It begins a page; its contents are arbitrary; 0 bytes count as 1.
 * *memory is NULL if there is no room (CUSTOMCCL_SYSTEM). A child of fork() need not free it: it reads there what its parent has there
 * at that moment, page by page until it writes to one itself; what it writes is its own. */
customccl_code customccl_mem_alloc(void** memory, size_t bytes);
/* No call may be using it. It serves the next customccl_mem_alloc of as many bytes; after 10 s the system gets it. NULL is fine. */
customccl_code customccl_mem_free(void* memory);

int32_t customccl_rank(const customccl_comm* comm);
int32_t customccl_size(const customccl_comm* comm);
size_t customccl_dtype_size(customccl_dtype dtype); /* bytes per element; 0: no such dtype */

/* A call with every field zero but these. Set what the operation needs besides. */
static inline customccl_call customccl_make_call(customccl_op op, const void* send, void* recv, size_t count,
                                                 customccl_dtype dtype) {
  const customccl_call call = {
      sizeof(customccl_call), op, dtype, 0, 0, 0, 0, 0, send, recv, count, NULL, NULL, 0, {0.0, 0.0}, NULL};
  return call;
}

/* The operations with one block size for all ranks, in one line each. */
static inline customccl_code customccl_all_reduce(customccl_comm* comm, const void* send, void* recv, size_t count,
                                                  customccl_dtype dtype, customccl_reduce_op reduce_op) {
  customccl_call call = customccl_make_call(CUSTOMCCL_ALL_REDUCE, send, recv, count, dtype);
  call.reduce_op = reduce_op;
  return customccl_run(comm, &call);
}
static inline customccl_code customccl_reduce(customccl_comm* comm, const void* send, void* recv, size_t count,
                                              customccl_dtype dtype, customccl_reduce_op reduce_op, int32_t root) {
  customccl_call call = customccl_make_call(CUSTOMCCL_REDUCE, send, recv, count, dtype);
  call.reduce_op = reduce_op;
  call.root = root;
  return customccl_run(comm, &call);
}
static inline customccl_code customccl_broadcast(customccl_comm* comm, const void* send, void* recv, size_t count,
                                                 customccl_dtype dtype, int32_t root) {
  customccl_call call = customccl_make_call(CUSTOMCCL_BROADCAST, send, recv, count, dtype);
  call.root = root;
  return customccl_run(comm, &call);
}
/* count: elements of one block */
static inline customccl_code customccl_all_gather(customccl_comm* comm, const void* send, void* recv, size_t count,
                                                  customccl_dtype dtype) {
  const customccl_call call = customccl_make_call(CUSTOMCCL_ALL_GATHER, send, recv, count, dtype);
  return customccl_run(comm, &call);
}
static inline customccl_code customccl_reduce_scatter(customccl_comm* comm, const void* send, void* recv, size_t count,
                                                      customccl_dtype dtype, customccl_reduce_op reduce_op) {
  customccl_call call = customccl_make_call(CUSTOMCCL_REDUCE_SCATTER, send, recv, count, dtype);
  call.reduce_op = reduce_op;
  return customccl_run(comm, &call);
}
static inline customccl_code customccl_gather(customccl_comm* comm, const void* send, void* recv, size_t count,
                                              customccl_dtype dtype, int32_t root) {
  customccl_call call = customccl_make_call(CUSTOMCCL_GATHER, send, recv, count, dtype);
  call.root = root;
  return customccl_run(comm, &call);
}
static inline customccl_code customccl_scatter(customccl_comm* comm, const void* send, void* recv, size_t count,
                                               customccl_dtype dtype, int32_t root) {
  customccl_call call = customccl_make_call(CUSTOMCCL_SCATTER, send, recv, count, dtype);
  call.root = root;
  return customccl_run(comm, &call);
}
static inline customccl_code customccl_all_to_all(customccl_comm* comm, const void* send, void* recv, size_t count,
                                                  customccl_dtype dtype) {
  const customccl_call call = customccl_make_call(CUSTOMCCL_ALL_TO_ALL, send, recv, count, dtype);
  return customccl_run(comm, &call);
}
static inline customccl_code customccl_barrier(customccl_comm* comm) {
  const customccl_call call = customccl_make_call(CUSTOMCCL_BARRIER, NULL, NULL, 0, CUSTOMCCL_UINT8);
  return customccl_run(comm, &call);
}
static inline customccl_code customccl_send(customccl_comm* comm, const void* send, size_t count, customccl_dtype dtype,
                                            int32_t peer, int64_t tag) {
  customccl_call call = customccl_make_call(CUSTOMCCL_SEND, send, NULL, count, dtype);
  call.peer = peer;
  call.tag = tag;
  return customccl_run(comm, &call);
}
static inline customccl_code customccl_recv(customccl_comm* comm, void* recv, size_t count, customccl_dtype dtype,
                                            int32_t peer, int64_t tag) {
  customccl_call call = customccl_make_call(CUSTOMCCL_RECV, NULL, recv, count, dtype);
  call.peer = peer;
  call.tag = tag;
  return customccl_run(comm, &call);
}

#ifdef __cplusplus
}
#endif
#endif
