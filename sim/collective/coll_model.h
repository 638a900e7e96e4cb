/*
 * A collective model gives the times that were not measured on a cluster. If the file has compute
 * capability and kind of GPU link, it is NCCL's model with factors refitted to the cluster's
 * points (sim/collective/nccl_fit.h). Otherwise, and for what NCCL does not have, it is alpha-beta
 * with the cluster's fits or its links' datasheet numbers (sim/collective/alpha_beta.h). It is
 * never faster than the links (sim/collective/links.h).
 */
#ifndef LK_SIM_COLL_MODEL_H
#define LK_SIM_COLL_MODEL_H

#include "base/rng.h"
#include "sim/collective/alpha_beta.h"
#include "sim/collective/coll_points.h"
#include "sim/collective/links.h"

struct lk_coll_modelled {
    double seconds; /* NaN: the model does not apply */
    double error;   /* relative, of the constants */
    bool fitted;    /* to points of this machine, not from a datasheet */
    bool is_ring;   /* alpha-beta of a ring, at its links' full rate */
};

struct lk_coll_model;
struct lk_nccl_factors;

/*
 * Compile the model of a cluster with fits (c) and of its points (sets). `prior` has
 * LK_NCCL_FABRIC_COUNT rows; NULL takes those of nccl_fit.c. draw NULL gives the estimates. c and
 * prior are not kept, sets must outlive the model.
 */
enum lk_status lk_coll_model_create(const struct lk_cluster *c, const struct lk_coll_sets *sets,
                                    const struct lk_nccl_factors *prior, struct lk_coll_shifts by,
                                    struct lk_rng *draw, struct lk_coll_model **out);
void lk_coll_model_destroy(struct lk_coll_model *m); /* NULL is legal */

/* Return the time by one algorithm or, for AUTO, by the fastest known. pre: at.ranks > 1. */
struct lk_coll_modelled lk_coll_model_at(const struct lk_coll_model *m, struct lk_coll_key at,
                                         double bytes);
/*
 * Rescale the times of `from` to another rank count, by NCCL's model
 * (sim/collective/nccl_fit.h) or else by the ratio of the model's times at each size. sd is of
 * the logarithm; it grows with every doubling of the ranks, by NCCL's model to that of the
 * datasheet alone, and with doubt about the regime. seconds and sd have from->n elements, NaN where
 * the model does not apply.
 */
enum lk_status lk_coll_model_rescale(const struct lk_coll_model *m, const struct lk_coll_set *from,
                                     struct lk_coll_key at, double *seconds, double *sd);
/*
 * Return the time at any size of a set that was measured or rescaled: between its sizes its curve,
 * outside them the model moved to meet the curve at the nearest size. error is of the logarithm,
 * beside that of the set's points; it grows from 0 with the distance in bytes. Where no model
 * applies, the time is flat below the sizes and proportional to bytes above.
 */
struct lk_coll_modelled lk_coll_model_of_set(const struct lk_coll_model *m,
                                             const struct lk_coll_set *s, double bytes);
/*
 * Return how many times as long a collective takes by NCCL's choice as by the one that it makes on
 * the links of `like`, the same machine with others; 1 where NCCL's model does not apply. Better
 * links alone make it no longer, so a factor above 1 is what the choice costs. text (64 bytes) is
 * both choices in words: "tree LL instead of ring Simple".
 */
double lk_coll_model_choice(const struct lk_coll_model *m, const struct lk_coll_model *like,
                            struct lk_coll_key at, double bytes, char *text);
/* Return the least seconds that the links allow; `best` takes the upper end of their rates. */
double lk_coll_model_bound_s(const struct lk_coll_model *m, struct lk_coll_key at, double bytes,
                             bool best);

/* Return true if the measured times of `from`, all-reduces, tell those of another collective, which
 * was not measured: alpha-beta alone models them, since NCCL's model relates its collectives
 * itself.
 */
bool lk_coll_model_derives(const struct lk_coll_model *m, struct lk_coll_key from,
                           enum lk_coll coll);

#endif
