/* The processors of this process; needs _GNU_SOURCE. */
#ifndef BENCHMARKS_PIN_H
#define BENCHMARKS_PIN_H

#include <sched.h>
#include <unistd.h>

/* Those on which it may run, which a container or taskset can make fewer than the machine has. */
static inline int usable_processors(void) {
  cpu_set_t usable;
  return sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* Binds it to one. Returns 0, or -1 if it may not run there. */
static inline int pin_to(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  return sched_setaffinity(0, sizeof one, &one);
}

#endif
