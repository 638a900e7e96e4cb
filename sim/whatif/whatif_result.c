/*
 * The results of a what-if.
 *
 * Divisions: gains / points and effects / the best / notes / the whole / table.
 */
#include "sim/whatif/whatif_state.h"

#include "base/array.h"
#include "base/rng.h"
#include "sim/forecast/forecast.h"
#include "sim/planning/memory.h"
#include "sim/prior.h"
#include "sim/step/volume.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Gains ---- */

/* Returns the throughput of one of a's GPUs over that of one of b's, when their steps take so long.
 */
static double ratio(const struct lk_whatif_item *a, const struct lk_whatif_item *b, double a_s,
                    double b_s)
{
    return lk_config_samples(&a->s.config) / lk_config_samples(&b->s.config) *
           b->s.config.world_size / a->s.config.world_size * (b_s / a_s);
}

static bool same(const struct lk_whatif_item *a, const struct lk_whatif_item *b)
{
    return lk_config_equal(&a->s.config, &b->s.config) &&
           lk_change_equal(&a->s.change, &b->s.change);
}

/* Sets w->ratios to the ratio of throughputs in each draw; returns false if one has no draws. */
static bool set_ratios(const struct lk_whatif_state *w, const struct lk_whatif_item *a,
                       const struct lk_whatif_item *b)
{
    size_t n = (size_t)w->request->draws;

    if (a->at.n_draws != n || b->at.n_draws != n)
        return false;
    for (size_t d = 0; d < n; d++)
        w->ratios[d] = ratio(a, b, a->at.draws_s[d], b->at.draws_s[d]);
    return true;
}

/* Returns the standard deviations that an interval of the level reaches to each side. */
static double reach(const struct lk_whatif_state *w)
{
    return lk_stats_normal_quantile((1 + w->request->level) / 2);
}

/* Returns the sd of ln of the ratio of two points without draws: that of the less certain. */
static double ratio_sd(const struct lk_whatif_state *w, const struct lk_whatif_item *a,
                       const struct lk_whatif_item *b)
{
    double width = fmax(log(a->at.hi_s / a->at.lo_s), log(b->at.hi_s / b->at.lo_s));

    return same(a, b) ? 0 : hypot(width / 2 / reach(w), lk_prior_value(LK_PRIOR_RESOLUTION));
}

/* Returns the probability that a has the higher throughput, over draws and the model's resolution.
 */
static double certainty(const struct lk_whatif_state *w, const struct lk_whatif_item *a,
                        const struct lk_whatif_item *b)
{
    double r = ratio(a, b, a->at.step_s, b->at.step_s);

    if (set_ratios(w, a, b))
        return lk_stats_above_one(w->ratios, (size_t)w->request->draws,
                                  lk_prior_value(LK_PRIOR_RESOLUTION));
    return same(a, b) ? 0.5 : lk_stats_above_one(&r, 1, ratio_sd(w, a, b));
}

/* Returns the gain of a over b in throughput. */
static struct lk_gain gain(const struct lk_whatif_state *w, const struct lk_whatif_item *a,
                           const struct lk_whatif_item *b)
{
    struct lk_gain g = {.known = true, .ratio = NAN, .lo = NAN, .hi = NAN, .certainty = NAN};
    struct lk_estimate e = {.value = ratio(a, b, a->at.step_s, b->at.step_s)};
    size_t n = (size_t)w->request->draws;
    bool none = same(a, b);

    if (b->status != LK_OK)
        return g;
    g.certainty = certainty(w, a, b);
    if (set_ratios(w, a, b)) {
        for (size_t d = 0; d < n; d++)
            w->ratios[d] = none ? 1 : w->ratios[d] * w->resolution[d];
        e = lk_stats_interval(e.value, w->ratios, n, w->request->level);
    } else {
        e.lo = e.value * exp(-reach(w) * ratio_sd(w, a, b));
        e.hi = e.value * exp(reach(w) * ratio_sd(w, a, b));
    }
    g.ratio = e.value;
    g.lo = e.lo;
    g.hi = e.hi;
    return g;
}

