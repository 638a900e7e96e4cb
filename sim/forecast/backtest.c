/*
 * Back-tests.
 *
 * Divisions: what is left / baselines / items / all / the scale's error.
 */
#include "sim/forecast/backtest.h"

#include "base/array.h"
#include "base/progress.h"
#include "base/units.h"
#include "facts/score.h"
#include "sim/prior.h"
#include "sim/step/measured_runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is left ---- */

static bool same_cap(const struct lk_config *a, const struct lk_config *b)
{
    return a->cap_bytes == b->cap_bytes && lk_config_replicas(a) > 1;
}

bool lk_backtest_leaves(const struct lk_config *c, const struct lk_config *of, enum lk_held held)
{
    switch (held) {
    case LK_HELD_BATCH:
        return c->local_batch != of->local_batch;
    case LK_HELD_CAP:
        return !same_cap(c, of);
    case LK_HELD_ACCUMULATION:
        return c->accumulation != of->accumulation;
    case LK_HELD_SETTING:
        return !same_cap(c, of) || c->accumulation != of->accumulation;
    default:
        return c->world_size < of->world_size;
    }
}

/* Returns the number that a kind holds out; of a setting its bucket cap. */
static uint64_t held_of(const struct lk_config *c, enum lk_held held)
{
    switch (held) {
    case LK_HELD_SCALE:
        return (uint64_t)c->world_size;
    case LK_HELD_BATCH:
        return (uint64_t)c->local_batch;
    case LK_HELD_ACCUMULATION:
        return (uint64_t)c->accumulation;
    default:
        return c->cap_bytes;
    }
}

/* The measured configurations that are left. */
struct rest {
    struct lk_measured *v;
    size_t n;
};

/* ---- Baselines ---- */

static struct lk_scaling_point scale_point(const struct lk_config *c, double step_s)
{
    return (struct lk_scaling_point){.config = *c, .throughput = lk_config_samples(c) / step_s};
}

/* Returns the rest's measurement of the configuration at its next count above `last`; NULL: none.
 */
static const struct lk_measured *next_count(const struct rest *rest, const struct lk_config *like,
                                            int last)
{
    const struct lk_measured *found = NULL;

    for (size_t i = 0; i < rest->n; i++) {
        const struct lk_measured *m = &rest->v[i];
        struct lk_config c = *like;

        c.world_size = m->config.world_size;
        c.nodes = m->config.nodes;
        if (c.world_size > last && (!found || c.world_size < found->config.world_size) &&
            !isnan(m->step_s) && lk_runs_same_config(&m->config, &c))
            found = m;
    }
    return found;
}

/* Sets the baselines of a held-out scale from the same batch at smaller counts. */
static void set_scale_baselines(const struct rest *rest, struct lk_backtest_item *item)
{
    struct lk_scaling_point points[LK_BASELINE_POINTS_MAX],
        target = scale_point(&item->config, NAN);
    const struct lk_measured *m = NULL;
    size_t n = 0;

    while (n < LK_COUNT(points) &&
           (m = next_count(rest, &item->config, m ? m->config.world_size : 0)) != NULL)
        points[n++] = scale_point(&m->config, m->step_s);
    for (int b = 0; b < LK_BASELINE_COUNT; b++)
        item->baseline_s[b] = lk_config_samples(&item->config) /
                              lk_baseline_throughput((enum lk_baseline)b, points, n, &target);
}

/* Returns the rest's measurement with the nearest value at the item's count, and its batch or its
 * accumulation, whichever is not held out; other than `except` (NULL: none); NULL: there is none.
 */
static const struct lk_measured *nearest(const struct rest *rest,
                                         const struct lk_backtest_item *item,
                                         const struct lk_measured *except)
{
    const struct lk_measured *found = NULL;
    const struct lk_config *of = &item->config;
    double least = INFINITY, x = (double)held_of(of, item->held);

    for (size_t i = 0; i < rest->n; i++) {
        const struct lk_config *c = &rest->v[i].config;
        uint64_t value = held_of(c, item->held);
        double d = fabs(log((double)value / x));

        if (isnan(rest->v[i].step_s) || c->world_size != of->world_size ||
            (item->held != LK_HELD_ACCUMULATION && c->accumulation != of->accumulation) ||
            (item->held != LK_HELD_BATCH && c->local_batch != of->local_batch) || !(d < least) ||
            (except && value == held_of(&except->config, item->held)))
            continue;
        least = d;
        found = &rest->v[i];
    }
    return found;
}

