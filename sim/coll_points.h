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

/* A size that takes this much less (ln) than a smaller one: a library does choose what is slow. */
#define LK_COLL_REAL_FALL 0.05

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
    bool derived; /* from another collective's points (sim/coll_derive.h) */
};

struct lk_coll_sets {
    struct lk_coll_set *list;
    size_t n, capacity;
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
/* Adds a derived set; the arrays are copied. */
enum lk_status lk_coll_sets_add(struct lk_coll_sets *s, struct lk_coll_place at,
                                const double *bytes, const double *seconds, const double *sd,
                                size_t n);

/* NULL: no points of exactly that. */
const struct lk_coll_set *lk_coll_sets_find(const struct lk_coll_sets *s, struct lk_coll_place at);

/* Sets of the same kind of place at other rank counts: the nearest, and the nearest on its other
 * side where there is one (else NULL), with the share of the first. */
struct lk_coll_near {
    const struct lk_coll_set *set[2];
    double share;
};

/* Near in ranks by octaves; two nodes are farther from more than that, because libraries treat
 * them apart (NCCL's constants have a column for two). set[0] NULL: none. */
struct lk_coll_near lk_coll_sets_near(const struct lk_coll_sets *s, struct lk_coll_place at);

/* The first point of at least that size, or the last. */
size_t lk_coll_set_at(const struct lk_coll_set *s, double bytes);
/* sd of the points at a size: linear in the logarithm between them, held outside. */
double lk_coll_set_sd(const struct lk_coll_set *s, double bytes);
/* sd of the curve between points: about what those next to the size are off the line of their
 * neighbours. */
double lk_coll_set_between_sd(const struct lk_coll_set *s, double bytes);

#endif
