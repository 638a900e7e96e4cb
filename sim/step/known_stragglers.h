/*
 * Known stragglers are ranks and nodes whose compute is slow: those that the cluster file lists
 * (stragglers.known) and those that the job's runs show. A rank is the same device at every world
 * size, so what four ranks show of rank 3 holds at eight; the spread of the others is estimated
 * without it. sim/collective/links.h has the slow links.
 *
 * A rank is slow if its compute is an outlier (facts/straggler.h) in more than half of its runs.
 */
#ifndef LK_SIM_KNOWN_STRAGGLERS_H
#define LK_SIM_KNOWN_STRAGGLERS_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/job.h"

#include <stdbool.h>
#include <stddef.h>

struct lk_known_stragglers {
    const struct lk_job *job; /* both borrowed, outlive it */
    const struct lk_cluster *cluster;
    struct lk_cluster_slow *list; /* the file's entries, whose sources are borrowed; then found */
    size_t n, n_file;
    double rank_sd; /* of the ranks that are not slow, in the runs with several; NaN: none */
    double node_sd; /* of their nodes; NaN: no run has several nodes of several ranks */
};

enum lk_status lk_known_stragglers_init(struct lk_known_stragglers *s, const struct lk_job *j,
                                        const struct lk_cluster *c);
void lk_known_stragglers_fini(struct lk_known_stragglers *s); /* zeroes it; safe on a zeroed one */

/*
 * Return the compute time of a rank (or of the ranks of a node) over that of the ranks that are not
 * slow, from its own entry; NaN: there is none. If `then`, ignore entries marked `since`: they were
 * not yet slow when job and points were measured.
 */
double lk_known_straggler_rank(const struct lk_known_stragglers *s, int rank, bool then);
double lk_known_straggler_node(const struct lk_known_stragglers *s, int node, bool then);
/* Return the factor by which slow ranks lengthen the job's compute times at a local batch: the mean
 * over the ranks that they were measured on, over that of the ranks that are not slow. */
double lk_known_stragglers_reference(const struct lk_known_stragglers *s, int local_batch);

#endif
