/*
 * The parts that the configurations of a grid share, each computed once: the network's shape, the
 * compute of a local batch, the slowest rank; and a configuration that is put together from them.
 * sim/forecast/grid_model.h adds the runs.
 */
#ifndef LK_SIM_FORECAST_GRID_PARTS_H
#define LK_SIM_FORECAST_GRID_PARTS_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/config.h"
#include "facts/job.h"
#include "sim/collective/coll_cost.h"
#include "sim/step/bucket_cost.h"
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
     * estimate's; gamma, delta and a collective's start less the estimate's. NULL: not drawn yet,
     * as estimates alone need none (lk_grid_point_draw). */
    double *cost, *colocation, *gamma, *delta, *start;
    bool overlap_drawn,
        start_drawn;  /* some gamma or delta, or start, differs from the estimate's */
    double cost_sd;   /* of ln cost over the draws */
    double of_points; /* lk_grid_points_distance */
    double link;      /* what the slowest link multiplies the estimate's cost by */
};

/* Return the doublings of the ranks from a configuration to the nearest count on which its cluster
 * has measured all-reduces, on one node or several as it has; infinity: there is none. */
double lk_grid_points_distance(const struct lk_cluster *cluster, const struct lk_config *at);

/* The part that the local batch gives. */
struct lk_grid_compute {
    int local_batch, accumulation; /* the latter as the stages of a pipeline need it */
    enum lk_status status;
    struct lk_config_model model; /* of one rank */
    double *factors;              /* of each draw, over the estimate's */
};

/* The slowest of one shape's ranks, or of many shapes': most differ in their collectives alone. */
struct lk_grid_straggler {
    struct lk_step_model model; /* ranks, nodes, law and known stragglers; borrows from a shape's */
    int micro_batches;
    struct lk_straggler_max slowest;
    double *effect; /* of each draw; NULL: not drawn yet */
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
    const double *z_gamma, *z_delta, *z_kappa; /* of the overlap, of co-location, */
    const double *z_start;                     /* of a collective's start */
    uint64_t seed, network_seed;               /* of lk_predictor_options */
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
    struct lk_step_coll *colls; /* scratch of lk_grid_point_init */
    size_t colls_capacity;
};

enum lk_status lk_grid_parts_init(struct lk_grid_parts *g, const struct lk_grid_evidence *inputs,
                                  size_t n_draws);
void lk_grid_parts_fini(struct lk_grid_parts *g); /* zeroes it; safe on a zeroed one */

/*
 * Find or make a part. LK_EEVIDENCE or LK_EUSAGE: it cannot be made, and the same text is given
 * each time.
 */
enum lk_status lk_grid_shape_of(struct lk_grid_parts *g, const struct lk_config *c, size_t *out);
enum lk_status lk_grid_compute_of(struct lk_grid_parts *g, const struct lk_config *of, size_t *out);
/* model: ranks, nodes, law and known stragglers of a shape's step. */
enum lk_status lk_grid_straggler_of(struct lk_grid_parts *g, const struct lk_step_model *model,
                                    int micro_batches, size_t *out);

/* ---- One configuration ---- */

enum { LK_GRID_FACTORS = 5 };

/* One configuration: one rank that computes as long as the slowest does, simulated without
 * randomness at a few factors of its collectives' cost. Parts are borrowed, and move when others
 * are made. */
struct lk_grid_point {
    const struct lk_grid_shape *shape;
    const struct lk_grid_compute *compute;
    const struct lk_grid_straggler *straggler;
    struct lk_step_model bare, step;               /* one rank, the slowest; charged for launches */
    double slowest;                                /* its compute over a rank's mean */
    double step_at_cost[LK_GRID_FACTORS], fixed_s; /* the step at each factor; optimizer and gap */
    double busy_s;                                 /* the step without what collectives add */
    double charged_s;                      /* of its compute: by buckets beyond the job's own */
    bool is_drawn;                         /* the next have been set, and its parts drawn: */
    double gamma_s, delta_s, per_bucket_s; /* by how much more of each lengthens it */
    double per_tensor_s, per_start_s;      /* the same */
    /* A rank's own work over the model's, by runs of one rank, and of each draw; NULL: no run
     * tells, and it is as well known as the compute. */
    double work_ratio;
    const double *work_ratio_draws;
    /* Its own work over that without exchange, and of each draw; NULL: the same in each. */
    double slowed;
    const double *slowed_draws;
    /* The share of a micro-batch that a step takes once, and how its own work follows it. */
    double fixed_sd, per_fixed;
    double losses_s[LK_LOSS_COUNT]; /* at factor 1 */
};

/* Make the point's estimate without runs; cost: of launches. LK_EEVIDENCE or LK_EUSAGE: it cannot
 * be made. */
enum lk_status lk_grid_point_init(struct lk_grid_parts *g, const struct lk_bucket_cost *cost,
                                  const struct lk_config *c, struct lk_grid_point *point);
/* Draw the point's parts, and set by how much what is drawn lengthens its step. pre: no other point
 * was made since, and cost is as it was. */
enum lk_status lk_grid_point_draw(struct lk_grid_parts *g, const struct lk_bucket_cost *cost,
                                  struct lk_grid_point *point);
/* Return the step with the collectives' cost times f. */
double lk_grid_point_at(const struct lk_grid_point *point, double f);
/* Charge the compute of a step, which is that of the job's own buckets, for its launches. */
double lk_grid_point_charge(struct lk_grid_parts *g, const struct lk_grid_shape *shape,
                            const struct lk_bucket_cost *cost, struct lk_step_model *step);

#endif
