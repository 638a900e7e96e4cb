/* lockstep calibrate: what its files share. */
#ifndef LK_COMMANDS_CALIBRATE_H
#define LK_COMMANDS_CALIBRATE_H

#include "base/cluster.h"
#include "base/coll.h"
#include "base/option.h"
#include "base/status.h"
#include "runtime/launch.h"
#include "runtime/sweep.h"

#include <stdbool.h>
#include <stdint.h>

struct calibrate_options {
    struct lk_ints ranks;
    const char *collectives, *algorithms; /* comma-separated names */
    struct lk_sizes sizes;
    int64_t repetitions, warmup;
    double budget_s;
    bool colocation, overlap;
    uint64_t overlap_bytes;
    const char *out, *name;
    bool pin;
    double timeout_s;
    int format;
    const char *log;
};

/* The names in the options. */
struct calibrate_plan {
    enum lk_coll colls[LK_COLL_COUNT];
    size_t n_colls;
    enum lk_algo algos[LK_ALGO_COUNT];
    size_t n_algos;
};
/* LK_EUSAGE names the word that is unknown. */
enum lk_status calibrate_plan(const struct calibrate_options *o, struct calibrate_plan *out);

/* Set by our launcher: the file that rank 0 writes its part of the cluster to. */
#define CALIBRATE_PART_ENV "LOCKSTEP_CALIBRATE_PART"
/* Set by it where ranks outnumber the CPUs: the overlap probe would measure co-location. */
#define CALIBRATE_NO_OVERLAP_ENV "LOCKSTEP_CALIBRATE_NO_OVERLAP"

/*
 * Measures as one rank. On rank 0 *out is the part of the cluster that this number of ranks shows:
 * points, co-location, overlap and straggler law, no fits; elsewhere it is empty.
 * LK_EREPORTED: our launcher has the text.
 */
enum lk_status calibrate_rank(const struct calibrate_options *o, const struct lk_rank_env *env,
                              struct lk_cluster *out);

/* ---- From samples to the cluster's numbers (calibrate_points.c) ---- */

/* Medians of the rows as points; `nodes` of them all. */
enum lk_status calibrate_add_points(const struct lk_sweep_rows *rows, int nodes,
                                    struct lk_cluster *c);
/* kappa at this many ranks, and the spread of the ranks' times as the straggler law. */
enum lk_status calibrate_add_colocation(const struct lk_sweep_colocation *s, int ranks_per_node,
                                        struct lk_cluster *c);
enum lk_status calibrate_add_overlap(const struct lk_sweep_overlap *s, int ranks,
                                     struct lk_cluster *c);
/*
 * Moves what `part` has into `c`: points and kappas are appended; of the rest c keeps what it has.
 * part is empty then.
 */
enum lk_status calibrate_merge(struct lk_cluster *c, struct lk_cluster *part);

#endif
