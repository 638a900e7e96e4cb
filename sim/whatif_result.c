/* The results of a what-if: gains, efficiencies, and which point is best. */
#include "sim/whatif_state.h"

#include "base/array.h"
#include "base/rng.h"
#include "sim/memory.h"
#include "sim/prior.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Throughput of a GPU of a over one of b's, whose steps are these; the same GPUs, mostly. */
static double ratio(const struct lk_whatif_item *a, const struct lk_whatif_item *b, double a_s,
                    double b_s)
{
    return lk_whatif_samples(&a->s.config) / lk_whatif_samples(&b->s.config) * b->s.config.gpus /
           a->s.config.gpus * (b_s / a_s);
}

static bool same(const struct lk_whatif_item *a, const struct lk_whatif_item *b)
{
    return lk_config_equal(&a->s.config, &b->s.config) &&
           lk_change_equal(&a->s.change, &b->s.change);
}

/* That a has the higher throughput: the share of worlds and of what the model does not resolve. */
static double certainty(const struct lk_whatif_state *w, const struct lk_whatif_item *a,
                        const struct lk_whatif_item *b)
{
    double resolution = lk_prior_value(LK_PRIOR_BASE_ERROR), sure = 0;
    size_t n = (size_t)w->options.draws;

    for (size_t d = 0; d < n; d++)
        sure += 0.5 * erfc(-log(ratio(a, b, a->draws_s[d], b->draws_s[d])) / resolution / sqrt(2));
    return sure / (double)n;
}

static struct lk_estimate interval(const struct lk_whatif_state *w, double value)
{
    struct lk_estimate e = {.value = value, .n = (size_t)w->options.draws};

    e.lo = fmin(value, lk_stats_quantile(w->ratios, e.n, (1 - w->options.level) / 2));
    e.hi = fmax(value, lk_stats_quantile_sorted(w->ratios, e.n, (1 + w->options.level) / 2));
    return e;
}

/* Throughput of a over b's. */
static struct lk_gain gain(const struct lk_whatif_state *w, const struct lk_whatif_item *a,
                           const struct lk_whatif_item *b)
{
    struct lk_gain g = {.known = true, .ratio = NAN, .lo = NAN, .hi = NAN, .certainty = NAN};
    struct lk_estimate e;
    bool none = same(a, b);

    if (b->status != LK_OK)
        return g;
    for (size_t d = 0; d < (size_t)w->options.draws; d++)
        w->ratios[d] = none ? 1 : ratio(a, b, a->draws_s[d], b->draws_s[d]) * w->resolution[d];
    e = interval(w, ratio(a, b, a->at.step_s, b->at.step_s));
    g.ratio = e.value;
    g.lo = e.lo;
    g.hi = e.hi;
    g.certainty = certainty(w, a, b);
    return g;
}

/* Draws of efficiency have no resolution added: it is one quantity, not a comparison. */
static void set_efficiency(const struct lk_whatif_state *w, const struct lk_whatif_item *a,
                           struct lk_forecast_point *out)
{
    const struct lk_whatif_item *r = &w->items[a->reference];
    struct lk_estimate e;

    out->efficiency = out->efficiency_lo = out->efficiency_hi = NAN;
    if (r->status != LK_OK)
        return;
    for (size_t d = 0; d < (size_t)w->options.draws; d++)
        w->ratios[d] = ratio(a, r, a->draws_s[d], r->draws_s[d]);
    e = interval(w, ratio(a, r, a->at.step_s, r->at.step_s));
    out->efficiency = e.value;
    out->efficiency_lo = e.lo;
    out->efficiency_hi = e.hi;
}

bool lk_whatif_worded(const struct lk_whatif_state *w, enum lk_axis a)
{
    return w->request->axes[a].n && a != LK_AXIS_GPUS && a != LK_AXIS_LOCAL_BATCH &&
           a != LK_AXIS_ACCUMULATION && a != LK_AXIS_BUCKET_CAP;
}

static enum lk_status add_forecast_point(struct lk_whatif_state *w, const struct lk_whatif_item *i)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = &w->out->forecast;
    const struct lk_config *c = &i->s.config;
    struct lk_forecast_point p = {.gpus = c->gpus,
                                  .nodes = c->nodes,
                                  .local_batch = c->local_batch,
                                  .accumulation = c->accumulation,
                                  .cap_bytes = c->cap_bytes,
                                  .step_s = i->at.step_s,
                                  .step_lo_s = i->at.lo_s,
                                  .step_hi_s = i->at.hi_s,
                                  .throughput_per_s = lk_whatif_samples(c) / i->at.step_s,
                                  .evidence = i->at.evidence,
                                  .measured_step_s =
                                      i->at.evidence == LK_EVIDENCE_MEASURED ? i->at.step_s : NAN,
                                  .measured_lo_s = NAN,
                                  .measured_hi_s = NAN,
                                  .plan = lk_plan_none};

    memcpy(p.evidence_text, i->at.evidence_text, sizeof p.evidence_text);
    memcpy(p.losses_s, i->at.losses_s, sizeof p.losses_s);
    set_efficiency(w, i, &p);
    LK_TRY(lk_array_grow(&f->points, &f->points_capacity, f->n_points + 1, sizeof *f->points));
    f->points[f->n_points++] = p;
