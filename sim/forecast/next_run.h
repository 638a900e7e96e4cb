/*
 * Which measurement to make next: of several that could be made, the one that would narrow a
 * forecast most. Each is added to the evidence with the outcome that the forecast itself gives it,
 * and the target is forecast again, by the same source. What is then left of the interval is the
 * measurement's promise; `make accuracy` holds promises against what real runs brought.
 */
#ifndef LK_SIM_FORECAST_NEXT_RUN_H
#define LK_SIM_FORECAST_NEXT_RUN_H

#include "base/status.h"
#include "facts/config.h"
#include "sim/forecast/evidence.h"

#include <stdbool.h>
#include <stddef.h>

struct lk_next_run {
    struct lk_config config; /* that is run; of all-reduces its ranks and nodes count alone */
    bool collectives;        /* all-reduces are timed */
    double gpu_hours;
    double step_s, lo_s, hi_s; /* set: what the forecast at the target would be */
    double width;              /* set: ln(hi_s / lo_s) */
};

/*
 * Set what each of n measurements promises, and sort them: the narrowest first, of those that are
 * within a fiftieth of each other the one that takes fewest GPU-hours. Those that nothing tells the
 * outcome of, or that were made, are left out; *out_n: how many are left. *now: the forecast as it
 * is, which lk_prediction_fini frees. pre: the source is prepared.
 */
enum lk_status lk_next_runs(const struct lk_evidence_source *e, const struct lk_config *target,
                            struct lk_next_run *v, size_t n, size_t *out_n,
                            struct lk_prediction *now);

#endif
