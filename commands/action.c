/* This file tells what an action gains: it asks a what-if of one point. */
#include "commands/action.h"

#include "sim/forecast/contradiction.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/step_evidence.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DRAWS = 200, SEED = 1 }; /* as commands/common_rows.h has them by default */

bool action_gains(const struct action_gain *g)
{
    return g->fits && g->gain.lo > 1;
}

/* Takes the point that was asked for, which is the first, and the current one, which is the last.
 */
static enum lk_status take(const struct lk_forecast *f, struct action_gain *out)
{
    const struct lk_forecast_point *p = &f->points[0];

    if (lk_contradictions_refute(f))
        return lk_fail(LK_EEVIDENCE, "%s", f->answer[0]);
    *out = (struct action_gain){.now_s = f->points[f->n_points - 1].step_s,
                                .step_s = p->step_s,
                                .gain = p->gain,
                                .fits = !isnan(p->step_s)};
    memcpy(out->batches, p->config.batches, sizeof out->batches);
    return LK_OK;
}

enum lk_status action_gain(const struct lk_job *job, const struct lk_cluster *cluster,
                           const struct lk_config *now, const struct action *action,
                           struct action_gain *out)
{
    enum lk_status st = LK_OK;
    struct lk_axis_value values[LK_AXIS_COUNT] = {0};
    struct lk_forecast_request q = {
        .level = ACTION_LEVEL, .draws = DRAWS, .seed = SEED, .compare = true};
    struct lk_evidence_source source = {0};
    struct lk_forecast f = {0};

    values[LK_AXIS_GPUS].count = now->world_size;
    snprintf(values[LK_AXIS_GPUS].text, sizeof values[LK_AXIS_GPUS].text, "%d", now->world_size);
    q.axes[LK_AXIS_GPUS].v = &values[LK_AXIS_GPUS];
    q.axes[LK_AXIS_GPUS].n = 1;
    for (size_t i = 0; i < action->n; i++) {
        enum lk_axis a = action->changes[i].axis;

        assert(a != LK_AXIS_GPUS && a != LK_AXIS_GPU);
        LK_TRY(lk_axis_parse(a, action->changes[i].word, &values[a]));
        q.axes[a].v = &values[a];
        q.axes[a].n = 1;
    }
    LK_TRY(lk_step_evidence(job, cluster, &q, &source));
    source.current = *now;
    LK_TRY(lk_forecast_run(&source, &q, &f, NULL));
    LK_TRY(take(&f, out));
out:
    lk_forecast_fini(&f);
    if (source.self)
        source.ops->close(source.self);
    return st;
}
