/* Results that several commands write: forecasts, tables, and the tables of a cluster file. */
#ifndef LK_COMMANDS_OUTPUT_H
#define LK_COMMANDS_OUTPUT_H

#include "base/status.h"
#include "base/table.h"
#include "facts/cluster.h"
#include "facts/forecast.h"

#include <stddef.h>

/* Write a forecast to `out` (JSON) and its points to `csv`; NULL: not asked for. */
enum lk_status forecast_write(const struct lk_forecast *f, const char *out, const char *csv);

/*
 * Open a file for writing and throw it away: a path that cannot be written must not show at the end
 * of a long run. A pipe is left alone, since its reader would take that for the end.
 */
enum lk_status check_writable(const char *path);

/*
 * Tabulate, in this order, the points measured (time and bandwidth of each collective, algorithm
 * and size), the alpha-beta fits, and how ranks slow each other: overlap, co-location (kappa) and
 * the straggler law. The caller sets *out to NULL before, and destroys it, after a failure
 * as well.
 */
enum lk_status cluster_point_table(const struct lk_cluster *c, struct lk_table **out);
enum lk_status cluster_fit_table(const struct lk_cluster *c, struct lk_table **out);
enum lk_status cluster_effect_table(const struct lk_cluster *c, struct lk_table **out);

#endif
