/*
 * The measured points of a cluster form sets of one key (collective, algorithm, ranks, nodes).
 * Each set has a monotone curve over bytes (sim/collective/loglog_curve.h) and an estimate of its
 * own error.
 */
#ifndef LK_SIM_COLL_POINTS_H
#define LK_SIM_COLL_POINTS_H

#include "base/status.h"
#include "facts/cluster.h"
#include "sim/collective/loglog_curve.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * A time that is smaller by this much (ln) than that of a smaller size is no noise: libraries do
 * choose slow algorithms.
 */
#define LK_COLL_REAL_FALL 0.05

/* The key of a cost is everything but the size. */
struct lk_coll_key {
    enum lk_coll coll;
    enum lk_algo algo;
    int ranks, nodes;
};
bool lk_coll_key_equal(struct lk_coll_key a, struct lk_coll_key b);
/*
 * Set the next smaller collective that must not take longer: on the next smaller power of two of
 * nodes, or inside a node of ranks, at last 2. A node with NVLS is left as it is, since 8 GPUs that
 * sum in the switch are faster than 4 in a ring. Return false if there is none.
 */
bool lk_coll_key_fewer(struct lk_coll_key *at, bool nvls);

struct lk_coll_set {
    struct lk_coll_key at;
    size_t n;
    double *bytes, *seconds, *sd; /* bytes ascending; sd of the logarithm */
    double *behind; /* how much more a collective takes right behind another, relatively: 0 or more,
                       0 where that was not measured */
    struct lk_loglog_curve curve;
    bool derived; /* from an all-reduce's points (coll_model.h) */
};

struct lk_coll_sets {
    struct lk_coll_set *list;
    size_t n, capacity;
};

/*
 * Collect the sets of c's points. The step model needs points timed alone, since its collectives
 * begin when the last rank arrives; a set that has only back-to-back points (nccl-tests) takes
 * these. A set that has both has their ratio, since a collective that waits for the one before it
 * takes what a call of a burst does: links and ranks are still busy with that one. Of several
 * points of one size the median counts, and how far they lie apart widens its interval. Each point
 * is moved by `shift` of its own standard deviations.
 */
enum lk_status lk_coll_sets_init(struct lk_coll_sets *s, const struct lk_cluster *c, double shift);
void lk_coll_sets_fini(struct lk_coll_sets *s);
/* Add a derived set of the sizes of `like`, which has seconds and sd for each; they are copied. */
enum lk_status lk_coll_sets_add(struct lk_coll_sets *s, struct lk_coll_key at,
                                const struct lk_coll_set *like, const double *seconds,
                                const double *sd);

/* Return the set of this key; NULL if there is none. */
const struct lk_coll_set *lk_coll_sets_find(const struct lk_coll_sets *s, struct lk_coll_key at);

/*
 * The nearest sets of the same layout at other rank counts: the nearest, the nearest on the other
 * side of the rank count (NULL if there is none), and the weight of the first.
 */
struct lk_coll_near {
    const struct lk_coll_set *set[2];
    double share;
};

/*
 * Find the nearest sets by octaves of ranks; set[0] is NULL if there is none. Two nodes are
 * farther from other node counts, because libraries treat two apart (NCCL's constants have a
 * column for two).
 */
struct lk_coll_near lk_coll_sets_near(const struct lk_coll_sets *s, struct lk_coll_key at);

/* Return the index of the first point of at least that size, or of the last point. */
size_t lk_coll_set_at(const struct lk_coll_set *s, double bytes);
/*
 * Return the sd of the points at a size: linear in the logarithm between points, constant outside.
 */
double lk_coll_set_sd(const struct lk_coll_set *s, double bytes);
/* Return `behind` at a size, likewise. */
double lk_coll_set_behind(const struct lk_coll_set *s, double bytes);
/*
 * Return the sd of the curve between points: about as much as the points next to the size lie off
 * the line between their neighbours.
 */
double lk_coll_set_between_sd(const struct lk_coll_set *s, double bytes);

/* Return the slope at point i in logarithms, 0 to 1, which is the share of its time that bytes
 * take. */
double lk_coll_set_slope(const struct lk_coll_set *s, size_t i);
/*
 * Make a copy of a set without odd sizes: one that takes longer than the next larger size gets the
 * median misfit of itself and its two neighbours. misfit has s->n elements, ln of the measured time
 * over a model's. So a slow algorithm that several sizes have stays, and one row that a disturbance
 * or a single cliff made slow does not travel to other rank counts. Call lk_coll_set_fini.
 */
enum lk_status lk_coll_set_typical(const struct lk_coll_set *s, const double *misfit,
                                   struct lk_coll_set *out);
void lk_coll_set_fini(struct lk_coll_set *s); /* safe on a zeroed set */

#endif
