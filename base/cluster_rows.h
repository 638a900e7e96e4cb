/* The quantities of a cluster file by the object that they stand in. For base/cluster*.c only. */
#ifndef LK_BASE_CLUSTER_ROWS_H
#define LK_BASE_CLUSTER_ROWS_H

#include "base/quantity.h"

/* Of struct lk_cluster: the objects "overlap" and "stragglers", and what stands alone. */
extern const struct lk_quantity_row lk_cluster_overlap_rows[];
extern const struct lk_quantity_row lk_cluster_straggler_rows[];
extern const struct lk_quantity_row lk_cluster_root_rows[];
/* Of struct lk_cluster_slow, _device, _topology, _link and _fit. */
extern const struct lk_quantity_row lk_cluster_slow_rows[];
extern const struct lk_quantity_row lk_cluster_device_rows[];
extern const struct lk_quantity_row lk_cluster_topology_rows[];
extern const struct lk_quantity_row lk_cluster_link_rows[];
extern const struct lk_quantity_row lk_cluster_fit_rows[];

#endif
