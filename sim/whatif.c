/* Grids of what-ifs: the request, its parts in order, and what they leave. */
#include "sim/whatif_state.h"

#include "base/array.h"
#include "sim/backtest.h"
#include "sim/run_group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static enum lk_status set_header(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = &w->out->forecast;
    int gpus = w->reference_gpus ? w->reference_gpus : 1;

    f->level = w->options.level;
    LK_TRY(lk_strdup(&f->job, w->job->name));
    LK_TRY(lk_strdup(&f->cluster, w->cluster->name));
    LK_TRY(lk_strdup(&f->sample_unit, w->job->sample_unit));
    LK_TRY(lk_asprintf(&f->reference, "%d GPU%s, %s, plain DDP on the same machine", gpus,
                       gpus == 1 ? "" : "s", w->reference_gpus ? "measured" : "modelled"));
    w->reference_gpus = gpus;
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (lk_whatif_worded(w, (enum lk_axis)a))
            snprintf(f->axes[f->n_axes++], sizeof *f->axes, "%s", lk_axis_column((enum lk_axis)a));
out:
    return st;
}

static enum lk_status set_options(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_backtests b = {0};
    size_t n;

    w->options = (struct lk_predictor_options){.level = w->request->level,
                                               .draws = w->request->draws,
                                               .seed = w->request->seed,
                                               .scale_error = NAN};
    LK_TRY(lk_backtest_all(w->job, w->cluster, &w->options, &b));
    w->options.scale_error = lk_backtest_scale_error(&b, &n);
    w->options.scale_tests = n;
    for (size_t i = 0; i < w->job->n_runs; i++) {
        const struct lk_job_run *r = &w->job->runs[i];

        if (lk_run_counts(w->cluster, r) && (!w->reference_gpus || r->gpus < w->reference_gpus))
            w->reference_gpus = r->gpus;
    }
out:
    lk_backtests_fini(&b);
    return st;
}

static void world_fini(struct lk_whatif_world *world)
{
    lk_sweep_fini(&world->sweep);
    free(world->items);
    lk_predictor_destroy(world->predictor);
    lk_changed_fini(&world->changed);
}

enum lk_status lk_whatif_run(const struct lk_job *job, const struct lk_cluster *cluster,
                             const struct lk_whatif_request *request, struct lk_whatif *out)
{
    enum lk_status st = LK_OK;
    struct lk_whatif o = {0};
    struct lk_whatif_state w = {.job = job, .cluster = cluster, .request = request, .out = &o};

    if (!request->axes[LK_AXIS_GPUS].n)
        return lk_fail(LK_EUSAGE, "no GPU counts to look at");
    if (request->global_batch > 0 && request->axes[LK_AXIS_ACCUMULATION].n)
        return lk_fail(LK_EUSAGE, "a global batch sets the accumulation: give one or the other");
    LK_TRY(set_options(&w));
    LK_TRY(set_header(&w));
    LK_TRY(lk_whatif_add_grid(&w));
    LK_TRY(lk_whatif_add_references(&w));
    LK_TRY(lk_whatif_run_worlds(&w));
    LK_TRY(lk_whatif_add_results(&w));
    for (size_t g = 0; g < request->axes[LK_AXIS_GPUS].n; g++)
        lk_whatif_mark_best(&w, (int)request->axes[LK_AXIS_GPUS].v[g].number.value);
    LK_TRY(lk_whatif_add_notes(&w));
    *out = o;
    o = (struct lk_whatif){0};
out:
    for (size_t i = 0; i < w.n_worlds; i++)
        world_fini(&w.worlds[i]);
    free(w.worlds);
    free(w.items);
    free(w.point_items);
    free(w.anchor_draws);
    free(w.resolution);
    free(w.ratios);
    free(w.refusal);
    lk_whatif_fini(&o);
    return st;
}

void lk_whatif_fini(struct lk_whatif *w)
{
    lk_forecast_fini(&w->forecast);
    free(w->scenarios);
    free(w->effects);
    *w = (struct lk_whatif){0};
}