bool lk_whatif_worded(const struct lk_whatif_state *w, enum lk_axis a)
{
    return w->request->axes[a].n && a != LK_AXIS_GPUS && a != LK_AXIS_LOCAL_BATCH &&
           a != LK_AXIS_ACCUMULATION && a != LK_AXIS_BUCKET_CAP;
}

/* Returns the word of a point's value on an axis that was asked for. */
static const char *word_of(const struct lk_whatif_state *w, const struct lk_whatif_item *i,
                           enum lk_axis a)
{
    return i->is_current ? "current" : w->request->axes[a].v[i->index[a]].text;
}

/* Sets the words of the axes that were asked for and that no number of the point says. */
static void set_words(const struct lk_whatif_state *w, const struct lk_whatif_item *i,
                      struct lk_forecast_point *p)
{
    size_t n = 0;

    for (int a = 0; a < LK_AXIS_COUNT; a++) {
        if (!lk_whatif_worded(w, (enum lk_axis)a))
            continue;
        if (lk_axis_matters((enum lk_axis)a, &i->s.config))
            snprintf(p->words[n], sizeof p->words[n], "%s", word_of(w, i, (enum lk_axis)a));
        n++;
    }
}

/* The efficiency gets no error of the resolution: it is one quantity, not a comparison. */
static enum lk_status add_point(struct lk_whatif_state *w, const struct lk_whatif_item *i)
{
    struct lk_whatif *o = w->out;
    const struct lk_whatif_item *r = i->reference < w->n_items ? &w->items[i->reference] : NULL;
    struct lk_forecast_point p;

    LK_PASS(lk_forecast_point_of(&i->at, r && r->status == LK_OK ? &r->at : NULL, w->request->level,
                                 &p));
    p.gain = gain(w, i, &w->items[i->current]);
    set_words(w, i, &p);
    LK_PASS(lk_forecast_add(&o->forecast, &p));
    o->scenarios[o->n_points++] = i->s;
    return LK_OK;
}

static void add_effect(struct lk_whatif_state *w, const struct lk_whatif_item *i)
{
    const struct lk_whatif_item *current = &w->items[i->current];
    struct lk_whatif_effect *e = &w->out->effects[w->out->n_effects];

    if (current->status != LK_OK)
        return;
    e->world_size = i->s.config.world_size;
    e->axis = i->axis;
    e->step_s = i->at.step_s;
    memcpy(e->word, w->request->axes[i->axis].v[i->value].text, sizeof e->word);
    e->gain = gain(w, i, current);
    w->out->n_effects++;
}

/* Draws the error of the model's resolution: draw i has the same factor in every gain. */
static enum lk_status set_resolution(struct lk_whatif_state *w)
{
    size_t n = (size_t)w->request->draws;

    LK_PASS(lk_alloc(&w->ratios, n, sizeof *w->ratios));
    LK_PASS(lk_alloc(&w->resolution, n, sizeof *w->resolution));
    for (size_t d = 0; d < n; d++) {
        struct lk_rng g = lk_rng_init(w->request->seed, lk_rng_stream("whatif.resolution", d));

        w->resolution[d] = exp(lk_prior_value(LK_PRIOR_RESOLUTION) * lk_rng_normal(&g));
    }
    return LK_OK;
}

static double device_bytes(const struct lk_whatif_state *w, const struct lk_whatif_item *i)
{
    return lk_plan_device_bytes(i->s.change.gpu ? i->s.change.gpu : w->source->cluster,
                                w->request->plan);
}

static void set_fit(const struct lk_whatif_state *w, struct lk_whatif_item *i)
{
    struct lk_memory m;

    if (w->source->knows < LK_KNOWS_RANKS)
        return;
    lk_memory_of(w->source->job, &i->s.config, &m);
    /* A device whose memory is not known (NaN) makes no point too large. */
    i->too_large = lk_memory_fit(&m, device_bytes(w, i)) == LK_MEMORY_TOO_LARGE;
}

static bool surely(const struct lk_whatif_state *w, double certainty)
{
    return certainty >= (1 + w->request->level) / 2;
}

