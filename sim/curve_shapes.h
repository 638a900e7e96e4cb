/*
 * Shapes of a throughput curve that the law's effects do not have. From one of the rows on,
 * other than that of one GPU,
 *
 *     saturated   throughput no longer grows: y rises by ln 2 + fall a doubling. How much it falls
 * is exponential, its mean lognormal around `falling`; a row deviates by `levelled`. As often as a
 * disturbance ends by the law, a GPU brings again what it did at best serial      Amdahl: y = c +
 * ln(1 + share (K - 1)). The share is lognormal around `serial_share`; a row deviates by
 * `serial_error`
 *
 * of which the second holds for all rows. A shape counts by its probability and by how well it
 * explains the rows, given those before it by the law, so it hardly counts where the rows show no
 * loss.
 */
#ifndef LK_SIM_CURVE_SHAPES_H
#define LK_SIM_CURVE_SHAPES_H

#include "base/mixture.h"
#include "base/status.h"

#include <stddef.h>

/* Constants of LK_SCALING_LIST (sim/throughput/scaling.h) by their names there; jump: of the law.
 */
struct lk_shape_prior {
    double saturated, falling, falling_spread, levelled, jump, jump_size, recovery;
    double serial, serial_share, serial_spread, serial_error;
};

/* Rows of one local batch, or of one global batch, by ascending GPUs, and the target's GPUs. */
struct lk_shape_rows {
    const double *lg_gpus, *y;
    size_t n; /* 2 or more */
    double target_lg_gpus;
    double least_y;             /* of the target, by the last rows' growth; -infinity: not known */
    const double *log_evidence; /* of these rows up to each, and of all others, by the law */
};

/* Add y of the target by both shapes, as lk_scaling_law_add does by the law. */
enum lk_status lk_shapes_add(const struct lk_shape_prior *prior, const struct lk_shape_rows *rows,
                             double log_weight, struct lk_mixture *out);

#endif
