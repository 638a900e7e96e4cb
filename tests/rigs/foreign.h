/* Ranks that another launcher than ours starts, with the environment that torchrun gives them. */
#ifndef LK_TESTS_FOREIGN_H
#define LK_TESTS_FOREIGN_H

#include "tests/rigs/program.h"

enum { FOREIGN_MAX = 4 };

struct foreign {
    int rank, world_size, port;
    const char *const *env; /* (optional) more of the environment, "NAME=value", NULL-ended */
};

/* The set-up of a program that is this rank; ctx: struct foreign. */
void foreign_as_rank(void *ctx);

/* Start n ranks with these words each, and wait for their ends. Their output goes to folders of
 * scratch_dir. The caller ends each program. */
void foreign_run(struct program *p, int n, const char *const *words);

#endif