/* Sets the baselines of a held-out batch, accumulation or cap: the time a sample of the nearest,
 * and the line through the nearest two; a cap has no line. */
static void set_value_baselines(const struct rest *rest, struct lk_backtest_item *item)
{
    const struct lk_measured *one = nearest(rest, item, NULL);
    const struct lk_measured *two =
        one && item->held != LK_HELD_CAP ? nearest(rest, item, one) : NULL;
    double b = (double)held_of(&item->config, item->held);
    double x = one ? (double)held_of(&one->config, item->held) : NAN;

    if (one)
        item->baseline_s[LK_BASELINE_PROPORTIONAL] =
            one->step_s * lk_config_samples(&item->config) / lk_config_samples(&one->config);
    if (two)
        item->baseline_s[LK_BASELINE_LINE] =
            one->step_s +
            (two->step_s - one->step_s) * (b - x) / ((double)held_of(&two->config, item->held) - x);
}

static void set_baselines(const struct rest *rest, struct lk_backtest_item *item)
{
    for (int k = 0; k < LK_BASELINE_COUNT; k++)
        item->baseline_s[k] = NAN;
    if (item->held == LK_HELD_SCALE)
        set_scale_baselines(rest, item);
    else if (item->held != LK_HELD_SETTING)
        set_value_baselines(rest, item);
}

/* ---- Items ---- */

/* Writes a value: "8 GPUs", "local batch 8", "bucket cap 1.00 MiB"; `bare` without its name. */
static void name_value(const struct lk_config *c, enum lk_held held, bool bare, char *out,
                       size_t size)
{
    static const char *const names[LK_HELD_COUNT] = {[LK_HELD_BATCH] = "local batch ",
                                                     [LK_HELD_CAP] = "bucket cap ",
                                                     [LK_HELD_ACCUMULATION] = "accumulation ",
                                                     [LK_HELD_SETTING] = "bucket cap "};
    const char *name = bare || !names[held] ? "" : names[held];
    char text[32];

    if (held == LK_HELD_CAP || held == LK_HELD_SETTING)
        (void)lk_units_format(LK_DIM_BYTES, (double)c->cap_bytes, text, sizeof text);
    else
        snprintf(text, sizeof text, "%llu", (unsigned long long)held_of(c, held));
    snprintf(out, size, "%s%s%s", name, text, held == LK_HELD_SCALE && !bare ? " GPUs" : "");
}

/* Writes "8 GPUs from 1, 2, 4" or "local batch 8 from 4, 16": each value of the rest once,
 * ascending; of a setting "bucket cap 1.00 MiB with accumulation 4". */
static void describe(const struct rest *rest, const struct lk_backtest_item *item, char *out,
                     size_t size)
{
    const struct lk_config *next;
    uint64_t last = 0;
    size_t at;

    name_value(&item->config, item->held, false, out, size);
    at = strlen(out);
    if (item->held == LK_HELD_SETTING) {
        snprintf(out + at, size - at, " with accumulation %d", item->config.accumulation);
        return;
    }
    for (bool first = true; at < size; first = false) {
        char text[32];

        next = NULL;
        for (size_t i = 0; i < rest->n; i++) {
            const struct lk_config *c = &rest->v[i].config;

            if (held_of(c, item->held) > last &&
                (item->held != LK_HELD_CAP || lk_config_replicas(c) > 1) &&
                (!next || held_of(c, item->held) < held_of(next, item->held)))
                next = c;
        }
        if (!next)
            return;
        name_value(next, item->held, true, text, sizeof text);
        at += (size_t)snprintf(out + at, size - at, "%s%s", first ? " from " : ", ", text);
        last = held_of(next, item->held);
    }
}

static void set_item(const struct rest *rest, const struct lk_prediction *p,
                     struct lk_backtest_item *item)
{
    item->test.predicted_s = p->step_s;
    item->test.lo_s = p->lo_s;
    item->test.hi_s = p->hi_s;
    item->scale_share = p->scale_share;
    item->law_s = p->law_s;
    describe(rest, item, item->test.what, sizeof item->test.what);
    set_baselines(rest, item);
}

/* Holds this of a measured configuration out, and adds the item. */
static enum lk_status hold_out(const struct lk_evidence_source *e, const struct lk_measured *m,
                               enum lk_held held, struct lk_backtests *out)
{
    enum lk_status st = LK_OK;
    struct lk_prediction p = {0};
    struct rest rest = {0};
    struct lk_backtest_item item = {
        .config = m->config, .held = held, .test.measured_s = m->step_s};

