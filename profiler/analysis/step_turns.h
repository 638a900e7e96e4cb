/*
 * Who is slowest in each step, from times of ranks' own work alone. In synchronous training a step
 * waits for its slowest rank, so the others' times below it are waits, and what ranks cost is what
 * the steps in which they are slowest would be shorter without them.
 */
#ifndef LK_PROFILER_ANALYSIS_STEP_TURNS_H
#define LK_PROFILER_ANALYSIS_STEP_TURNS_H

#include "base/status.h"
#include "facts/step_times.h"

#include <stdbool.h>
#include <stddef.h>

/* Return the share of steps, or of collectives, in which one of n ranks has to be last, to be
 * called the one that is: twice its share, or of two three quarters. */
double lk_share_of_one(size_t n);
/* Return true if n equal ranks would have one that is last in so many steps in less than one run
 * of a hundred. */
bool lk_is_persistent(size_t last, size_t steps, size_t n);

struct lk_turns_rank {
    size_t at;       /* index in the table */
    double mean_s;   /* own time of a step */
    double cost_s;   /* what the mean step would be shorter without it alone */
    size_t last;     /* steps in which it is slowest */
    bool persistent; /* last more often than its share, and not by chance */
};

struct lk_turns {
    size_t n_steps;        /* that all ranks have times of, and so count */
    double step_s, mean_s; /* means over steps: of the slowest rank's time, of all ranks' mean */
    double median_s;       /* of the ranks' means */
    size_t n_persistent;   /* ranks that are; they come first */
    double without_s;      /* step_s without all of them */
    struct lk_turns_rank
        *ranks; /* n_ranks: persistent ones first, then by mean time, longest first */
    size_t n_ranks;
};

/* Compute it. LK_EEVIDENCE: no step has the times of all ranks. Freed by lk_turns_fini. */
enum lk_status lk_turns_of(const struct lk_step_times *t, struct lk_turns *out);
void lk_turns_fini(struct lk_turns *t); /* zeroes it; safe on a zeroed one */

#endif
