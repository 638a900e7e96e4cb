/*
 * Many configurations at once, each with estimate, interval, evidence and losses: the grids of
 * what-ifs. A configuration that cannot be predicted does not end the sweep: its point says why.
 *
 * Draws are paired: draw i is the same world at every point of a predictor, and of another
 * predictor with the same seed, so that ratios of two points may be formed draw by draw.
 */
#ifndef LK_SIM_SWEEP_H
#define LK_SIM_SWEEP_H

#include "base/forecast.h"
#include "base/stats.h"
#include "base/status.h"
#include "sim/config.h"
#include "sim/predictor.h"

#include <stddef.h>

struct lk_sweep_point {
    struct lk_config config;
    enum lk_status status; /* not LK_OK: LK_EEVIDENCE or LK_EUSAGE, and the rest is not set */
    double step_s, lo_s, hi_s;
    enum lk_evidence evidence;
    char evidence_text[64];
    double batch_reach; /* as in struct lk_prediction */
    double losses_s[LK_LOSS_COUNT];
};

struct lk_sweep {
    struct lk_sweep_point *points; /* as the configurations were given */
    size_t n;
    double *draws_s; /* n x n_draws, row major; rows of refused points are NaN */
    size_t n_draws;
    char *refusal; /* the text of the first refused point; NULL: none was */
};

/* Told now and then how many points are done, and at the end. */
struct lk_sweep_watch {
    void (*tell)(void *user, size_t done);
    void *user;
};

/* Any other failure than a refusal is returned. watch may be NULL. *out is freed by
 * lk_sweep_fini. */
enum lk_status lk_sweep_run(struct lk_predictor *p, const struct lk_config *configs, size_t n,
                            const struct lk_sweep_watch *watch, struct lk_sweep *out);
void lk_sweep_fini(struct lk_sweep *s); /* zeroes it; safe on a zeroed one */

/* Throughput of point a over that of point b, with its interval. */
enum lk_status lk_sweep_gain(const struct lk_sweep *s, size_t a, size_t b, double level,
                             struct lk_estimate *out);
/* Share of draws in which point a has the higher throughput. pre: neither was refused. */
double lk_sweep_certainty(const struct lk_sweep *s, size_t a, size_t b);

#endif
