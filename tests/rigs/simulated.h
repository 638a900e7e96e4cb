/*
 * Predictions of configurations that were not measured, by simulation: a hundred times slower than
 * the predictor's model (sim/forecast/grid_model.h), which is compared with them.
 */
#ifndef LK_TESTS_SIMULATED_H
#define LK_TESTS_SIMULATED_H

#include "sim/forecast/predictor.h"

/* Estimate, draws and interval, without the bound; the estimate moves with p's seed. *out is freed
 * by lk_prediction_fini. */
enum lk_status simulated_at(struct lk_predictor *p, const struct lk_config *at,
                            struct lk_prediction *out);

#endif
