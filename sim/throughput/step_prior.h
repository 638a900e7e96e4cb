/*
 * The prior of a step of which only gradients and machine are known: the step model
 * (sim/step/step.h) with its unknowns drawn from priors. A draw gives the step's length for any
 * compute time; sim/throughput/throughput_fit.h finds the compute time from measured throughputs,
 * and which draws explain them.
 *
 * Buckets follow PyTorch's rule, collectives the cluster's cost model, each draw with another draw
 * of that model. One rank stands for all: the slowest of K, at 1 + rank sd x E max of K normals.
 *
 * X(unknown, text): each is a function of its own standard normal number; step_prior.c has the
 * functions. ln: lognormal.
 */
#ifndef LK_SIM_THROUGHPUT_STEP_PRIOR_H
#define LK_SIM_THROUGHPUT_STEP_PRIOR_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "sim/step/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_STEP_UNKNOWNS(X)                                                                        \
    X(BACKWARD, "backward's share of compute: 2/3 by multiplications, sd 0.04; the job's, 0.01")   \
    X(FIXED, "optimizer and host, of a rank's micro-batch: ln 0.03, sd 0.7; the job's, 0.2")       \
    X(WARP, "ready times are shares^warp of the list's: ln 1, sd 0.3; 0.1 where they were given")  \
    X(OVERLAP, "no overlap at all, as with delay_allreduce or a sum at the end: 12 %")             \
    X(RATE, "collectives in training over the cost model's: ln 1, sd 0.08; preset 0.25")           \
    X(GROWTH, "the same, a doubling of the ranks from two on: ln 1, sd 0.05")                      \
    X(GAMMA, "compute slows under collectives: sim/step/overlap.h")                                \
    X(DELTA, "collectives slow under compute: sim/step/overlap.h")                                 \
    X(RANK, "sd of ranks' steady pace: ln 0.008, sd 0.6")                                          \
    X(NICS, "a preset's network cards: all with 1/2, else equally a half, a quarter, ... or one")  \
    X(ACHIEVED, "rate between a preset's nodes over the cost model's: exp(-|normal|), sd 0.25")

enum lk_step_unknown {
#define LK_STEP_UNKNOWN_ENUM_(unknown, what) LK_STEP_##unknown##_,
    LK_STEP_UNKNOWNS(LK_STEP_UNKNOWN_ENUM_)
#undef LK_STEP_UNKNOWN_ENUM_
        LK_STEP_UNKNOWN_COUNT
};

struct lk_step_prior;

/*
 * Make the prior. Gradients, bucket settings and, where the job has them, the times of forward,
 * backward and optimizer are read; timed: its ready times were measured or given. Job and cluster
 * are borrowed and outlive the prior. The cluster's count of nodes is no limit. draws: 2 or more.
 */
enum lk_status lk_step_prior_create(const struct lk_job *job, bool timed,
                                    const struct lk_cluster *cluster, size_t draws, uint64_t seed,
                                    struct lk_step_prior **out);
void lk_step_prior_destroy(struct lk_step_prior *p); /* NULL is legal */
/* Return the job if it has times of compute; NULL: it has none. */
const struct lk_job *lk_step_prior_compute(const struct lk_step_prior *p);
size_t lk_step_prior_draws(const struct lk_step_prior *p);
const struct lk_cluster *lk_step_prior_cluster(const struct lk_step_prior *p);

/* Makes the collectives and costs of a configuration's shape (all but its local batch), once; *out
 * is its number. Without bucket limits (0) it has the job's. LK_EEVIDENCE: the cluster cannot
 * say what they cost. */
enum lk_status lk_step_prior_shape(struct lk_step_prior *p, const struct lk_config *config,
                                   size_t *out);
/* Return the grade of a shape's costs. */
void lk_step_prior_grade(const struct lk_step_prior *p, size_t shape, enum lk_evidence *out,
                         char *text, size_t text_size);

/* Return the seconds that a shape's collectives move bytes in a step of a draw, hidden or not.
 * slower: as below. */
double lk_step_prior_wire_s(struct lk_step_prior *p, size_t draw, size_t shape, double slower);

/* Return the least seconds that the links need for a shape's collectives. */
double lk_step_prior_bound_s(const struct lk_step_prior *p, size_t shape);

/*
 * Compute the seconds of a step in a draw. slower: its collectives take so many times as long as
 * the draw says, 1 where nothing is wrong. compute_s: forward and backward of a micro-batch on one
 * rank alone; 0 leaves communication and the fixed cost. usual_s: the compute at the reference
 * batch, from which the fixed cost is scaled. losses_s: LK_LOSS_COUNT numbers, added to; may be
 * NULL.
 */
enum lk_status lk_step_prior_step_s(struct lk_step_prior *p, size_t draw, size_t shape,
                                    double slower, double compute_s, double usual_s,
                                    double *losses_s, double *out_s);

#endif
