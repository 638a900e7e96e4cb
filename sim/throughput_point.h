/* One prediction from a table of throughputs: shared by forecast and validation. */
#ifndef LK_SIM_THROUGHPUT_POINT_H
#define LK_SIM_THROUGHPUT_POINT_H

#include "base/forecast.h"
#include "sim/scaling.h"
#include "sim/step_fit.h"
#include "sim/throughput.h"

#include <stdbool.h>

struct lk_throughput_estimate {
    double value, lo, hi; /* samples a second: median and interval */
};

/* Rows as evidence: for the law and, with a step model, for that as well. */
struct lk_throughput_fit {
    struct lk_scaling_point points[LK_SCALING_POINTS_MAX];
    size_t n;
    struct lk_step_fit *step; /* NULL: none */
    double step_odds;         /* of the step model against the law, by the rows; 0: no model */
};

/* step: borrowed, outlives the fit; NULL: the law alone. */
enum lk_status lk_throughput_fit_init(struct lk_throughput_fit *f, struct lk_step_prior *step,
                                      const struct lk_scaling_point *points, size_t n);
void lk_throughput_fit_fini(struct lk_throughput_fit *f); /* zeroes it; safe on a zeroed one */

/*
 * With a step model both accounts count by how well they explain the rows, from equal odds; the law
 * stands aside where it cannot know: nodes beyond one when none were measured, another bucket cap.
 */
enum lk_status lk_throughput_fit_at(struct lk_throughput_fit *f,
                                    const struct lk_scaling_point *target, double level,
                                    struct lk_throughput_estimate *out);

/*
 * The step model that a request asks for, its table completed; NULL without a model. *cluster is
 * filled, with so many GPUs a node; it and what the request borrows outlive the prior.
 */
enum lk_status lk_throughput_prior(struct lk_throughput_table *t,
                                   const struct lk_throughput_request *q,
                                   struct lk_cluster *cluster, double per_node,
                                   struct lk_step_prior **out);

bool lk_throughput_same_batch(const struct lk_scaling_point *a, const struct lk_scaling_point *b);

#endif
