/* What a what-if says beside its numbers. */
#include "sim/whatif_state.h"

#include "sim/prior.h"

#include <math.h>
#include <stdio.h>

/* "bucket-cap=25MiB, accumulation=2": the axes asked for but the GPUs. */
static void describe(const struct lk_whatif_state *w, const struct lk_whatif_point *p, char *out,
                     size_t size)
{
    size_t at = 0;

    *out = 0;
    for (int a = LK_AXIS_GPUS + 1; a < LK_AXIS_COUNT; a++)
        if (w->request->axes[a].n && *p->words[a] && at < size)
            at += (size_t)snprintf(out + at, size - at, "%s%s=%s", at ? ", " : "",
                                   lk_axis_option((enum lk_axis)a), p->words[a]);
}

static enum lk_status note_best(struct lk_whatif_state *w, const struct lk_whatif_point *p)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;
    const char *verdict = lk_whatif_surely(w, p->certainty)       ? "beyond the error"
                          : lk_whatif_surely(w, 1 - p->certainty) ? "surely worse"
                                                                  : "within the error";
    char words[256];
    size_t ties = 0;

    describe(w, p, words, sizeof words);
    for (size_t i = 0; i < o->n_points; i++)
        ties += o->points[i].tie && o->points[i].scenario.config.gpus == p->scenario.config.gpus;
    if (isnan(p->gain.value))
        LK_TRY(lk_forecast_note(&o->forecast, "best at %d GPUs: %s; %zu others tie with it",
                                p->scenario.config.gpus, *words ? words : "the only one", ties));
    else
        LK_TRY(lk_forecast_note(
            &o->forecast,
            "best at %d GPUs: %s; throughput %+.1f %% (%+.1f to %+.1f) against the current "
            "configuration, %s; %zu others tie with it",
            p->scenario.config.gpus, *words ? words : "the only one", 100 * (p->gain.value - 1),
            100 * (p->gain.lo - 1), 100 * (p->gain.hi - 1), verdict, ties));
out:
    return st;
}

/* An averaging that runs beside the next step's compute costs what does not fit in there. */
static enum lk_status note_schemes(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;
    bool said[LK_SHARDING_COUNT] = {false};

    for (size_t i = 0; i < o->n_points; i++) {
        const struct lk_config *c = &o->points[i].scenario.config;
        const struct lk_forecast_point *p = &o->forecast.points[i];
        double hidden = fmin(p->losses_s[LK_LOSS_WIRE], p->step_s / fmax(1, c->period));

        if (said[c->sharding])
            continue;
        said[c->sharding] = true;
        if (c->sharding == LK_SHARDING_ASYNC)
            LK_TRY(lk_forecast_note(&o->forecast,
                                    "async: throughput without the barrier, each rank at its own "
                                    "pace; gradients are %d updates old on average at %d GPUs, "
                                    "and what that costs in convergence is not in the numbers",
                                    c->gpus - 1, c->gpus));
        if ((c->sharding == LK_SHARDING_LOCAL_SGD || c->sharding == LK_SHARDING_DILOCO) &&
            c->shard_group < 2)
            LK_TRY(lk_forecast_note(
                &o->forecast,
                "%s: an averaging stands alone, its cost spread over the period; overlapped with "
                "the step after it, %d GPUs would take %.4g s a step instead of %.4g; what the "
                "period costs in convergence is not in the numbers",
                lk_sharding_name(c->sharding), c->gpus, p->step_s - hidden, p->step_s));
    }
out:
    return st;
}

static enum lk_status note_compression(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;
    bool some = false, power = false, rows = true;

    for (size_t i = 0; i < o->n_points; i++) {
        enum lk_compression c = o->points[i].scenario.config.compression;

        some |= c != LK_COMPRESSION_NONE;
        power |= c == LK_COMPRESSION_POWERSGD;
    }
    for (size_t i = 0; i < w->job->n_tensors; i++)
        rows = rows && w->job->tensors[i].rows;
    if (power && !rows)
        LK_TRY(lk_forecast_note(&o->forecast, "assumed: PowerSGD's matrices are square where the "
                                              "job does not give their rows"));
    if (some && !lk_quantity_known(&w->cluster->device.memory_Bps))
        LK_TRY(lk_forecast_note(&o->forecast,
                                "what a hook's casts and products take is not in the numbers: the "
                                "cluster does not give device.memory_bandwidth"));
out:
    return st;
}

enum lk_status lk_whatif_add_notes(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;

    for (size_t i = 0; i < o->n_points; i++)
        if (o->points[i].best)
            LK_TRY(note_best(w, &o->points[i]));
    LK_TRY(note_schemes(w));
    LK_TRY(note_compression(w));
    if (w->n_refused)
        LK_TRY(lk_forecast_note(&o->forecast, "%zu points were left out. The first: %s",
                                w->n_refused, w->refusal));
    LK_TRY(lk_forecast_note(&o->forecast, "two configurations are told apart from %.0f %% on (%s)",
                            100 * lk_prior_value(LK_PRIOR_BASE_ERROR),
                            lk_prior_source(LK_PRIOR_BASE_ERROR)));
out:
    return st;
}
