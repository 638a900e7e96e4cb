/* What a cluster file has of collectives, as tables. */
#ifndef LK_COMMANDS_CLUSTER_TABLE_H
#define LK_COMMANDS_CLUSTER_TABLE_H

#include "base/cluster.h"
#include "base/status.h"
#include "base/table.h"

/* Its measured points, and its fits; both for lk_table_destroy. */
enum lk_status cluster_point_table(const struct lk_cluster *c, struct lk_table **out);
enum lk_status cluster_fit_table(const struct lk_cluster *c, struct lk_table **out);

#endif
