/*
 * The grid of a run: its configurations, their repetitions and results, as the launcher has them.
 * The result of one run is the file result.json, which rank 0 writes for the launcher: losses, step
 * times and estimates.
 */
#ifndef LK_COMMANDS_RUN_GRID_H
#define LK_COMMANDS_RUN_GRID_H

#include "base/member.h"
#include "base/page.h"
#include "base/status.h"
#include "base/table.h"
#include "commands/gpu_state.h"
#include "commands/run_options.h"
#include "facts/config.h"
#include "profiler/analysis/run_set.h"
#include "runtime/train/trainer.h"

#include <stdbool.h>
#include <stddef.h>

/* The files run.json and result.json, for their schemas. */
extern const struct lk_record run_index_record, run_result_record;

/* One configuration to be measured. */
struct run_point {
    struct lk_config config; /* its world size is the ranks; first_bytes is not set */
    bool on_curve;           /* belongs to the scaling curve, not only to the local batches */
};

/* One run of a point. */
struct run_part {
    size_t point;
    int repetition;
    char
        *dir; /* below the run directory: "k2-b4-a1-r0", with several caps "k2-b4-a1-c1048576-r0" */
    bool done;
    struct lk_train_result result; /* when done */
};

struct run_grid {
    struct run_point *points;
    size_t n_points;
    struct run_part *parts; /* in the order in which they run */
    size_t n_parts;
};

/*
 * Plan all points: every --scaling count (weak: the same local batch; strong: the global batch of
 * the smallest count, by accumulation where it does not fit the local batch), each with every
 * accumulation and, on several ranks, every bucket cap of the lists; and every local batch at the
 * smallest count. Repetitions are the outer loop and every second one runs backwards, so
 * that a machine that grows slower does not look like scaling. LK_EUSAGE when a global batch does
 * not divide by the ranks.
 */
enum lk_status run_grid_plan(const struct run_options *o, struct run_grid *out);
void run_grid_fini(struct run_grid *s); /* zeroes it; safe on a zeroed one */

/* Write run.json, the index of the parts that are done. */
enum lk_status run_grid_write_index(const struct run_grid *s, const char *path);

/*
 * Tabulate the summary, one row a point: step time (mean over repetitions of the mean after the
 * warm-up, with a 90 % interval: Student's over the repetitions, or by block bootstrap within a
 * single one), throughput, and efficiency against the curve's smallest number of ranks. What was
 * estimated and verified beside becomes notes of the page. pre: all parts are done.
 */
enum lk_status run_grid_table(const struct run_grid *s, const struct run_options *o,
                              struct lk_page *page, struct lk_table **out);
/* Say what the point of the most ranks reaches, and add all points' numbers as values. t: the table
 * above. */
enum lk_status run_answer(const struct lk_table *t, const struct run_options *o,
                          struct lk_page *page);
/* Note that other work took the processors of a host during the runs, if it did. */
enum lk_status run_note_load(const struct lk_run_set *runs, struct lk_page *page);

/*
 * Write OUT/job.json from `runs`, the recorded runs of all parts, and put the summary on the page.
 * After too few steps there is no job, and the summary has a note. pre: all parts are done; runs is
 * used with options->trace only.
 */
enum lk_status run_finish(const struct run_grid *s, const struct run_options *o,
                          const struct lk_run_set *runs, const char *out, struct lk_page *page);

/* Finish a single run under a foreign launcher, whose traces and result.json are in OUT itself. */
enum lk_status run_finish_single(const struct run_options *o, int ranks,
                                 const struct lk_run_set *runs, const char *out,
                                 struct lk_page *page);

/* Return the samples of a step of a point, mean over its repetitions; of results that do not say
 * it, the configuration's. */
double run_grid_samples(const struct run_grid *s, size_t point);

/* Write result.json. gpu_state is rank 0's; one that was not sampled is left out. */
enum lk_status run_result_write(const char *path, const struct lk_train_result *r,
                                const struct gpu_state *gpu_state);
/* Read it. LK_EIO, LK_EPARSE. *out is written only on success, and freed by lk_train_result_fini.
 */
enum lk_status run_result_read(const char *path, struct lk_train_result *out);

#endif