static const struct lk_whatif_item *item_of(const struct lk_whatif_state *w, size_t point)
{
    return &w->items[w->point_items[point]];
}

/* A point with a batch outside the measured ones is shown, but is not named the best. */
static bool may_be_best(const struct lk_whatif_state *w, size_t point)
{
    const struct lk_whatif_item *i = item_of(w, point);

    return i->at.batch_extrapolation <= 1 && !i->too_large;
}

/* Returns the point of this count with the highest throughput of those that `take` accepts;
 * n_points: none. */
static size_t fastest(const struct lk_whatif_state *w, int world_size,
                      bool (*take)(const struct lk_whatif_state *w, size_t point))
{
    const struct lk_forecast_point *f = w->out->forecast.points;
    size_t n = w->out->n_points, best = n;

    for (size_t i = 0; i < n; i++)
        if (f[i].config.world_size == world_size && take(w, i) &&
            (best == n || f[i].throughput_per_s > f[best].throughput_per_s))
            best = i;
    return best;
}

static void mark_best(struct lk_whatif_state *w, int world_size)
{
    struct lk_forecast_point *f = w->out->forecast.points;
    size_t n = w->out->n_points, best = fastest(w, world_size, may_be_best);

    if (best == n)
        return;
    f[best].gain.verdict = LK_VERDICT_BEST;
    for (size_t i = 0; i < n; i++)
        if (i != best && f[i].config.world_size == world_size && may_be_best(w, i) &&
            !surely(w, certainty(w, item_of(w, best), item_of(w, i))))
            f[i].gain.verdict = LK_VERDICT_TIE;
}

/* ---- Notes ---- */

/* Writes "bucket cap 25MiB, accumulation 2": the axes that were asked for, without the GPUs. */
static void describe(const struct lk_whatif_state *w, size_t point, char *out, size_t size)
{
    const struct lk_whatif_item *i = item_of(w, point);
    size_t at = 0;

    snprintf(out, size, "%s", i->is_current ? "the current configuration" : "");
    for (int a = i->is_current ? LK_AXIS_COUNT : LK_AXIS_GPUS + 1; a < LK_AXIS_COUNT; a++) {
        size_t from = at;

        if (!w->request->axes[a].n || !lk_axis_matters((enum lk_axis)a, &i->s.config) || at >= size)
            continue;
        at += (size_t)snprintf(out + at, size - at, "%s%s ", at ? ", " : "",
                               lk_axis_option((enum lk_axis)a));
        for (char *dash = out + from; from < size && (dash = strchr(dash, '-')) != NULL;)
            *dash = ' ';
        if (at < size)
            at += (size_t)snprintf(out + at, size - at, "%s", word_of(w, i, (enum lk_axis)a));
    }
    if (!*out)
        snprintf(out, size, "the only one");
}

static bool is_best(const struct lk_whatif_state *w, size_t point)
{
    return w->out->forecast.points[point].gain.verdict == LK_VERDICT_BEST;
}

static bool is_too_large(const struct lk_whatif_state *w, size_t point)
{
    return item_of(w, point)->too_large;
}

/* Returns true if a step learns as the current one does: as many samples, exact gradients, no rank
 * that lags. */
static bool learns_the_same(const struct lk_whatif_state *w, size_t point)
{
    const struct lk_whatif_item *i = item_of(w, point);
    const struct lk_config *c = &i->s.config, *current = &w->items[i->current].s.config;
    bool exact = c->grad_dtype == LK_GRAD_OWN && c->compression == LK_COMPRESSION_NONE;
    bool together = c->sharding != LK_SHARDING_LOCAL_SGD && c->sharding != LK_SHARDING_DILOCO &&
                    c->sharding != LK_SHARDING_ASYNC;

    return exact && together && may_be_best(w, point) &&
           lk_config_samples(c) == lk_config_samples(current);
}

