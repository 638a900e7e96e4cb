/*
 * Find and read runs. A run is a directory with one trace a rank (rank%d.trace.json.gz); a user may
 * name such a directory or any directory above it, as `lockstep run --scaling` makes them.
 */
#ifndef LK_PROFILER_ANALYSIS_RUN_SET_H
#define LK_PROFILER_ANALYSIS_RUN_SET_H

#include "base/status.h"
#include "facts/trace.h"
#include "profiler/analysis/steps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_convert_summary {
    size_t n_ranks;     /* converted */
    size_t n_truncated; /* ranks among these that did not end normally */
    uint64_t n_spans;
    uint64_t dropped; /* spans lost to full rings */
};

/*
 * Convert every DIR/rank*.spans to DIR/rank%d.trace.json.gz and then remove the span files. merged:
 * also write all of them, on rank 0's clock, into DIR/merged.trace.json.gz (if rank 0 is there): as
 * much again, and one file for all ranks, of which a thousand are more than a viewer takes. A rank
 * on rank 0's host without clock samples shares its clock; on another host the wall clocks are
 * compared, and the uncertainty stays unknown.
 *
 * A file that cannot be read is kept and does not prevent the conversion of the others; the first
 * such failure is returned in the end. LK_EIO when there is no span file. out may be NULL, and is
 * written also on failure.
 */
enum lk_status lk_convert_run(const char *dir, bool merged, struct lk_convert_summary *out);

/* Align the ranks that have no clock samples with rank 0, by host and wall clock. pre: by rank. */
void lk_traces_align(struct lk_trace *traces, size_t n);

struct lk_run {
    char *dir;
    struct lk_trace *traces; /* by rank */
    struct lk_rank_steps *ranks;
    size_t n; /* of the ranks that are there: the world size, but of imported runs maybe fewer */
    /*
     * The steps that are complete on every rank, with the same collectives, after the warm-up. The
     * i-th collective of such a step is the same one on all ranks.
     */
    uint32_t *timed;
    size_t n_timed;
    /*
     * Those of them that are split into parts. Kernels tell what of a range is work and when a
     * collective began; where they are known for some steps only, as of a GPU, these are taken.
     */
    uint32_t *steps;
    size_t n_steps;
    bool truncated; /* some rank did not end normally */
};

struct lk_run_set {
    struct lk_run *runs; /* by world size, local batch, accumulation, directory */
    size_t n;
};

/*
 * Read all runs at or below the given directories, each once. LK_EPARSE for a run with a rank
 * missing, or with ranks of different runs; LK_EIO when there is none. Span files left behind by a
 * killed launcher are converted to traces first (lk_convert_run).
 */
enum lk_status lk_run_set_read(const char *const *paths, size_t n, struct lk_run_set *out);
/*
 * Make traces from the span files of a run (lk_convert_run) and add the run to the set from memory:
 * the same as if the files that it writes were read back. summary may be NULL.
 */
enum lk_status lk_run_set_convert(struct lk_run_set *s, const char *dir, bool merged,
                                  struct lk_convert_summary *summary);
void lk_run_set_fini(struct lk_run_set *s); /* zeroes it; safe on a zeroed one */

/*
 * Make a run of traces already in memory (sorted here by rank; on success out owns the array and
 * its contents).
 */
enum lk_status lk_run_take(const char *dir, struct lk_trace *traces, size_t n, struct lk_run *out);
void lk_run_fini(struct lk_run *r); /* zeroes it; safe on a zeroed one */

/* Return the first rank's description of the run. */
const struct lk_run_info *lk_run_about(const struct lk_run *r);
/* Return the number of the rank at an index, and of all ranks, those that are not there included.
 */
int lk_run_rank(const struct lk_run *r, size_t index);
int lk_run_world_size(const struct lk_run *r);
/* Return how an importer found the steps that nobody marked ("periods of 5 collectives"): their
 * forward, backward and optimizer are not known. NULL: the steps are marked. Borrowed. */
const char *lk_run_periods(const struct lk_run *r);
/* Return false if no rank's own work is known: nobody marked it, and no GPU recorded it. Time
 * outside of collectives is then computation or idling of the host, not told apart. */
bool lk_run_has_compute(const struct lk_run *r);
/* Return true for an imported run with collectives of some of its ranks: whom they wait for is not
 * known. */
bool lk_run_is_grouped(const struct lk_run *r);
/* Return how many ranks reduce each gradient: all, but in a grouped run. */
int lk_run_gradient_ranks(const struct lk_run *r);

#endif
