/*
 * Back-tests predict what was measured from other measurements: each larger scale from the smaller
 * ones; each local batch, bucket cap and accumulation, and each pair of the last two, from the
 * others; by any source of evidence (sim/forecast/evidence.h). The
 * source never sees what is held out. The errors test the forecast and say how far to trust it.
 */
#ifndef LK_SIM_FORECAST_BACKTEST_H
#define LK_SIM_FORECAST_BACKTEST_H

#include "base/status.h"
#include "base/table.h"
#include "facts/forecast.h"
#include "facts/score.h"
#include "sim/forecast/baseline.h"
#include "sim/forecast/evidence.h"
#include "sim/prior.h"

#include <stdbool.h>
#include <stddef.h>

struct lk_backtest_item {
    struct lk_backtest test;
    struct lk_config config;
    enum lk_held held;
    double baseline_s[LK_BASELINE_COUNT]; /* step time of each; NaN: not applicable */
    double scale_share;                   /* as of a prediction (sim/forecast/evidence.h) */
    double law_s;                         /* by the scaling law alone; 0: not known */
};

struct lk_backtests {
    struct lk_backtest_item *items;
    size_t n, capacity;
    double level;  /* of the intervals */
    char *refusal; /* why the first one that was left out has no prediction; NULL: none was */
};

/* Return true if a configuration is left when this of another is held out: it has fewer GPUs,
 * another batch, another accumulation; another cap, or one rank alone, which reduces nothing. */
bool lk_backtest_leaves(const struct lk_config *c, const struct lk_config *of, enum lk_held held);

/* Run the back-tests that the source's measured configurations allow: all (most 0), or at most so
 * many scales, spread evenly over the measured ones, and so many of each other kind. One whose
 * remainder has no evidence is left out. */
enum lk_status lk_backtest_run(const struct lk_evidence_source *e, double level, size_t most,
                               struct lk_backtests *out);
/* Run those of the scale alone, all of them: what lk_backtest_scale_error needs. */
enum lk_status lk_backtest_run_scales(const struct lk_evidence_source *e, double level,
                                      struct lk_backtests *out);
void lk_backtests_fini(struct lk_backtests *b); /* zeroes it; safe on a zeroed one */

/*
 * Return a model's error for each doubling of the ranks, relative to the time of the collectives
 * (rms), from the scale back-tests and the prior's error, which counts as lk_prior_scale_tests of
 * them, each of a doubling of steps that are half collectives. All tests of one number of GPUs
 * count as one. *out_n is the number of these.
 */
double lk_backtest_scale_error(const struct lk_backtests *b, enum lk_prior prior, size_t *out_n);

/* Score the predictions and their intervals, or one baseline where it applies. */
enum lk_status lk_backtest_score(const struct lk_backtests *b, struct lk_score *out);
enum lk_status lk_backtest_baseline_errors(const struct lk_backtests *b, enum lk_baseline baseline,
                                           struct lk_score_errors *out);
/* Write how the back-tests came out, as one sentence. pre: b->n > 0. *out is freed by the caller.
 */
enum lk_status lk_backtest_answer(const struct lk_backtests *b, char **out);
/* Append the back-tests to a forecast. */
enum lk_status lk_backtest_add(const struct lk_backtests *b, struct lk_forecast *out);
/* Tabulate predictions against measurements with the baselines' errors, and a summary below. */
enum lk_status lk_backtest_table(const struct lk_backtests *b, struct lk_table **out);

#endif
