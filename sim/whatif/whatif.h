/*
 * A what-if: a grid over axes (sim/whatif/axis.h), each point with interval and evidence, beside
 * the current configuration and what each axis is worth alone. Any source of evidence predicts the
 * points (sim/forecast/evidence.h), those on an altered machine too.
 *
 * Draw i of a source takes the same random numbers throughout, so gains are ratios draw by draw;
 * each gets an error of the model's resolution, a relative sd of LK_PRIOR_BASE_ERROR. Without draws
 * nothing tells which errors two points share: the gain has the error of the less certain of them.
 * The best of a count of GPUs has the highest throughput of those that fit in memory, as far as is
 * known, with a batch inside the measured ones; points that are not surely worse than it are ties.
 */
#ifndef LK_SIM_WHATIF_WHATIF_H
#define LK_SIM_WHATIF_WHATIF_H

#include "base/cluster.h"
#include "base/forecast.h"
#include "base/job.h"
#include "base/stats.h"
#include "base/status.h"
#include "base/table.h"
#include "sim/forecast/evidence.h"
#include "sim/planning/plan.h"
#include "sim/whatif/axis.h"

#include <stddef.h>
#include <stdint.h>

enum { LK_WHATIF_POINTS_MAX = 20000 };

struct lk_whatif_request {
    struct {
        const struct lk_axis_value *v; /* borrowed */
        size_t n;                      /* 0: the axis stays as the job and cluster have it */
    } axes[LK_AXIS_COUNT];
    int64_t global_batch;               /* > 0: strong scaling; accumulation follows */
    double level;                       /* of the intervals */
    const struct lk_plan_request *plan; /* borrowed: memory of a GPU; NULL: the clusters' own */
    int draws;                          /* of a source that has any: as many as it makes */
    uint64_t seed;
    /* (optional) It is called now and then, with points done and points in all. */
    void (*progress)(void *user, size_t done, size_t total);
    void *user;
};

/* One axis moved alone from the current configuration. */
struct lk_whatif_effect {
    int world_size;
    enum lk_axis axis;
    char word[32];
    double step_s;
    struct lk_gain gain; /* no verdict */
};

struct lk_whatif {
    struct lk_forecast forecast;   /* points with words, gains and verdicts; notes */
    struct lk_scenario *scenarios; /* of the points */
    size_t n_points;
    struct lk_whatif_effect *effects;
    size_t n_effects;
    size_t n_refused;
};

/*
 * A point that has no evidence or makes no sense is left out, counted and its reason noted. The
 * call fails with that reason when none is left; LK_EUSAGE for a grid above LK_WHATIF_POINTS_MAX,
 * and for an axis of which the source knows too little.
 */
enum lk_status lk_whatif_run(const struct lk_evidence_source *source,
                             const struct lk_whatif_request *request, struct lk_whatif *out);
void lk_whatif_fini(struct lk_whatif *w); /* zeroes it; safe on a zeroed one */

/* Tabulates the gain of each axis moved alone. */
enum lk_status lk_whatif_effect_table(const struct lk_whatif *w, struct lk_table **out);

#endif
