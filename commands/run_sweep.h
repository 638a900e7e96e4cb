/* The points of a run, their repetitions, and what came out: the launcher's side of `run`. */
#ifndef LK_COMMANDS_RUN_SWEEP_H
#define LK_COMMANDS_RUN_SWEEP_H

#include "base/status.h"
#include "base/table.h"
#include "commands/run_options.h"
#include "runtime/trainer.h"

#include <stdbool.h>
#include <stddef.h>

/* One configuration to be measured. */
struct run_point {
    int ranks, local_batch, accumulation;
    bool on_curve; /* belongs to the scaling curve, not only to the local batches */
};

/* One run of a point. */
struct run_part {
    size_t point;
    int repetition;
    char *dir; /* below the run directory: "k2-b4-a1-r0" */
    bool done;
    struct lk_train_result result; /* when done */
};

struct run_sweep {
    struct run_point *points;
    size_t n_points;
    struct run_part *parts; /* in the order in which they run */
    size_t n_parts;
};

/*
 * All points: every --scaling count (weak: the same local batch; strong: the global batch of the
 * smallest count, by accumulation where it does not fit the local batch), and every local batch at
 * the smallest count. Repetitions are the outer loop and every second one runs backwards, so that a
 * machine that grows slower does not look like scaling. LK_EUSAGE when a global batch does not
 * divide by the ranks.
 */
enum lk_status run_sweep_plan(const struct run_options *o, struct run_sweep *out);
void run_sweep_fini(struct run_sweep *s);

/* run.json: the parts that are done. */
enum lk_status run_sweep_write_index(const struct run_sweep *s, const char *path);

/*
 * The summary, one row a point: step time (mean over repetitions of the mean after the warm-up,
 * with a 90 % interval: Student's over the repetitions, or by block bootstrap within a single one),
 * throughput, and efficiency against the curve's smallest number of ranks.
 * pre: all parts are done.
 */
enum lk_status run_sweep_table(const struct run_sweep *s, const struct run_options *o,
                               struct lk_table **out);

#endif
