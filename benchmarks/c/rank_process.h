/* A further rank as a process of its own, which ends with the one that made it: nobody is left looking at flags that nobody sets. */
#ifndef BENCHMARKS_RANK_PROCESS_H
#define BENCHMARKS_RANK_PROCESS_H

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* As fork(). */
static inline pid_t fork_rank(void) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) _exit(1);
  return child;
}

#endif
