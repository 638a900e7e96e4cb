/*
 * The bound of a step is the least time that its arithmetic and its links allow, whatever the
 * software does: the slowest known rank's compute, no slowdown by overlap or co-location, no
 * straggler by chance, and each collective in the time that its bytes take at the highest rate of
 * the links (sim/collective/links.h). What may hide behind backward does. No estimate, draw or end
 * of an interval is below it, unless it was measured.
 */
#ifndef LK_SIM_FORECAST_BOUND_H
#define LK_SIM_FORECAST_BOUND_H

#include "base/status.h"
#include "facts/cluster.h"
#include "sim/step/config.h"

/*
 * Compute the bound, s, of the collectives of m. `step` has the durations and the known effects of
 * ranks and nodes, and may be m's own; compute: factor on its forward and backward, e.g. to the low
 * end of a measured interval.
 */
enum lk_status lk_step_bound(const struct lk_config_model *m, const struct lk_step_model *step,
                             const struct lk_cluster *c, double compute, double *out_s);

#endif
