/* Make result tables of a cluster file: its collectives, and how its ranks slow each other. */
#ifndef LK_COMMANDS_CLUSTER_TABLE_H
#define LK_COMMANDS_CLUSTER_TABLE_H

#include "base/cluster.h"
#include "base/status.h"
#include "base/table.h"

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
