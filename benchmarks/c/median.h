/* The middle of samples. */
#ifndef BENCHMARKS_MEDIAN_H
#define BENCHMARKS_MEDIAN_H

#include <stdint.h>
#include <stdlib.h>

static inline int median_by_value(const void* a, const void* b) {
  const int64_t x = *(const int64_t*)a, y = *(const int64_t*)b;
  return (x > y) - (x < y);
}

/* Sorts them. */
static inline int64_t median(int64_t* samples, int count) {
  qsort(samples, (size_t)count, sizeof samples[0], median_by_value);
  return samples[count / 2];
}

#endif
