/* Where more nodes stop paying. */
#ifndef LK_SIM_KNEE_H
#define LK_SIM_KNEE_H

#include "base/status.h"
#include "sim/predictor.h"

/*
 * The largest number of nodes, up to `most`, within which each further node adds at least half of
 * the throughput that the first one delivers (weak scaling, the rest of the configuration as in
 * `like`). Evaluated on a grid that grows by a quarter, so above eight nodes it is known to that.
 */
enum lk_status lk_knee_find(struct lk_predictor *p, const struct lk_config *like, int gpus_per_node,
                            int most, int *out_nodes);

#endif
