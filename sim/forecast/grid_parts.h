/*
 * The parts that the configurations of a grid share, each computed once: the network's shape, the
 * compute of a local batch, the slowest rank. sim/forecast/grid_model.h puts them together.
 */
#ifndef LK_SIM_FORECAST_GRID_PARTS_H
#define LK_SIM_FORECAST_GRID_PARTS_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/config.h"
#include "facts/job.h"
#include "sim/collective/coll_cost.h"
#include "sim/step/config.h"
#include "sim/step/straggler_max.h"

#include <stddef.h>
#include <stdint.h>

/* The part of a configuration's forecast that ranks, caps and scheme give, whatever the batch. */
struct lk_grid_shape {
    struct lk_config key;
    enum lk_status status; /* not LK_OK: it cannot be made, as for the parts below */
    struct lk_config_model model;
    /* Of each draw: cost, links included, and compute beside other ranks of a node, over the
     * estimate's; gamma and delta less the estimate's. */
    double *cost, *colocation, *gamma, *delta;
    bool overlap_drawn; /* some gamma or delta differs from the estimate's */
    double cost_sd;     /* of ln cost over the draws */
    double of_points;   /* lk_grid_points_distance */
    double link;        /* what the slowest link multiplies the estimate's cost by */
};

/* Return the doublings of the ranks from a configuration to the nearest count on which its cluster
 * has measured all-reduces, on one node or several as it has; infinity: there is none. */
double lk_grid_points_distance(const struct lk_cluster *cluster, const struct lk_config *at);

/* The part that the local batch gives. */
struct lk_grid_compute {
    int local_batch;
    enum lk_status status;
    struct lk_config_model model; /* of one rank */
    double *factors;              /* of each draw, over the estimate's */
};

/* The slowest of one shape's ranks, or of many shapes': most differ in their collectives alone. */
struct lk_grid_straggler {
    struct lk_step_model model; /* ranks, nodes, law and known stragglers; borrows from a shape's */
    int micro_batches;
    struct lk_straggler_max slowest;
    double *effect; /* of each draw */
};

/* What the parts are made of, all borrowed. */
struct lk_grid_evidence {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    const struct lk_known_stragglers *slow;
    const struct lk_cost_model *cost;   /* the estimates */
    struct lk_cost_model *const *draws; /* one for each draw */
    /* For each draw, deviations in sd: of the compute, of what hooks take, of a sharded step's
     * collectives. */
    const double *z_compute, *z_hook, *z_shard;
    const double *z_gamma, *z_delta, *z_kappa; /* of the overlap, of co-location */
    uint64_t seed;
};

/* A part is named by its index: it moves when another is made. */
struct lk_grid_parts {
    struct lk_grid_evidence inputs;
    size_t n_draws;
    /* For each draw, the probability of a faster slowest link and slowest link apart. */
    double *link_share, *link_apart;
    double *network; /* of each draw, the rate between nodes over the cluster's */
    struct lk_grid_shape *shapes;
    size_t n_shapes, shapes_capacity;
    struct lk_grid_compute *computes;
    size_t n_computes, computes_capacity;
    struct lk_grid_straggler *stragglers;
    size_t n_stragglers, stragglers_capacity;
};

enum lk_status lk_grid_parts_init(struct lk_grid_parts *g, const struct lk_grid_evidence *inputs,
                                  size_t n_draws);
void lk_grid_parts_fini(struct lk_grid_parts *g); /* zeroes it; safe on a zeroed one */

/*
 * Find or make a part. LK_EEVIDENCE or LK_EUSAGE: it cannot be made, and the same text is given
 * each time.
 */
enum lk_status lk_grid_shape_of(struct lk_grid_parts *g, const struct lk_config *c, size_t *out);
enum lk_status lk_grid_compute_of(struct lk_grid_parts *g, int local_batch, size_t *out);
/* model: ranks, nodes, law and known stragglers of a shape's step. */
enum lk_status lk_grid_straggler_of(struct lk_grid_parts *g, const struct lk_step_model *model,
                                    int micro_batches, size_t *out);

#endif
