/*
 * Compare the forecasts of one job on two clusters draw by draw: what is not known of the job is
 * the same on both, and cancels in the ratio of their speeds.
 *
 * Draw i of both used the same random numbers for all but the network, if their requests have one
 * seed; what is not known of networks of one kind (TCP, RoCE, InfiniBand) is the same, too, if they
 * have the network_seed of lk_network_seed. So the ratio agrees with a what-if's on an altered
 * network.
 */
#ifndef LK_SIM_FORECAST_PAIRED_H
#define LK_SIM_FORECAST_PAIRED_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/compare.h"

#include <stddef.h>
#include <stdint.h>

/* Return the network_seed of a request, by the seed and the network between the cluster's nodes. */
uint64_t lk_network_seed(uint64_t seed, const struct lk_cluster *c);

/* A forecast, with the draws that came of its request. */
struct lk_drawn_forecast {
    const struct lk_forecast *forecast;
    const double *draws_s; /* of lk_gains (sim/forecast/forecast.h) */
    size_t n_draws;        /* of a point */
    uint64_t seed;         /* of the request */
};

/* Append the configurations that both forecasts have. A ratio of points without draws is taken from
 * both intervals. */
enum lk_status lk_compare_drawn(const struct lk_drawn_forecast *a,
                                const struct lk_drawn_forecast *b, struct lk_comparison *out);

#endif