/* Writes "+22.0 % throughput (+15.0 to +30.0) against now, beyond the model's error". */
static void describe_gain(const struct lk_whatif_state *w, const struct lk_gain *g, char *out,
                          size_t size)
{
    const char *verdict = surely(w, g->certainty)       ? "beyond the model's error"
                          : surely(w, 1 - g->certainty) ? "surely worse"
                                                        : "within the model's error";

    if (isnan(g->ratio))
        snprintf(out, size, "no gain is known: the current configuration cannot be forecast");
    else
        snprintf(out, size, "%+.1f %% throughput (%+.1f to %+.1f) against now, %s",
                 100 * (g->ratio - 1), 100 * (g->lo - 1), 100 * (g->hi - 1), verdict);
}

/* Notes a faster point that does not fit in memory, and the sharding that would make it fit. */
static enum lk_status note_too_large(struct lk_whatif_state *w, int world_size, size_t best)
{
    struct lk_forecast *f = &w->out->forecast;
    size_t n = w->out->n_points, large = fastest(w, world_size, is_too_large);
    const struct lk_whatif_item *i;
    enum lk_sharding fits;
    char words[256];

    if (large == n ||
        (best < n && f->points[large].throughput_per_s < f->points[best].throughput_per_s))
        return LK_OK;
    describe(w, large, words, sizeof words);
    i = item_of(w, large);
    if (lk_memory_sharding_that_fits(w->source->job, &i->s.config, device_bytes(w, i), &fits))
        LK_PASS(lk_forecast_warn(f, "%s at %d GPUs does not fit in memory: %s; with %s it would.",
                                 best < n ? "What is faster" : "The fastest", world_size, words,
                                 lk_sharding_name(fits)));
    else
        LK_PASS(lk_forecast_warn(f, "%s at %d GPUs does not fit in memory, with no ZeRO stage: %s.",
                                 best < n ? "What is faster" : "The fastest", world_size, words));
    return LK_OK;
}

static bool is_current(const struct lk_whatif_state *w, size_t point)
{
    const struct lk_whatif_item *i = item_of(w, point);

    return i->is_current || same(i, &w->items[i->current]);
}

/* A sentence of the answer, or a note. */
typedef enum lk_status teller(struct lk_forecast *f, const char *fmt, ...);

static enum lk_status tell_best_of(struct lk_whatif_state *w, int world_size, size_t best,
                                   teller *tell)
{
    struct lk_forecast *f = &w->out->forecast;
    const char *gpus = world_size == 1 ? "GPU" : "GPUs";
    char words[256], gain[160], others[48] = "";
    size_t ties = 0;

    for (size_t i = 0; i < w->out->n_points; i++)
        ties += f->points[i].config.world_size == world_size &&
                f->points[i].gain.verdict == LK_VERDICT_TIE;
    if (ties)
        snprintf(others, sizeof others, "; %zu other%s with it", ties,
                 ties == 1 ? " ties" : "s tie");
    if (is_current(w, best))
        return tell(f, "At %d %s nothing asked for is faster than the current configuration%s.",
                    world_size, gpus, others);
    describe(w, best, words, sizeof words);
    describe_gain(w, &f->points[best].gain, gain, sizeof gain);
    return tell(f, "Best at %d %s: %s: %s%s.", world_size, gpus, words, gain, others);
}

static enum lk_status tell_best(struct lk_whatif_state *w, int world_size, teller *tell)
{
    struct lk_forecast *f = &w->out->forecast;
    size_t n = w->out->n_points, best = fastest(w, world_size, is_best), alike;
    char words[256], gain[160];

    if (best < n)
        LK_PASS(tell_best_of(w, world_size, best, tell));
    LK_PASS(note_too_large(w, world_size, best));
    alike = fastest(w, world_size, learns_the_same);
    if (best == n || alike == n || learns_the_same(w, best))
        return LK_OK;
    if (is_current(w, alike))
        return tell(f, "With the same global batch and exact, synchronous gradients, the current "
                       "configuration is best.");
    describe(w, alike, words, sizeof words);
    describe_gain(w, &f->points[alike].gain, gain, sizeof gain);
    return tell(f, "With the same global batch and exact, synchronous gradients, best is %s: %s.",
                words, gain);
}

