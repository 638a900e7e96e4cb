/*
 * Finds and reads runs. A run is a directory with one trace a rank (rank%d.trace.json.gz); a user
 * may name such a directory or any directory above it, as `lockstep run --scaling` makes them.
 */
#ifndef LK_PROFILER_RUN_SET_H
#define LK_PROFILER_RUN_SET_H

#include "base/status.h"
#include "base/trace.h"
#include "profiler/steps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_run {
    char *dir;
    struct lk_trace *traces; /* by rank, 0 .. n - 1 */
    struct lk_rank_steps *ranks;
    size_t n; /* the world size */
    /*
     * Numbers of the steps that are complete on every rank, with the same collectives, warm-up left
     * out. The i-th transfer of such a step is one collective on all ranks.
     */
    uint32_t *steps;
    size_t n_steps;
    bool truncated; /* some rank did not end by itself */
};

struct lk_run_set {
    struct lk_run *runs; /* by world size, local batch, accumulation, directory */
    size_t n;
};

/*
 * Reads all runs at or below the given directories, each once. A run with a rank missing, or with
 * ranks of different runs, is LK_EPARSE; LK_EIO when there is none. Span files that a killed
 * launcher left behind are made into traces first (profiler/convert.h).
 */
enum lk_status lk_run_set_read(const char *const *paths, size_t n, struct lk_run_set *out);
void lk_run_set_fini(struct lk_run_set *s); /* zeroes it; safe on a zeroed one */

/*
 * Takes over the traces of one run, already in memory (sorted here by rank; the array and what it
 * holds now belong to out, on success only).
 */
enum lk_status lk_run_take(const char *dir, struct lk_trace *traces, size_t n, struct lk_run *out);
void lk_run_fini(struct lk_run *r); /* zeroes it; safe on a zeroed one */

/* What rank 0 says the run was. */
const struct lk_run_info *lk_run_about(const struct lk_run *r);

#endif
