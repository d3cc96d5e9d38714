/* What the C programs share: ranks as processes of the same program, and checks that say where they failed. */
#ifndef RANKS_H
#define RANKS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "customccl.h"

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: %s is false; last error: %s\n", __FILE__, __LINE__, #condition, customccl_last_error()); \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)
#define CHECK_OK(call) CHECK((call) == CUSTOMCCL_OK)

/* Starts `size` processes of this program as "<program> <token> <rank> <size> <what>", without waiting. */
static inline void start_ranks(const char* program, const char* what, int size, pid_t* pids) {
  customccl_token token;
  CHECK_OK(customccl_make_token(&token));
  for (int rank = 0; rank < size; ++rank) {
    pids[rank] = fork();
    CHECK(pids[rank] >= 0);
    if (pids[rank] == 0) {
      char rank_text[16];
      char size_text[16];
      snprintf(rank_text, sizeof(rank_text), "%d", rank);
      snprintf(size_text, sizeof(size_text), "%d", size);
      execl(program, program, token.text, rank_text, size_text, what, (char*)NULL);
      _exit(127);
    }
  }
}

/* Waits for them; the number of those that did not exit with 0. */
static inline int join_ranks(int size, const pid_t* pids) {
  int failed = 0;
  for (int i = 0; i < size; ++i) {
    int status = 0;
    CHECK(waitpid(pids[i], &status, 0) == pids[i]);
    failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  return failed;
}

/* The communicator of a process that start_ranks started. */
static inline customccl_comm* join(char** argv, int64_t timeout_ms) {
  customccl_token token;
  memset(&token, 0, sizeof(token));
  strncpy(token.text, argv[1], sizeof(token.text) - 1);
  customccl_options options;
  memset(&options, 0, sizeof(options));
  options.size = sizeof(options);
  options.timeout_ms = timeout_ms;
  customccl_comm* comm = NULL;
  CHECK_OK(customccl_init(&token, atoi(argv[2]), atoi(argv[3]), &options, &comm));
  return comm;
}

/* What rank `rank` has at position `i`: differs per rank and per position. */
static inline int32_t value(int rank, size_t i) { return (int32_t)((size_t)rank * 1009 + i * 11 % 997 + 1); }
static inline int32_t value_sum(int size, size_t i) {
  int32_t sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += value(rank, i);
  return sum;
}

/* Memory that is poisoned, with a guard of a page on both sides; the library's where `of_library`. */
enum { GUARD = 1024, POISON = -77 };
static int of_library = 0;
static inline int32_t* new_buffer(size_t count) {
  const size_t bytes = (count + 2 * GUARD) * sizeof(int32_t);
  void* fresh = NULL;
  if (of_library) CHECK_OK(customccl_mem_alloc(&fresh, bytes));
  int32_t* memory = of_library ? fresh : malloc(bytes);
  CHECK(memory != NULL);
  for (size_t i = 0; i < count + 2 * GUARD; ++i) memory[i] = POISON;
  return memory + GUARD;
}
static inline void free_buffer(int32_t* buffer, size_t count) {
  for (size_t i = 0; i < GUARD; ++i) CHECK(buffer[-1 - (ptrdiff_t)i] == POISON && buffer[count + i] == POISON);
  if (of_library) CHECK_OK(customccl_mem_free(buffer - GUARD));
  if (!of_library) free(buffer - GUARD);
}
static inline void fill(int32_t* block, int rank, size_t first, size_t count) {
  for (size_t i = 0; i < count; ++i) block[i] = value(rank, first + i);
}
static inline int holds(const int32_t* block, int rank, size_t first, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (block[i] != value(rank, first + i)) return 0;
  }
  return 1;
}
static inline int holds_sum(const int32_t* block, int size, size_t first, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (block[i] != value_sum(size, first + i)) return 0;
  }
  return 1;
}
static inline int is_poison(const int32_t* block, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (block[i] != POISON) return 0;
  }
  return 1;
}

#endif