/* Answers for the most GPUs, and where two counts were asked for, for both; notes the others. */
static enum lk_status tell_all_best(struct lk_whatif_state *w)
{
    enum { SAID_MAX = 2 };
    const struct lk_axis_value *v = w->request->axes[LK_AXIS_GPUS].v;
    size_t n = w->request->axes[LK_AXIS_GPUS].n, most = 0;

    for (size_t g = 1; g < n; g++)
        most = v[g].number.value > v[most].number.value ? g : most;
    LK_PASS(tell_best(w, (int)v[most].number.value, lk_forecast_say));
    for (size_t g = 0; g < n; g++)
        if (v[g].number.value != v[most].number.value)
            LK_PASS(tell_best(w, (int)v[g].number.value,
                              n <= SAID_MAX ? lk_forecast_say : lk_forecast_note));
    return LK_OK;
}

/* An averaging that runs beside the next step's compute costs what does not fit in there. */
static enum lk_status note_schemes(struct lk_whatif_state *w)
{
    struct lk_whatif *o = w->out;
    bool said[LK_SHARDING_COUNT] = {false};

    for (size_t i = 0; i < o->n_points; i++) {
        const struct lk_config *c = &o->scenarios[i].config;
        const struct lk_forecast_point *p = &o->forecast.points[i];
        double hidden = fmin(p->losses_s[LK_LOSS_WIRE], p->step_s / fmax(1, c->averaging_period));

        if (said[c->sharding])
            continue;
        said[c->sharding] = true;
        if (c->sharding == LK_SHARDING_ASYNC)
            LK_PASS(lk_forecast_warn(&o->forecast,
                                     "async: throughput without the barrier, each rank at its own "
                                     "pace; gradients are %d updates old on average at %d GPUs, "
                                     "and what that costs in convergence is not in the numbers",
                                     c->world_size - 1, c->world_size));
        if ((c->sharding == LK_SHARDING_LOCAL_SGD || c->sharding == LK_SHARDING_DILOCO) &&
            c->shard_group < 2)
            LK_PASS(lk_forecast_note(
                &o->forecast,
                "%s: an averaging stands alone, its cost spread over the period; overlapped with "
                "the step after it, %d GPUs would take %.4g s a step instead of %.4g; what the "
                "period costs in convergence is not in the numbers",
                lk_sharding_name(c->sharding), c->world_size, p->step_s - hidden, p->step_s));
    }
    return LK_OK;
}

/* Returns in *out whether PowerSGD takes a matrix for square; NULL: no point has it. */
static enum lk_status takes_for_square(const struct lk_job *j, const struct lk_config *power,
                                       bool *out)
{
    enum lk_status st = LK_OK;
    struct lk_volume v = {0};

    if (power)
        LK_TRY(lk_volume_init(&v, j, power));
    *out = v.shapes_assumed;
out:
    lk_volume_fini(&v);
    return st;
}

static enum lk_status note_compression(struct lk_whatif_state *w)
{
    struct lk_whatif *o = w->out;
    const struct lk_config *power = NULL; /* of the smallest rank, which compresses most */
    bool some = false, square;

    for (size_t i = 0; i < o->n_points; i++) {
        const struct lk_config *c = &o->scenarios[i].config;

        some |= c->compression != LK_COMPRESSION_NONE;
        if (c->compression == LK_COMPRESSION_POWERSGD &&
            (!power || c->powersgd_rank < power->powersgd_rank))
            power = c;
    }
    LK_PASS(takes_for_square(w->source->job, power, &square));
    if (square)
        LK_PASS(lk_forecast_assume(&o->forecast, "square matrices for PowerSGD",
                                   "where the job does not give their rows"));
    if (some && !lk_quantity_known(&w->source->cluster->device.memory_Bps))
        LK_PASS(lk_forecast_note(&o->forecast,
                                 "what a hook's casts and products take is not in the numbers: the "
                                 "cluster does not give device.memory_bandwidth"));
    return LK_OK;
}

