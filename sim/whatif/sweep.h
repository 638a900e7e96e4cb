/*
 * Predict many configurations at once, each with estimate, interval, evidence and losses: the grids
 * of what-ifs. A configuration that cannot be predicted does not end the sweep: its point says why.
 *
 * Draws are paired: draw i takes the same random numbers at every point of a predictor, and of
 * another predictor with the same seed, so that ratios of two points may be formed draw by draw.
 */
#ifndef LK_SIM_WHATIF_SWEEP_H
#define LK_SIM_WHATIF_SWEEP_H

#include "base/config.h"
#include "base/status.h"
#include "sim/forecast/evidence.h"

#include <stddef.h>

struct lk_predictor;

struct lk_sweep {
    struct lk_prediction *points; /* as the configurations were given; draws lie in draws_s */
    size_t n;
    double *draws_s; /* n x n_draws, row major; rows of refused points are NaN */
    size_t n_draws;
    char *refusal; /* the text of the first refused point; NULL: none was */
};

/* A function that is called now and then, and at the end, with the points done. */
struct lk_sweep_watch {
    void (*tell)(void *user, size_t done);
    void *user;
};

/* Run the sweep. Any other failure than a refusal is returned. watch may be NULL. *out is freed by
 * lk_sweep_fini. */
enum lk_status lk_sweep_run(struct lk_predictor *p, const struct lk_config *configs, size_t n,
                            const struct lk_sweep_watch *watch, struct lk_sweep *out);
void lk_sweep_fini(struct lk_sweep *s); /* zeroes it; safe on a zeroed one */

#endif
