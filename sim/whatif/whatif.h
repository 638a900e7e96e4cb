/*
 * A what-if predicts every configuration of a grid, one dimension for each axis that the user
 * varies (sim/whatif/axis.h), and compares it with the current configuration on as many GPUs. It
 * also tells what each axis is worth when it alone is moved. A source of evidence
 * (sim/forecast/evidence.h) predicts the points; an axis may change the configuration or the
 * machine.
 *
 * A point's gain is its throughput over that of the current configuration. Monte Carlo draw i uses
 * the same random numbers in all points, so the gain's interval is made from the ratios draw by
 * draw; each ratio also gets a random error with a relative sd of LK_PRIOR_RESOLUTION, the smallest
 * difference that the model resolves. A source without draws does not tell which errors two points
 * share, so there the gain has the error of the less certain point, and the same sd.
 *
 * The current configuration is one of the points at each count of GPUs, asked for or not, so that
 * no other is named the best that is worse.
 *
 * At each count of GPUs one point is the best: that with the highest throughput. Points that do not
 * fit in memory, as far as that is known, or whose local batch is outside the measured ones, are
 * not considered. A point that is not surely worse than the best is a tie.
 */
#ifndef LK_SIM_WHATIF_WHATIF_H
#define LK_SIM_WHATIF_WHATIF_H

#include "base/stats.h"
#include "base/status.h"
#include "base/table.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "sim/forecast/evidence.h"
#include "sim/planning/plan.h"
#include "sim/whatif/axis.h"

#include <stddef.h>
#include <stdint.h>

enum { LK_WHATIF_POINTS_MAX = 20000 };

struct lk_whatif_request {
    struct {
        const struct lk_axis_value *v; /* borrowed */
        size_t n;                      /* 0: not varied, as in the job and cluster. GPUS: > 0 */
    } axes[LK_AXIS_COUNT];
    int64_t global_batch;               /* > 0: fixed (strong scaling), sets accumulation; else 0 */
    double level;                       /* of the intervals */
    const struct lk_plan_request *plan; /* borrowed; gives a GPU's memory. NULL: the cluster does */
    int draws;                          /* Monte Carlo draws that the source makes for a point */
    uint64_t seed;
    /* (optional) Called from time to time, with the scenarios predicted so far and in all. */
    void (*progress)(void *user, size_t done, size_t total);
    void *user;
};

/* One axis moved alone from the current configuration. */
struct lk_whatif_effect {
    int world_size;
    enum lk_axis axis;
    char word[32];
    double step_s;
    struct lk_gain gain; /* without a verdict */
};

struct lk_whatif {
    struct lk_forecast forecast;   /* points with words, gains and verdicts; notes */
    struct lk_scenario *scenarios; /* of the points */
    size_t n_points;
    struct lk_whatif_effect *effects;
    size_t n_effects;
    size_t n_refused; /* points of the grid that were left out */
};

/*
 * Predict all points and effects. A point that has no evidence or makes no sense is left out and
 * counted; a note gives the first one's reason. LK_EEVIDENCE, with that reason, when no point is
 * left; LK_EUSAGE for a grid above LK_WHATIF_POINTS_MAX, for no count of GPUs, for an axis that the
 * source knows too little for, for an axis that has no meaning at any point, and for a global batch
 * beside the accumulation axis.
 */
enum lk_status lk_whatif_run(const struct lk_evidence_source *source,
                             const struct lk_whatif_request *request, struct lk_whatif *out);
void lk_whatif_fini(struct lk_whatif *w); /* zeroes it; safe on a zeroed one */

/* Tabulates the gain of each axis moved alone. */
enum lk_status lk_whatif_effect_table(const struct lk_whatif *w, struct lk_table **out);

#endif
