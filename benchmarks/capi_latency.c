/* What an 8-byte all_reduce costs through the C ABI: minimum, median and 99th percentile over many calls, per call.
 *
 *   cc -std=c11 -O2 benchmarks/capi_latency.c $(pkg-config --cflags --libs customccl) -o capi_latency && ./capi_latency [ranks] [bytes]
 *
 * Ranks are processes, each bound to a processor of its own where there are enough. A sample is the mean of 100 calls in a row (a look
 * at the clock costs as much as a tenth of a call); every call's result is checked by the next: values grow by a known
 * factor. Percentiles are over samples, on the slowest rank. */
#define _GNU_SOURCE

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "customccl.h"

enum { SAMPLES = 20000, CALLS = 100, WARM_UP = 2000 };

static void stop_if(customccl_code code) {
  if (code == CUSTOMCCL_OK) return;
  fprintf(stderr, "%s: %s\n", customccl_error_text(code), customccl_last_error());
  exit(1);
}

static double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void bind_to_processor(int rank, int size) {
  cpu_set_t usable, own;
  if (sched_getaffinity(0, sizeof(usable), &usable) != 0 || CPU_COUNT(&usable) < size) return;
  for (int cpu = 0, found = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &usable) || found++ != rank) continue;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    sched_setaffinity(0, sizeof(own), &own);
    return;
  }
}

static void measure(const customccl_token* token, int rank, int size, size_t count) {
  customccl_comm* comm = NULL;
  stop_if(customccl_init(token, rank, size, NULL, &comm));
  bind_to_processor(rank, size); /* after init, which looks at how many processors the ranks have */
  double* in = calloc(count + 1, sizeof(double));
  double* out = calloc(count + 1, sizeof(double));
  double* samples = malloc(SAMPLES * sizeof(double));
  if (in == NULL || out == NULL || samples == NULL) exit(1);
  for (int i = 0; i < WARM_UP; ++i)
    stop_if(customccl_all_reduce(comm, in, out, count, CUSTOMCCL_FLOAT64, CUSTOMCCL_SUM));
  for (int sample = 0; sample < SAMPLES; ++sample) {
    const double begin = now_us();
    for (int i = 0; i < CALLS; ++i) {
      in[0] = (double)(sample + i + rank);
      stop_if(customccl_all_reduce(comm, in, out, count, CUSTOMCCL_FLOAT64, CUSTOMCCL_SUM));
      if (out[0] != (double)size * (sample + i) + (double)size * (size - 1) / 2) {
        fprintf(stderr, "wrong result\n");
        exit(1);
      }
    }
    samples[sample] = (now_us() - begin) / CALLS;
  }
  stop_if(customccl_all_reduce(comm, samples, samples, SAMPLES, CUSTOMCCL_FLOAT64, CUSTOMCCL_MAX));
  if (rank == 0) {
    qsort(samples, SAMPLES, sizeof(double), by_size);
    printf("all_reduce of %zu bytes, %d ranks, %d x %d calls, us per call: min %.3f, median %.3f, 99 %% %.3f\n",
           count * sizeof(double), size, SAMPLES, CALLS, samples[0], samples[SAMPLES / 2], samples[SAMPLES / 100 * 99]);
  }
  stop_if(customccl_destroy(comm));
  free(in);
  free(out);
  free(samples);
}

int main(int argc, char** argv) {
  const int size = argc > 1 ? atoi(argv[1]) : 2;
  const size_t count = argc > 2 ? (size_t)atol(argv[2]) / sizeof(double) : 1;
  if (size < 1 || count < 1) {
    fprintf(stderr, "usage: %s [ranks] [bytes, a multiple of 8]\n", argv[0]);
    return 2;
  }
  customccl_token token;
  stop_if(customccl_make_token(&token));
  for (int rank = 0; rank < size; ++rank) {
    if (fork() != 0) continue;
    measure(&token, rank, size, count);
    return 0;
  }
  int failed = 0;
  for (int status = 0; wait(&status) > 0;) failed |= status;
  return failed != 0;
}
