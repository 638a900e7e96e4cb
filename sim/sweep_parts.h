/*
 * What configurations of a sweep have in common, each computed once. Private to sim/sweep_model.c,
 * whose header says what the parts are for.
 *
 * What cannot be made has a status, which whoever asks for it gets. Parts are named by an index:
 * they move when another is made.
 */
#ifndef LK_SIM_SWEEP_PARTS_H
#define LK_SIM_SWEEP_PARTS_H

#include "base/status.h"
#include "sim/predictor.h"
#include "sim/slowest.h"

#include <stddef.h>

/* Ranks, caps and scheme, whatever the batch. */
struct lk_sweep_shape {
    struct lk_config key;
    enum lk_status status;
    struct lk_config_model model;
    double *cost; /* each draw's, links included, over the estimate's */
    double link;  /* what the slowest link adds to the estimate's cost */
};

/* One local batch. */
struct lk_sweep_compute {
    int local_batch;
    enum lk_status status;
    struct lk_config_model model; /* of one rank */
    double *factors;              /* each draw's compute over the estimate's */
};

/* The slowest of one shape's ranks, or of many shapes': most differ in their collectives alone. */
struct lk_sweep_straggler {
    struct lk_step_model of; /* ranks, nodes, law and what is known; borrows from a shape's */
    int micro_batches;
    struct lk_slowest slowest;
    double *effect; /* each draw's */
};

struct lk_sweep_parts {
    struct lk_predictor *p; /* borrowed */
    size_t n_draws;
    struct lk_world *worlds;
    /* Each draw's probability of a faster slowest: of ranks, of links and of links apart. */
    double *rank_share, *link_share, *link_apart;
    struct lk_sweep_shape *shapes;
    size_t n_shapes, shapes_capacity;
    struct lk_sweep_compute *computes;
    size_t n_computes, computes_capacity;
    struct lk_sweep_straggler *stragglers;
    size_t n_stragglers, stragglers_capacity;
};

/* To be ended by fini, after an error, too. */
enum lk_status lk_sweep_parts_init(struct lk_sweep_parts *all, struct lk_predictor *p);
void lk_sweep_parts_fini(struct lk_sweep_parts *all); /* safe on a zeroed one */

enum lk_status lk_sweep_shape_of(struct lk_sweep_parts *all, const struct lk_config *c,
                                 size_t *out);
enum lk_status lk_sweep_compute_of(struct lk_sweep_parts *all, int local_batch, size_t *out);
/* The slowest of so many micro-batches' sum. */
enum lk_status lk_sweep_straggler_of(struct lk_sweep_parts *all, const struct lk_step_model *of,
                                     int micro_batches, size_t *out);

#endif