    st = e->ops->predict_held_out(e->self, &m->config, held, &p);
    if (st == LK_EEVIDENCE)
        return out->refusal ? LK_OK : lk_strdup(&out->refusal, lk_error_text());
    LK_TRY(st);
    LK_TRY(lk_alloc(&rest.v, e->n_measured, sizeof *rest.v));
    for (size_t i = 0; i < e->n_measured; i++)
        if (lk_backtest_leaves(&e->measured[i].config, &m->config, held))
            rest.v[rest.n++] = e->measured[i];
    set_item(&rest, &p, &item);
    LK_TRY(lk_array_grow(&out->items, &out->capacity, out->n + 1, sizeof *out->items));
    out->items[out->n++] = item;
out:
    lk_prediction_fini(&p);
    free(rest.v);
    return st;
}

/* ---- All ---- */

/* Returns true if a measurement tells what a held-out kind does: another of the same GPUs and batch
 * is left, and of the same accumulation or cap, if only the other is held out. */
static bool tells(const struct lk_evidence_source *e, const struct lk_config *c, enum lk_held held)
{
    if (held == LK_HELD_BATCH)
        return true;
    if (held == LK_HELD_SETTING)
        return tells(e, c, LK_HELD_CAP) && tells(e, c, LK_HELD_ACCUMULATION);
    for (size_t i = 0; i < e->n_measured; i++) {
        const struct lk_config *of = &e->measured[i].config;

        if (!isnan(e->measured[i].step_s) && of->world_size == c->world_size &&
            of->local_batch == c->local_batch && lk_backtest_leaves(of, c, held) &&
            (held == LK_HELD_CAP ? lk_config_replicas(c) > 1 && of->accumulation == c->accumulation
                                 : of->cap_bytes == c->cap_bytes))
            return true;
    }
    return false;
}

/* Returns true if a configuration comes before another of the same held-out value: batches on the
 * fewest GPUs, whose compute they are; caps and accumulations on the most, which communicate. */
static bool comes_first(const struct lk_config *a, const struct lk_config *b, enum lk_held held)
{
    if (a->world_size == b->world_size)
        return held == LK_HELD_CAP && a->accumulation < b->accumulation;
    return (a->world_size < b->world_size) == (held == LK_HELD_BATCH);
}

/* Returns the measurement of the next value above `last` to be held out; NULL: none. */
static const struct lk_measured *next_value(const struct lk_evidence_source *e, enum lk_held held,
                                            uint64_t last)
{
    const struct lk_measured *found = NULL;

    for (size_t i = 0; i < e->n_measured; i++) {
        const struct lk_measured *m = &e->measured[i];
        uint64_t value = held_of(&m->config, held);

        if (value > last && !isnan(m->step_s) && tells(e, &m->config, held) &&
            (!found || value < held_of(&found->config, held) ||
             (value == held_of(&found->config, held) &&
              comes_first(&m->config, &found->config, held))))
            found = m;
    }
    return found;
}

/* Holds out each batch, cap or accumulation. */
static enum lk_status hold_out_values(const struct lk_evidence_source *e, enum lk_held held,
                                      size_t most, struct lk_backtests *out)
{
    const struct lk_measured *m = NULL;

    for (size_t i = 0; !most || i < most; i++) {
        m = next_value(e, held, m ? held_of(&m->config, held) : 0);
        if (!m)
            break;
        LK_PASS(hold_out(e, m, held, out));
    }
    return LK_OK;
}

/* Holds out each pair of a cap and an accumulation, on the most GPUs that tell it. */
static enum lk_status hold_out_settings(const struct lk_evidence_source *e, size_t most,
                                        struct lk_backtests *out)
{
    int gpus = 0;
    size_t n = 0;

    for (size_t i = 0; i < e->n_measured; i++)
        if (e->measured[i].config.world_size > gpus &&
            tells(e, &e->measured[i].config, LK_HELD_SETTING))
            gpus = e->measured[i].config.world_size;
    for (size_t i = 0; i < e->n_measured && (!most || n < most); i++) {
        const struct lk_measured *m = &e->measured[i];

        if (m->config.world_size == gpus && !isnan(m->step_s) &&
            tells(e, &m->config, LK_HELD_SETTING)) {
            LK_PASS(hold_out(e, m, LK_HELD_SETTING, out));
            n++;
        }
    }
    return LK_OK;
}

