/*
 * Back-tests: each larger run is predicted from the smaller ones, each local batch from the others,
 * never with anything that the held-out run supplied. Their errors test the forecast.
 */
#ifndef LK_SIM_FORECAST_BACKTEST_H
#define LK_SIM_FORECAST_BACKTEST_H

#include "base/cluster.h"
#include "base/forecast.h"
#include "base/job.h"
#include "base/status.h"
#include "base/table.h"
#include "sim/forecast/baseline.h"
#include "sim/forecast/predictor.h"

#include <stddef.h>

struct lk_backtest_item {
    struct lk_backtest test;
    struct lk_config config;
    double reach;                         /* extrapolation factor of ranks (or batch) */
    bool is_batch;                        /* a local batch was held out, not a scale */
    double baseline_s[LK_BASELINE_COUNT]; /* step time of each; NaN: not applicable */
};

struct lk_backtests {
    struct lk_backtest_item *items;
    size_t n, capacity;
    double level;             /* of the intervals */
    double prior_scale_error; /* error of the scale assumed without any back-test */
};

/*
 * Run every back-test that the job's runs allow. On a preset cluster runs of several ranks belong
 * to another machine and are left out. A held-out point whose remainder has no evidence is left
 * out, too.
 */
enum lk_status lk_backtest_all(const struct lk_job *job, const struct lk_cluster *cluster,
                               const struct lk_predictor_options *options,
                               struct lk_backtests *out);
void lk_backtests_fini(struct lk_backtests *b); /* zeroes it; safe on a zeroed one */

/*
 * Return the model's relative error for each doubling of the ranks (rms), from the scale back-tests
 * and the prior, which counts as LK_PRIOR_SCALE_TESTS of them; without any it is the prior. *out_n
 * is the number of these back-tests.
 */
double lk_backtest_scale_error(const struct lk_backtests *b, size_t *out_n);

/* Run all back-tests with the prior's error of the scale, then set the options' error by them. */
enum lk_status lk_backtest_calibrate(const struct lk_job *job, const struct lk_cluster *cluster,
                                     struct lk_predictor_options *options,
                                     struct lk_backtests *out);

/* Tabulate predictions against measurements with the baselines' errors, and a summary below. */
enum lk_status lk_backtest_table(const struct lk_backtests *b, struct lk_table **out);

#endif
