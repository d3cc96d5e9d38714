/* Binds this process to one processor; needs _GNU_SOURCE. */
#ifndef BENCHMARKS_PIN_H
#define BENCHMARKS_PIN_H

#include <sched.h>

/* Returns 0, or -1 if it may not run there. */
static inline int pin_to(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  return sched_setaffinity(0, sizeof one, &one);
}

#endif