/* Returns true if the k-th of n is one of `most` that are spread evenly; the last is. */
static bool is_picked(size_t k, size_t n, size_t most)
{
    return !most || n <= most || k * most / n != (k + 1) * most / n;
}

static enum lk_status hold_out_scales(const struct lk_evidence_source *e, size_t most,
                                      struct lk_backtests *out)
{
    for (size_t i = 0; i < e->n_measured; i++) {
        lk_progress("measurement", (double)i, (double)e->n_measured);
        if (lk_config_replicas(&e->measured[i].config) > 1 && !isnan(e->measured[i].step_s) &&
            is_picked(i, e->n_measured, most))
            LK_PASS(hold_out(e, &e->measured[i], LK_HELD_SCALE, out));
    }
    return LK_OK;
}

static enum lk_status run_kinds(const struct lk_evidence_source *e, double level, size_t most,
                                bool scales_only, struct lk_backtests *out)
{
    enum lk_status st = LK_OK;
    struct lk_backtests b = {.level = level};

    LK_TRY(hold_out_scales(e, most, &b));
    for (int held = LK_HELD_BATCH; held < LK_HELD_SETTING && !scales_only; held++)
        LK_TRY(hold_out_values(e, (enum lk_held)held, most, &b));
    if (!scales_only)
        LK_TRY(hold_out_settings(e, most, &b));
    *out = b;
    b = (struct lk_backtests){0};
out:
    lk_backtests_fini(&b);
    return st;
}

enum lk_status lk_backtest_run(const struct lk_evidence_source *e, double level, size_t most,
                               struct lk_backtests *out)
{
    return run_kinds(e, level, most, false, out);
}

enum lk_status lk_backtest_run_scales(const struct lk_evidence_source *e, double level,
                                      struct lk_backtests *out)
{
    return run_kinds(e, level, 0, true, out);
}

void lk_backtests_fini(struct lk_backtests *b)
{
    free(b->items);
    free(b->refusal);
    memset(b, 0, sizeof *b);
}

/* ---- The scale's error ---- */

/* The share of collectives in the steps of the runs behind the priors. */
static const double PRIOR_SHARE = 0.5;

/* Return true if a back-test tells the error of the scale; square: of it, less what one
 * configuration and one run differ by from the next, which is drawn apart. */
static bool tells_scale(const struct lk_backtest_item *item, double *square)
{
    double e = log(item->test.measured_s / item->test.predicted_s);
    double apart = hypot(lk_prior_value(LK_PRIOR_BASE_ERROR), lk_prior_value(LK_PRIOR_RUN_SD));

    *square = fmax(0, e * e - apart * apart);
    return item->held == LK_HELD_SCALE && item->scale_share > 0 && isfinite(e);
}

/* Add the squares of the errors and shares of all tests of the jump to item i's GPUs, which err
 * alike: they are one test. Return false if an item before i has them, or none tells. */
static bool add_jump(const struct lk_backtests *b, size_t i, double *errors, double *shares)
{
    double square, e = 0, s = 0, tests = 0;

    if (!tells_scale(&b->items[i], &square))
        return false;
    for (size_t k = 0; k < b->n; k++) {
        const struct lk_backtest_item *item = &b->items[k];

        if (item->config.world_size != b->items[i].config.world_size || !tells_scale(item, &square))
            continue;
        if (k < i)
            return false;
        e += square;
        s += item->scale_share * item->scale_share;
        tests++;
    }
    *errors += e / tests;
    *shares += s / tests;
    return true;
}

double lk_backtest_scale_error(const struct lk_backtests *b, enum lk_prior prior, size_t *out_n)
{
    double one = lk_prior_value(prior);
    double shares = (double)lk_prior_scale_tests(prior) * PRIOR_SHARE * PRIOR_SHARE;
    double errors = shares * one * one;

    *out_n = 0;
    for (size_t i = 0; i < b->n; i++)
        *out_n += add_jump(b, i, &errors, &shares);
    return sqrt(errors / shares);
}

enum lk_status lk_backtest_add(const struct lk_backtests *b, struct lk_forecast *out)
{
    LK_PASS(lk_array_grow(&out->backtests, &out->backtests_capacity, out->n_backtests + b->n,
                          sizeof *out->backtests));
    for (size_t i = 0; i < b->n; i++)
        out->backtests[out->n_backtests++] = b->items[i].test;
    return LK_OK;
}
