/*
 * Costs on nodes some of whose links are known to be slow. The slowest link among a collective's
 * nodes sets its pace, so a cluster has a level for each such prefix of its nodes: 1, or the factor
 * of the slowest. At another level than that of the measured points, links between nodes have the
 * bandwidth divided by the ratio of the levels, and each point takes the time that the cluster's
 * model says of the new links over those that it was measured on (sim/change.h). Fits without
 * points, and datasheet numbers, are of equal links.
 */
#ifndef LK_SIM_COST_LEVEL_H
#define LK_SIM_COST_LEVEL_H

#include "sim/coll_cost.h"

struct lk_cost_levels;

/* draw and prior as in lk_cost_model_create_from. *out NULL: no link is known. */
enum lk_status lk_cost_levels_create(const struct lk_cluster *c, const struct lk_rng *draw,
                                     const struct lk_nccl_factors *prior,
                                     struct lk_cost_levels **out);
void lk_cost_levels_destroy(struct lk_cost_levels *l); /* NULL is legal */
/* The model for so many nodes; NULL: the one that was made of the file as it is. NULL is legal. */
const struct lk_cost_model *lk_cost_levels_at(const struct lk_cost_levels *l, int nodes);

#endif
