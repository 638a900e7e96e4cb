/*
 * The measured points of a cluster, in sets of one collective, algorithm and place: a monotone
 * curve over bytes each (sim/curve.h), with what its points say of its own error.
 */
#ifndef LK_SIM_COLL_POINTS_H
#define LK_SIM_COLL_POINTS_H

#include "base/cluster.h"
#include "base/status.h"
#include "sim/curve.h"

#include <stdbool.h>
#include <stddef.h>

/* A 90 % interval of a normal distribution is this many standard deviations to each side. */
#define LK_Z90 1.6448536269514722

/* What a cost is asked for, but the size. */
struct lk_coll_place {
    enum lk_coll coll;
    enum lk_algo algo;
    int ranks, nodes;
};

struct lk_coll_set {
    struct lk_coll_place at;
    size_t n;
    double *bytes, *seconds, *sd; /* bytes ascending; sd of the logarithm */
    struct lk_curve curve;
};

struct lk_coll_sets {
    struct lk_coll_set *list;
    size_t n;
};

/* Relative sd of a quantity from its interval; 0 when that is unknown. */
double lk_coll_log_sd(const struct lk_quantity *q);

/*
 * The sets of c's points. Points timed alone are the ones that match the step model, in which a
 * collective begins when the last rank arrives; where a set has only back-to-back ones
 * (nccl-tests), they are taken. Several of one size are averaged in the logarithm. Each is moved by
 * `shift` standard deviations of its own.
 */
enum lk_status lk_coll_sets_init(struct lk_coll_sets *s, const struct lk_cluster *c, double shift);
void lk_coll_sets_fini(struct lk_coll_sets *s);

/* NULL: no points of exactly that. */
const struct lk_coll_set *lk_coll_sets_find(const struct lk_coll_sets *s, struct lk_coll_place at);

/* The set nearest in ranks, of the same kind of place; *out_inside: between two such. */
const struct lk_coll_set *lk_coll_sets_nearest(const struct lk_coll_sets *s,
                                               struct lk_coll_place at, bool *out_inside);

/* sd of the points at a size: linear in the logarithm between them, held outside. */
double lk_coll_set_sd(const struct lk_coll_set *s, double bytes);
/* sd of the curve between points: about what those next to the size are off the line of their
 * neighbours. */
double lk_coll_set_between_sd(const struct lk_coll_set *s, double bytes);

#endif
