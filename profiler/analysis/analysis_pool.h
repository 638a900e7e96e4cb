/*
 * Pool the repetitions of one configuration into one result: means over the runs, with the least
 * and the most of them. A single run is a pool of one.
 *
 * The efficiency is ideal / step, as the waterfall has them: against a reference of one rank it is
 * the share of linear scaling that is reached. A finding is worth at most its cost of time, and
 * 100 (ideal / (step - cost) - ideal / step) points of efficiency.
 */
#ifndef LK_PROFILER_ANALYSIS_POOL_H
#define LK_PROFILER_ANALYSIS_POOL_H

#include "base/status.h"
#include "base/table.h"
#include "profiler/analysis/analysis.h"

#include <stdbool.h>
#include <stddef.h>

/* A number over the runs; NaN: not known. */
struct lk_spread {
    double mean, lo, hi;
};

/* The same finding of one or more runs: of one kind, about the same rank or host. */
struct lk_pooled_finding {
    const struct lk_finding *is; /* in the run of which the cost is nearest the mean */
    const struct lk_analysis *of;
    size_t n_runs; /* that have it */
    double cost_s; /* mean over all runs; NaN: not known, or not a matter of time */
    double points; /* of efficiency in percent, at most; NaN: not known */
    int cause;     /* index of the finding that causes it, which stands before it; -1: none */
    int depth;     /* number of causes above it */
};

struct lk_pool {
    const struct lk_analysis *runs; /* n of them; borrowed, outlive this */
    size_t n;
    struct lk_spread step_s, efficiency;
    struct lk_spread losses_s[LK_LOSS_COUNT]; /* but for the ideal, beyond the reference's own */
    struct lk_spread reference_own_s;         /* with the ideal: the step of linear scaling */
    struct lk_pooled_finding *findings;       /* causes by cost, consequences behind their causes */
    size_t n_findings, capacity;
};

/* Return true if two runs are repetitions: all that is known of them but their seeds agrees. */
bool lk_pool_agree(const struct lk_run *a, const struct lk_run *b);
/* Pool n analyses, at least one, of one configuration. */
enum lk_status lk_pool(const struct lk_analysis *runs, size_t n, struct lk_pool *out);
void lk_pool_fini(struct lk_pool *p); /* zeroes it; safe on a zeroed one */

/* Return the loss, other than the ideal, that takes the most time; LK_LOSS_IDEAL: none is known, or
 * none takes any. */
enum lk_loss lk_pool_worst(const struct lk_pool *p);
/* Return true for a finding that makes the runs worthless. */
bool lk_pool_is_grave(const struct lk_pooled_finding *f);
/* Return true if a row of the waterfall is known of these runs; the rest has the others. */
bool lk_pool_knows(const struct lk_pool *p, enum lk_loss loss);

/* Make the table of LK_ANALYSIS_WATERFALL or LK_ANALYSIS_FINDINGS. The caller destroys *out. */
enum lk_status lk_pool_table(const struct lk_pool *p, enum lk_analysis_kind kind,
                             struct lk_table **out);

#endif