out:
    return st;
}

/* The words of the axes that were asked for and that the point's own numbers do not say. */
static void set_words(const struct lk_whatif_state *w, const struct lk_whatif_item *i,
                      struct lk_forecast_point *p)
{
    size_t n = 0;

    for (int a = 0; a < LK_AXIS_COUNT; a++) {
        if (!lk_whatif_worded(w, (enum lk_axis)a))
            continue;
        if (lk_axis_matters((enum lk_axis)a, &i->s.config))
            memcpy(p->words[n], w->request->axes[a].v[i->index[a]].text, sizeof p->words[n]);
        n++;
    }
}

static enum lk_status add_point(struct lk_whatif_state *w, const struct lk_whatif_item *i)
{
    enum lk_status st = LK_OK;
    struct lk_whatif *o = w->out;
    struct lk_forecast_point *p;

    LK_TRY(add_forecast_point(w, i));
    p = &o->forecast.points[o->n_points];
    p->gain = gain(w, i, &w->items[i->current]);
    set_words(w, i, p);
    o->scenarios[o->n_points++] = i->s;
out:
    return st;
}

static void add_effect(struct lk_whatif_state *w, const struct lk_whatif_item *i)
{
    const struct lk_whatif_item *current = &w->items[i->current];
    struct lk_whatif_effect *e = &w->out->effects[w->out->n_effects];

    if (current->status != LK_OK)
        return;
    e->gpus = i->s.config.gpus;
    e->axis = i->axis;
    e->step_s = i->at.step_s;
    memcpy(e->word, w->request->axes[i->axis].v[i->value].text, sizeof e->word);
    e->gain = gain(w, i, current);
    w->out->n_effects++;
}

/* A draw's resolution is one world's too: the same for every gain. */
static enum lk_status set_resolution(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    size_t n = (size_t)w->options.draws;

    LK_TRY(lk_alloc(&w->ratios, n, sizeof *w->ratios));
    LK_TRY(lk_alloc(&w->resolution, n, sizeof *w->resolution));
    for (size_t d = 0; d < n; d++) {
        struct lk_rng g = lk_rng_init(w->options.seed, lk_rng_stream("whatif.resolution", d));

        w->resolution[d] = exp(lk_prior_value(LK_PRIOR_BASE_ERROR) * lk_rng_normal(&g));
    }
out:
    return st;
}

static void set_fit(const struct lk_whatif_state *w, struct lk_whatif_item *i)
{
    const struct lk_cluster *device = i->s.change.gpu ? i->s.change.gpu : w->cluster;
    struct lk_memory m;

    lk_memory_of(w->job, &i->s.config, &m);
    i->too_large = lk_memory_fit(&m, lk_plan_device_bytes(device, w->request->plan)) ==
                   LK_MEMORY_TOO_LARGE; /* never where the device's is NaN */
}

enum lk_status lk_whatif_add_results(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;

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
            LK_TRY(add_point(w, &w->items[i]));
        }
        if (w->items[i].role == LK_WHATIF_EFFECT)
            add_effect(w, &w->items[i]);
    }
    w->out->n_refused = w->n_refused;
    if (!w->out->n_points)
        st = lk_fail(LK_EEVIDENCE, "none of the %zu points can be forecast. The first: %s",
                     w->n_refused, w->refusal ? w->refusal : "no reason");
out:
    return st;
}

bool lk_whatif_surely(const struct lk_whatif_state *w, double certainty)
{
    return certainty >= (1 + w->options.level) / 2;
}

const struct lk_whatif_item *lk_whatif_item_of(const struct lk_whatif_state *w, size_t point)
{
    return &w->items[w->point_items[point]];
}

/* A batch outside the measured ones is a guess: it is shown, and is not named the best. */
static bool may_be_best(const struct lk_whatif_item *i)
{
    return i->at.batch_reach <= 1 && !i->too_large;
}

void lk_whatif_mark_best(struct lk_whatif_state *w, int gpus)
{
    struct lk_forecast_point *f = w->out->forecast.points;
    size_t n = w->out->n_points, best = n;

    for (size_t i = 0; i < n; i++)
        if (f[i].gpus == gpus && may_be_best(lk_whatif_item_of(w, i)) &&
            (best == n || f[i].throughput_per_s > f[best].throughput_per_s))
            best = i;
    if (best == n)
        return;
    f[best].gain.verdict = LK_VERDICT_BEST;
    for (size_t i = 0; i < n; i++)
        if (i != best && f[i].gpus == gpus && may_be_best(lk_whatif_item_of(w, i)) &&
            !lk_whatif_surely(w, certainty(w, lk_whatif_item_of(w, best), lk_whatif_item_of(w, i))))
            f[i].gain.verdict = LK_VERDICT_TIE;
}
