/*
 * Estimate the straggler law from measured compute times: which ranks are slow, the spread of the
 * others, and whether the times have a heavy tail. Times may be in any unit, the same for all:
 * every result but the mean and slowest time of lk_normal_ranks is a ratio.
 */
#ifndef LK_FACTS_STRAGGLER_H
#define LK_FACTS_STRAGGLER_H

#include "base/stats.h"
#include "base/status.h"

#include <stddef.h>

/*
 * The parameters of the law: members of a cluster file, of a fit and of the step model. A
 * micro-batch takes its mean compute time times 1 + the sum of these effects:
 *
 *  - rank_sd, node_sd: sd of the effect of a rank and of a node; normal, drawn once for the run;
 *  - transient_sd, common_sd: sd of the effect of a micro-batch on one rank and on all ranks
 *    together; drawn anew in each micro-batch, as a lognormal factor of mean 1, less 1;
 *  - tail_share, tail_scale, tail_shape: a share of each rank's micro-batches takes longer still,
 *    by an excess from 0 up that follows a generalised Pareto law. tail_scale is its mean; the
 *    law's own scale is (1 - shape) of that.
 *
 * A node's link to the other nodes takes its mean time times 1 + an effect of sd link_sd, normal,
 * drawn once for the run. The slowest node's link sets the pace of every collective between nodes.
 *
 * X(field, text, max, help): each is a ratio, 0 to max; text and help are for output and documents.
 * A machine shared with others has shown an sd over 1.
 */
#define LK_STRAGGLER_LIST(X)                                                                       \
    X(rank_sd, "rank sd", 10, "relative sd of compute between ranks")                              \
    X(node_sd, "node sd", 10, "relative sd of compute between nodes")                              \
    X(link_sd, "link sd", 10, "relative sd of the nodes' link rates")                              \
    X(transient_sd, "transient sd", 10, "relative sd from micro-batch to micro-batch")             \
    X(common_sd, "common sd", 10, "the same of all ranks at once")                                 \
    X(tail_share, "tail share", 1, "share of micro-batches in the heavy tail")                     \
    X(tail_scale, "tail scale", 1000, "mean excess of the tail, over the compute time")            \
    X(tail_shape, "tail shape", 0.9, "shape of the tail's generalised Pareto law")

/* The times of the ranks of normal speed, that is without the slow ones. */
struct lk_normal_ranks {
    double mean;    /* of their times, in the unit of these */
    double slowest; /* the longest of their times */
    double sum_sq;  /* sum over them of (time / mean - 1)^2 */
    size_t n;       /* number of such ranks: the fastest n */
};
/*
 * Find the ranks of normal speed; sorts v, the n ranks' mean times. A rank is slow if it exceeds
 * the mean of the faster ones by 5 % and by 4 sd. The sd combines the faster ranks' spread, pooled
 * with two pseudo-ranks of sd `prior`, and `noise`, the sd of a rank's mean itself; both are
 * relative to the mean. The fastest half is never slow, so that slow ranks do not mask each other.
 * pre: n > 0, all v above 0.
 */
struct lk_normal_ranks lk_straggler_normal_ranks(double *v, size_t n, double prior, double noise);

/*
 * An estimate of each parameter; n is the number of times it is made from. A parameter that the
 * times cannot tell has value 0 and n 0: node_sd and link_sd in every fit.
 *
 * rank_sd, common_sd and transient_sd are two-way variance components (Searle, Casella, McCulloch
 * 1992, ch. 4): what a rank keeps, what all ranks share in a repetition, and the rest.
 *
 * The tail is found by peaks over threshold: residuals around their rank's median beyond 3 sd (the
 * sd by the lower quartile, which a tail does not widen). With 20 of them, and 3 times as many as a
 * normal law has, a generalised Pareto law is fitted by probability-weighted moments (Hosking,
 * Wallis 1987), shape 0 to 0.9, and carried back from the threshold to an excess that begins at 0,
 * which is how the step model adds it; transient_sd is then the sd by the lower quartile. With
 * fewer there is no tail: tail_share.n is 0.
 */
struct lk_straggler_fit {
#define LK_STRAGGLER_FIELD_(field, text, max, help) struct lk_estimate field;
    LK_STRAGGLER_LIST(LK_STRAGGLER_FIELD_)
#undef LK_STRAGGLER_FIELD_
};
/* Fit the law to n repetitions, in which rank r took v[repetition * ranks + r]; 90 % intervals are
 * by a bootstrap over repetitions. The caller leaves out slow ranks first. Fails with LK_ENOMEM
 * alone. pre: n > 1, ranks > 0, all v above 0. */
enum lk_status lk_straggler_fit(const double *v, size_t n, size_t ranks,
                                struct lk_straggler_fit *out);

#endif
