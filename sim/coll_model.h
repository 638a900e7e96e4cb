/*
 * A cluster's model of collectives, for what was not measured: NCCL's with factors refitted to the
 * cluster's points (sim/nccl_fit.h), where the file has compute capability and kind of GPU link;
 * else, and for what NCCL does not have, alpha-beta with the cluster's fits or its links' datasheet
 * numbers (sim/coll_formula.h). Never faster than the links (sim/coll_floor.h).
 */
#ifndef LK_SIM_COLL_MODEL_H
#define LK_SIM_COLL_MODEL_H

#include "base/rng.h"
#include "sim/coll_floor.h"
#include "sim/coll_points.h"

/* Of a draw, in standard deviations; the same for all that it moves. Zeros: the estimates. */
struct lk_coll_shifts {
    double time, rate, error;
};

struct lk_coll_modelled {
    double seconds; /* NaN: nothing is known */
    double error;   /* relative, of the constants */
    bool fitted;    /* to points of this machine, not from a datasheet */
    bool is_ring;   /* by alpha-beta of a ring, all over one kind of link at its full rate */
};

struct lk_coll_model;
struct lk_nccl_factors;

/*
 * c: with fits. sets: its points. prior: LK_NCCL_PLACE_COUNT rows, or NULL for sim/nccl_prior.c's.
 * draw NULL: the estimates. Neither is kept.
 */
enum lk_status lk_coll_model_create(const struct lk_cluster *c, const struct lk_coll_sets *sets,
                                    const struct lk_nccl_factors *prior, struct lk_coll_shifts by,
                                    struct lk_rng *draw, struct lk_coll_model **out);
void lk_coll_model_destroy(struct lk_coll_model *m); /* NULL is legal */

/* By one algorithm or, for AUTO, the fastest known. pre: at.ranks > 1. */
struct lk_coll_modelled lk_coll_model_at(const struct lk_coll_model *m, struct lk_coll_place at,
                                         double bytes);
/*
 * What `from` measured, carried to another rank count: by NCCL's model (sim/nccl_carry.h), else by
 * the ratio of the model at each size. sd: of the logarithm, from the model and every doubling of
 * ranks, and from doubt about the regime. seconds, sd: from->n; NaN: the model does not know.
 */
enum lk_status lk_coll_model_carry(const struct lk_coll_model *m, const struct lk_coll_set *from,
                                   struct lk_coll_place at, double *seconds, double *sd);
/* Whether NCCL's model says what it takes there, and not alpha-beta. */
bool lk_coll_model_by_nccl(const struct lk_coll_model *m, struct lk_coll_place at);
/* Of a draw, in standard deviations: by how much what the model says is off; 0: the estimates. */
double lk_coll_model_shift(const struct lk_coll_model *m);
/* Seconds that the links allow at least; `best`: by the upper end of their rates. */
double lk_coll_model_floor_s(const struct lk_coll_model *m, struct lk_coll_place at, double bytes,
                             bool best);

#endif
