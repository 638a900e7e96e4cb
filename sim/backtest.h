/*
 * Back-tests: each larger run is predicted from the smaller ones, each local batch from the others,
 * never with anything that the held-out run supplied. This is the proof that a forecast carries.
 */
#ifndef LK_SIM_BACKTEST_H
#define LK_SIM_BACKTEST_H

#include "base/cluster.h"
#include "base/forecast.h"
#include "base/job.h"
#include "base/score.h"
#include "base/status.h"
#include "base/table.h"
#include "sim/baseline.h"
#include "sim/predictor.h"

#include <stddef.h>

struct lk_backtest_item {
    struct lk_backtest test;
    struct lk_config config;
    double reach;                         /* ranks (or batch) over the largest it was made from */
    bool is_batch;                        /* a local batch was held out, not a scale */
    double baseline_s[LK_BASELINE_COUNT]; /* step time of each; NaN: not applicable */
};

struct lk_backtests {
    struct lk_backtest_item *items;
    size_t n, capacity;
    double level;             /* of the intervals */
    double prior_scale_error; /* what is assumed on this cluster without any */
};

/*
 * All that the job's runs allow. On a preset cluster runs of several ranks belong to another
 * machine and are left out. A held-out point whose remainder has no evidence is left out, too.
 */
enum lk_status lk_backtest_all(const struct lk_job *job, const struct lk_cluster *cluster,
                               const struct lk_predictor_options *options,
                               struct lk_backtests *out);
void lk_backtests_fini(struct lk_backtests *b); /* zeroes it; safe on a zeroed one */

/*
 * The model's relative error a doubling of the ranks (rms), from the scale back-tests and the
 * prior, which counts as LK_PRIOR_SCALE_TESTS of them. Without any it is the prior. *out_n: how
 * many of these back-tests there are.
 */
double lk_backtest_scale_error(const struct lk_backtests *b, size_t *out_n);

/* Errors, share inside, width and interval score of all of them. */
enum lk_status lk_backtest_score(const struct lk_backtests *b, struct lk_score *out);
/* Predictions against measurements, the baselines' errors beside them; a summary below. */
enum lk_status lk_backtest_table(const struct lk_backtests *b, struct lk_table **out);

#endif