static enum lk_status add_notes(struct lk_whatif_state *w)
{
    struct lk_whatif *o = w->out;
    struct lk_unvaried unvaried = {0};

    for (size_t i = 0; i < o->n_points; i++)
        lk_unvaried_add(&unvaried, &w->items[w->point_items[i]].at);
    LK_PASS(tell_all_best(w));
    LK_PASS(note_schemes(w));
    LK_PASS(note_compression(w));
    LK_PASS(lk_forecast_note_unvaried(&o->forecast, &unvaried));
    LK_PASS(lk_forecast_note_no_reference(&o->forecast, w->no_reference));
    LK_PASS(lk_forecast_note_left_out(&o->forecast, w->n_refused, w->refusal));
    return lk_forecast_note(&o->forecast, "the model's own error of a gain is %.0f %% (%s)",
                            100 * lk_prior_value(LK_PRIOR_RESOLUTION),
                            lk_prior_source(LK_PRIOR_RESOLUTION));
}

/* ---- The whole ---- */

enum lk_status lk_whatif_add_results(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    size_t n_asked_for = 0;

    LK_TRY(set_resolution(w));
    LK_TRY(lk_alloc(&w->point_items, w->n_items, sizeof *w->point_items));
    LK_TRY(lk_alloc(&w->out->scenarios, w->n_items, sizeof *w->out->scenarios));
    LK_TRY(lk_alloc(&w->out->effects, w->n_items, sizeof *w->out->effects));
    for (size_t i = 0; i < w->n_items; i++) {
        if (w->items[i].status != LK_OK)
            continue;
        if (w->items[i].role == LK_WHATIF_GRID) {
            w->point_items[w->out->n_points] = i;
            set_fit(w, &w->items[i]);
            n_asked_for += !w->items[i].is_current;
            LK_TRY(add_point(w, &w->items[i]));
        }
        if (w->items[i].role == LK_WHATIF_EFFECT)
            add_effect(w, &w->items[i]);
    }
    w->out->n_refused = w->n_refused;
    if (!n_asked_for) {
        st = lk_fail(LK_EEVIDENCE, "none of the %zu points can be forecast. The first: %s",
                     w->n_refused, w->refusal ? w->refusal : "no reason");
        goto out;
    }
    for (size_t g = 0; g < w->request->axes[LK_AXIS_GPUS].n; g++)
        mark_best(w, (int)w->request->axes[LK_AXIS_GPUS].v[g].number.value);
    LK_TRY(add_notes(w));
out:
    return st;
}

/* ---- Table ---- */

/* X(name, heading, dimension, digits, value): an effect's row. */
#define EFFECT_COLUMNS(X)                                                                          \
    X("gpus", "GPUs", LK_DIM_NONE, -1, e->world_size)                                              \
    X("axis", "axis", LK_DIM_NONE, -1, lk_axis_option(e->axis))                                    \
    X("value", "value", LK_DIM_NONE, -1, e->word)                                                  \
    X("step_s", "step", LK_DIM_TIME, -1, e->step_s)                                                \
    X("gain_pct", "gain, %", LK_DIM_NONE, 1, 100 * (e->gain.ratio - 1))                            \
    X("gain_lo_pct", "from", LK_DIM_NONE, 1, 100 * (e->gain.lo - 1))                               \
    X("gain_hi_pct", "to", LK_DIM_NONE, 1, 100 * (e->gain.hi - 1))                                 \
    X("certainty", "sure to gain", LK_DIM_NONE, LK_TABLE_PERCENT, e->gain.certainty)

static const struct lk_column effect_columns[] = {EFFECT_COLUMNS(LK_TABLE_COLUMN)};

enum lk_status lk_whatif_effect_table(const struct lk_whatif *w, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create("What each change brings alone: throughput against the current "
                           "configuration",
                           effect_columns, LK_COUNT(effect_columns), &t));
    for (size_t i = 0; i < w->n_effects; i++) {
        const struct lk_whatif_effect *e = &w->effects[i];

        LK_TRY(lk_table_row(t));
        EFFECT_COLUMNS(LK_TABLE_CELL)
    }
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
