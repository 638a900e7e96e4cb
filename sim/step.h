/*
 * One configuration's step, ready to be simulated: durations, buckets with their cost, slowdowns
 * and the straggler law. Two ways lead from it to a result: sim/engine.h and sim/closed_form.h.
 *
 * For K ranks, step s, rank r, bucket k (DESIGN: step model):
 *
 *   start(r,s)  = done(r,s-1) + input wait
 *   ready(r,k)  = backward start + the bucket's share of backward, on the last micro-batch with
 *                 no_sync; without it on every one, each ending by waiting for its buckets
 *   arrival     = max(ready(r,k), end(k-1));  begin(k) = max over r of arrival
 *   end(k)      = begin(k) + cost, which advances at 1/(1+delta) while any rank still computes
 *   compute     advances at 1/(1+gamma_wait) from arrival to begin, 1/(1+gamma_wire) from begin to
 *                 end, and at 1/(1+kappa) always
 *   done(r,s)   = max(backward end, end(last)) + optimizer (1+kappa) + host gap
 *   F_r, B_r    = forward and backward times (1 + rank + node + transient + common effect)
 *
 * Time is integer ns: a duration is rounded once, when it enters. A slowdown 1 + g is a whole
 * number of 2^-20, so that work and time convert without rounding twice.
 */
#ifndef LK_SIM_STEP_H
#define LK_SIM_STEP_H

#include "base/forecast.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Relative sd of a rank's compute time, by what it belongs to. Persistent effects are normal,
 * transient and common ones lognormal with mean 0.
 */
struct lk_straggler_law {
    double rank_sd;      /* a rank's, the whole run */
    double node_sd;      /* shared by a node's ranks, the whole run */
    double transient_sd; /* a draw a rank and micro-batch */
    double common_sd;    /* shared by all ranks, a draw a micro-batch */
};

struct lk_step_bucket {
    uint64_t bytes;
    double ready;  /* share of backward done when its last gradient is ready, 0..1 */
    double cost_s; /* of its all-reduce, without delta */
};

struct lk_step_model {
    int ranks, nodes;
    int accumulation; /* micro-batches a step */
    bool no_sync;
    double forward_s, backward_s;  /* a micro-batch */
    double optimizer_s, gap_s;     /* a step */
    double input_s;                /* fixed wait a micro-batch */
    double load_s;                 /* time to prepare a micro-batch; waited for when depth is 0 */
    int prefetch_depth;            /* micro-batches prepared ahead */
    double gamma_wait, gamma_wire; /* see above */
    double delta, kappa;
    struct lk_straggler_law law;
    const double *rank_slowness; /* (optional) known effect of each rank, added; borrowed */
    const struct lk_step_bucket *buckets; /* in the order of their collectives; borrowed */
    size_t n_buckets;
};

struct lk_sim_request {
    int steps;     /* counted ones; LK_SIM_WARMUP go before them */
    uint64_t seed; /* of all draws */
};
enum { LK_SIM_WARMUP = 2 }; /* steady state from step 3 */

struct lk_sim_result {
    double *step_s; /* counted steps, mean over ranks */
    size_t n;
    double mean_s;
    double losses_s[LK_LOSS_COUNT]; /* mean over counted steps and ranks; they sum to mean_s */
};
void lk_sim_result_fini(struct lk_sim_result *r); /* zeroes it; safe on a zeroed result */

/* ---- What both ways share ---- */

/* 1 + g as a multiple of 2^-20. */
enum { LK_SLOW_BITS = 20 };
enum { LK_SLOW_ONE = 1 << LK_SLOW_BITS };

/* ns that work takes, rounded up, and the whole work done in a time: w = work(time(w)). */
uint64_t lk_slow_time_ns(uint64_t work_ns, uint64_t slow);
uint64_t lk_slow_work_ns(uint64_t elapsed_ns, uint64_t slow);

/* The part of backward after which a bucket with this share is full. */
uint64_t lk_step_share_ns(uint64_t backward_ns, double share);

/* The model in ns, with the persistent effects drawn. */
struct lk_step_plan {
    const struct lk_step_model *model; /* borrowed, outlives the plan */
    uint64_t seed;
    uint64_t optimizer_ns, gap_ns, input_ns, load_ns;
    uint64_t slow_wait, slow_wire, slow_delta;
    uint64_t *cost_ns;   /* n_buckets */
    double *ready;       /* n_buckets */
    double *rank_effect; /* ranks */
    bool random;         /* draws a micro-batch are needed */
};
/* LK_EUSAGE names a value out of range. */
enum lk_status lk_step_plan_init(struct lk_step_plan *p, const struct lk_step_model *m,
                                 uint64_t seed);
void lk_step_plan_fini(struct lk_step_plan *p);

/* Compute of a rank's micro-batch (counted from 0 over the whole run), kappa included. */
struct lk_step_compute {
    uint64_t forward_ns, backward_ns;
    uint64_t kappa_ns; /* the part of both that is co-location */
};
struct lk_step_compute lk_step_plan_compute(const struct lk_step_plan *p, int rank,
                                            uint64_t micro_batch);

/* Sums over ranks and steps, in ns, from which the waterfall is made. */
struct lk_step_sums {
    uint64_t compute_ns; /* forward and backward with the rank's effects and kappa */
    uint64_t kappa_ns;
    uint64_t overlap_ns; /* what gamma added to compute */
    uint64_t input_ns;
    uint64_t straggler_ns, wire_ns; /* exposed */
};
/* Fills mean and losses; *out has its step_s. rank_steps: steps times ranks in the sums. */
void lk_step_finish(const struct lk_step_plan *p, const struct lk_step_sums *sums,
                    uint64_t rank_steps, struct lk_sim_result *out);

/*
 * The loader of one rank: with depth d, batch i can be started once batch i - d was taken.
 * `taken` holds the last d times, a ring.
 */
struct lk_step_loader {
    uint64_t done_ns; /* when the loader finished its last batch */
    uint64_t *taken_ns;
};
/* The time at which a rank that asks at now_ns has micro-batch i, and takes it. */
uint64_t lk_step_input_ns(const struct lk_step_plan *p, struct lk_step_loader *l, uint64_t i,
                          uint64_t now_ns);

#endif
