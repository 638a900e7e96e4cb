/*
 * Ranks, nodes and links that are known to be slow: those of the cluster file (stragglers.known),
 * and ranks that the job's runs showed to be. A rank is the same device at every size, so what four
 * ranks showed of rank 3 holds at eight; the spread of the others is estimated without it.
 *
 * A rank was found slow when its compute stands out (base/straggler.h) in more than half of the
 * runs that had it.
 */
#ifndef LK_SIM_SLOW_H
#define LK_SIM_SLOW_H

#include "base/cluster.h"
#include "base/job.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct lk_slow {
    const struct lk_job *job; /* both borrowed, outlive it */
    const struct lk_cluster *cluster;
    struct lk_cluster_slow *list; /* the file's entries, whose sources are borrowed; then found */
    size_t n, n_file;
    double rank_sd; /* of the ranks that are not slow, in the runs with several; NaN: none */
    double node_sd; /* of their nodes; NaN: no run has several nodes of several ranks */
};

enum lk_status lk_slow_init(struct lk_slow *s, const struct lk_job *j, const struct lk_cluster *c);
void lk_slow_fini(struct lk_slow *s); /* zeroes it; safe on a zeroed one */

/*
 * Compute of a rank (of its own entry, else of its node's) over the common pace; NaN: not known.
 * then: as it was when job and points were measured, without what is so since.
 */
double lk_slow_rank(const struct lk_slow *s, int rank, bool then);
double lk_slow_node(const struct lk_slow *s, int node, bool then);
/* What the job's compute times at a local batch contain of it: the mean over the ranks that they
 * were measured on, over the common pace. */
double lk_slow_reference(const struct lk_slow *s, int local_batch);

/* The node of an entry. */
int lk_slow_node_of(const struct lk_cluster *c, const struct lk_cluster_slow *e);
/* A link's time over the others'; NaN: not known. */
double lk_slow_link(const struct lk_cluster *c, int node, bool then);
/* The slowest of the first `nodes` nodes' links: 1 or more, unless all are known to be faster. */
double lk_slow_links(const struct lk_cluster *c, int nodes, bool then);
/* The nodes of the measured points between nodes that are nearest to so many; 0: there are none. */
int lk_slow_measured_nodes(const struct lk_cluster *c, int nodes);

#endif
