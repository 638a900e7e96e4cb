/* Facts about a process of a job: its rank, as its launcher put it into its environment. */
#ifndef LK_PROFILER_DAEMON_PROCESS_H
#define LK_PROFILER_DAEMON_PROCESS_H

#include <stddef.h>
#include <sys/types.h>

struct lk_process_rank {
    int rank, world_size; /* -1: the environment does not say */
};

/*
 * Return the rank in a process's environment, as it was when the process was executed: what
 * torchrun, Open MPI, MPICH or Slurm set, the first of them that gives both numbers. A process that
 * is gone, or may not be looked at, says nothing.
 */
struct lk_process_rank lk_process_rank_of(pid_t pid);
/* Return the rank in an environment's text: "NAME=value" strings, each ended by a NUL. */
struct lk_process_rank lk_process_rank_in(const char *environment, size_t size);

#endif
