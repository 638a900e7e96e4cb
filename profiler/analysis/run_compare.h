/* Compare runs by the steps of their traces: step times of configurations that both have, and the
 * parts of a step that differ. */
#ifndef LK_PROFILER_ANALYSIS_RUN_COMPARE_H
#define LK_PROFILER_ANALYSIS_RUN_COMPARE_H

#include "base/status.h"
#include "facts/compare.h"
#include "profiler/analysis/run_set.h"

#include <stddef.h>

/* X(part, name): what a step's time goes to; exposed: not covered by the rank's own compute. */
#define LK_RUN_PART_LIST(X)                                                                        \
    X(LK_RUN_COMPUTE, "forward and backward")                                                      \
    X(LK_RUN_OPTIMIZER, "the optimizer")                                                           \
    X(LK_RUN_COMMUNICATION, "exposed communication")                                               \
    X(LK_RUN_INPUT, "waiting for input")                                                           \
    X(LK_RUN_GAP, "gaps of the host")

enum lk_run_part { LK_RUN_PART_LIST(LK_WORD_VALUE) LK_RUN_PART_COUNT };
extern const struct lk_words lk_run_part_words;

/* The runs of one configuration on both sides. */
struct lk_run_pair {
    size_t n_a, n_b; /* repetitions */
    int world_size, local_batch;
    double a_s[LK_RUN_PART_COUNT], b_s[LK_RUN_PART_COUNT]; /* mean over ranks; NaN: not known */
};

struct lk_run_comparison {
    struct lk_comparison points;
    struct lk_run_pair *pairs; /* by row of the points */
    size_t capacity;
};

/*
 * Compare all configurations that both sets have. The interval of a ratio is Welch's over the
 * repetitions; where a side has only one, it is that of both intervals by block bootstrap over the
 * steps, which does not know how much repetitions differ.
 */
enum lk_status lk_compare_runs(const struct lk_run_set *a, const struct lk_run_set *b,
                               struct lk_run_comparison *out);
/* Tabulate the parts of the steps; the caller destroys *out. */
enum lk_status lk_run_parts_table(const struct lk_run_comparison *c, struct lk_table **out);
void lk_run_comparison_fini(struct lk_run_comparison *c); /* zeroes it; safe on a zeroed one */

#endif
