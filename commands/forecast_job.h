/* Forecast a job on a cluster as `predict` and `whatif` do, for commands that show more than that.
 */
#ifndef LK_COMMANDS_FORECAST_JOB_H
#define LK_COMMANDS_FORECAST_JOB_H

#include "base/status.h"
#include "facts/forecast.h"
#include "sim/forecast/axis.h"
#include "sim/forecast/forecast.h"

#include <stdbool.h>

/* The forecasts that are made here have the draws and the seed of `predict`. */
enum { FORECAST_JOB_DRAWS = 200, FORECAST_JOB_SEED = 1 };

/*
 * Forecast a job on a cluster, a file or a preset, for the texts of the axes (NULL: not given).
 * whatif: compare with the current configuration. drawn gets the draws, paired with those of
 * other clusters (sim/forecast/paired.h), and lk_gains_fini frees it; NULL: the draws are those of
 * `predict`.
 */
enum lk_status forecast_job(const char *job, const char *cluster,
                            const char *const axes[LK_AXIS_COUNT], bool whatif,
                            struct lk_forecast *out, struct lk_gains *drawn);

#endif
