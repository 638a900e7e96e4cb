/* How long each rank works in each step: its compute, input and gaps, without collectives. */
#ifndef LK_FACTS_STEP_TIMES_H
#define LK_FACTS_STEP_TIMES_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Owns all lists. */
struct lk_step_times {
    int *ranks;      /* n_ranks numbers */
    char **hosts;    /* of each; LK_HOST_UNKNOWN where it is not known */
    uint32_t *steps; /* n_steps numbers, ascending */
    double *own_s;   /* own_s[rank * n_steps + step], s; NaN: not known */
    size_t n_ranks, n_steps;
};

/* Allocate the lists; the times are NaN, all else is zero. *out is freed by lk_step_times_fini,
 * whatever is returned. */
enum lk_status lk_step_times_init(struct lk_step_times *out, size_t n_ranks, size_t n_steps);
void lk_step_times_fini(struct lk_step_times *t); /* zeroes it; safe on a zeroed one */

#endif
