/*
 * Back-tests.
 *
 * Divisions: baselines / items / all / error and table / answer.
 */
#include "sim/forecast/backtest.h"

#include "base/array.h"
#include "base/progress.h"
#include "facts/score.h"
#include "sim/prior.h"
#include "sim/step/measured_runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool lk_backtest_leaves(const struct lk_config *c, const struct lk_config *held, bool is_batch)
{
    return is_batch ? c->local_batch != held->local_batch : c->world_size < held->world_size;
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

/* Returns the rest's measurement with the nearest batch at the item's count and accumulation, other
 * than `except` (NULL: none); NULL: there is none. */
static const struct lk_measured *nearest_batch(const struct rest *rest,
                                               const struct lk_config *item,
                                               const struct lk_measured *except)
{
    const struct lk_measured *found = NULL;
    double nearest = INFINITY;

    for (size_t i = 0; i < rest->n; i++) {
        const struct lk_config *c = &rest->v[i].config;
        double d = fabs(log((double)c->local_batch / item->local_batch));

        if (isnan(rest->v[i].step_s) || c->world_size != item->world_size ||
            c->accumulation != item->accumulation || !(d < nearest) ||
            (except && c->local_batch == except->config.local_batch))
            continue;
        nearest = d;
        found = &rest->v[i];
    }
    return found;
}

/* Sets the baselines of a held-out batch: the time a sample of the nearest batch, and the line
 * through the nearest two. */
static void set_batch_baselines(const struct rest *rest, struct lk_backtest_item *item)
{
    const struct lk_measured *one = nearest_batch(rest, &item->config, NULL);
    const struct lk_measured *two = one ? nearest_batch(rest, &item->config, one) : NULL;
    double b = item->config.local_batch, x = one ? (double)one->config.local_batch : NAN;

    for (int k = 0; k < LK_BASELINE_COUNT; k++)
        item->baseline_s[k] = NAN;
    if (one)
        item->baseline_s[LK_BASELINE_PROPORTIONAL] = one->step_s * b / x;
    if (two)
        item->baseline_s[LK_BASELINE_LINE] =
            one->step_s + (two->step_s - one->step_s) * (b - x) / (two->config.local_batch - x);
}

/* ---- Items ---- */

/* Writes "8 GPUs from 1, 2, 4" or "local batch 8 from 4, 16": each value of the rest once,
 * ascending. */
static void describe(const struct rest *rest, const struct lk_backtest_item *item, char *out,
                     size_t size)
{
    size_t at =
        (size_t)snprintf(out, size, item->is_batch ? "local batch %d" : "%d GPUs",
                         item->is_batch ? item->config.local_batch : item->config.world_size);
    int last = 0;

    while (at < size) {
        int next = 0;

        for (size_t i = 0; i < rest->n; i++) {
            const struct lk_config *c = &rest->v[i].config;
            int v = item->is_batch ? c->local_batch : c->world_size;

            next = v > last && (!next || v < next) ? v : next;
        }
        if (!next)
            return;
        at += (size_t)snprintf(out + at, size - at, "%s%d", last ? ", " : " from ", next);
        last = next;
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
    (item->is_batch ? set_batch_baselines : set_scale_baselines)(rest, item);
}

/* Holds out the scale of a measured configuration, or its batch, and adds the item. */
static enum lk_status hold_out(const struct lk_evidence_source *e, const struct lk_measured *m,
                               bool is_batch, struct lk_backtests *out)
{
    enum lk_status st = LK_OK;
    struct lk_prediction p = {0};
    struct rest rest = {0};
    struct lk_backtest_item item = {
        .config = m->config, .is_batch = is_batch, .test.measured_s = m->step_s};

    st = e->ops->predict_held_out(e->self, &m->config, is_batch, &p);
    if (st == LK_EEVIDENCE)
        return out->refusal ? LK_OK : lk_strdup(&out->refusal, lk_error_text());
    LK_TRY(st);
    LK_TRY(lk_alloc(&rest.v, e->n_measured, sizeof *rest.v));
    for (size_t i = 0; i < e->n_measured; i++)
        if (lk_backtest_leaves(&e->measured[i].config, &m->config, is_batch))
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

/* Returns the measurement of the next batch above `last` with the fewest GPUs; NULL: none. */
static const struct lk_measured *next_batch(const struct lk_evidence_source *e, int last)
{
    const struct lk_measured *found = NULL;

    for (size_t i = 0; i < e->n_measured; i++) {
        const struct lk_measured *m = &e->measured[i];

        if (m->config.local_batch > last && !isnan(m->step_s) &&
            (!found || m->config.local_batch < found->config.local_batch ||
             (m->config.local_batch == found->config.local_batch &&
              m->config.world_size < found->config.world_size)))
            found = m;
    }
    return found;
}

/* Returns true if the k-th of n is one of `most` that are spread evenly; the last is. */
static bool is_picked(size_t k, size_t n, size_t most)
{
    return !most || n <= most || k * most / n != (k + 1) * most / n;
}

enum lk_status lk_backtest_run(const struct lk_evidence_source *e, double level, size_t most,
                               struct lk_backtests *out)
{
    enum lk_status st = LK_OK;
    const struct lk_measured *m = NULL;
    struct lk_backtests b = {.level = level};

    for (size_t i = 0; i < e->n_measured; i++) {
        lk_progress("measurement", (double)i, (double)e->n_measured);
        if (e->measured[i].config.world_size > 1 && !isnan(e->measured[i].step_s) &&
            is_picked(i, e->n_measured, most))
            LK_TRY(hold_out(e, &e->measured[i], false, &b));
    }
    for (size_t i = 0; (m = next_batch(e, m ? m->config.local_batch : -1)) && (!most || i < most);
         i++)
        LK_TRY(hold_out(e, m, true, &b));
    *out = b;
    b = (struct lk_backtests){0};
out:
    lk_backtests_fini(&b);
    return st;
}

void lk_backtests_fini(struct lk_backtests *b)
{
    free(b->items);
    free(b->refusal);
    memset(b, 0, sizeof *b);
}

/* ---- Error and table ---- */

/* The share of collectives in the steps of the runs behind the priors. */
static const double PRIOR_SHARE = 0.5;

/* Return true if a back-test tells the error of the scale; square: of it, less what one
 * configuration and one run differ by from the next, which is drawn apart. */
static bool tells_scale(const struct lk_backtest_item *item, double *square)
{
    double e = log(item->test.measured_s / item->test.predicted_s);
    double apart = hypot(lk_prior_value(LK_PRIOR_BASE_ERROR), lk_prior_value(LK_PRIOR_RUN_SD));

    *square = fmax(0, e * e - apart * apart);
    return !item->is_batch && item->scale_share > 0 && isfinite(e);
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

static double percent(double predicted, double measured)
{
    return 100 * (predicted / measured - 1);
}

/* X(name, heading, dimension, digits, value): an item's row. */
#define COLUMNS(X)                                                                                 \
    X("held_out", "held out", LK_DIM_NONE, -1, b->what)                                            \
    X("nodes", "nodes", LK_DIM_NONE, -1, item->config.nodes)                                       \
    X("local_batch", "local batch", LK_DIM_NONE, -1,                                               \
      item->config.local_batch > 0 ? (double)item->config.local_batch : NAN)                       \
    X("accumulation", "accum.", LK_DIM_NONE, -1, item->config.accumulation)                        \
    X("measured_s", "measured", LK_DIM_TIME, -1, b->measured_s)                                    \
    X("predicted_s", "predicted", LK_DIM_TIME, -1, b->predicted_s)                                 \
    X("lo_s", "from", LK_DIM_TIME, -1, b->lo_s)                                                    \
    X("hi_s", "to", LK_DIM_TIME, -1, b->hi_s)                                                      \
    X("error_percent", "error, %", LK_DIM_NONE, 1, percent(b->predicted_s, b->measured_s))         \
    X("inside", "inside", LK_DIM_NONE, -1,                                                         \
      b->measured_s >= b->lo_s && b->measured_s <= b->hi_s ? "yes" : "no")                         \
    X("proportional_percent", "proportional", LK_DIM_NONE, 1, BASELINE_(PROPORTIONAL))             \
    X("line_percent", "line", LK_DIM_NONE, 1, BASELINE_(LINE))                                     \
    X("amdahl_percent", "Amdahl", LK_DIM_NONE, 1, BASELINE_(AMDAHL))                               \
    X("pollux_percent", "Pollux", LK_DIM_NONE, 1, BASELINE_(POLLUX))
#define BASELINE_(which) percent(item->baseline_s[LK_BASELINE_##which], b->measured_s)

/* The last column is left out where no item knows the law. */
static const struct lk_column columns[] = {
    COLUMNS(LK_TABLE_COLUMN){"law_percent", "law alone", LK_DIM_NONE, 1}};

static bool knows_law(const struct lk_backtests *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->items[i].law_s > 0)
            return true;
    return false;
}

static enum lk_status add_row(struct lk_table *t, const struct lk_backtest_item *item)
{
    enum lk_status st = LK_OK;
    const struct lk_backtest *b = &item->test;

    LK_TRY(lk_table_row(t));
    COLUMNS(LK_TABLE_CELL)
    if (item->law_s > 0)
        LK_TRY(lk_table_number(t, "law_percent", percent(item->law_s, b->measured_s)));
out:
    return st;
}

enum lk_status lk_backtest_baseline_errors(const struct lk_backtests *b, enum lk_baseline baseline,
                                           struct lk_score_errors *out)
{
    enum lk_status st = LK_OK;
    double *measured = NULL, *predicted = NULL;

    LK_TRY(lk_alloc(&measured, b->n, sizeof *measured));
    LK_TRY(lk_alloc(&predicted, b->n, sizeof *predicted));
    for (size_t i = 0; i < b->n; i++) {
        measured[i] = b->items[i].test.measured_s;
        predicted[i] = b->items[i].baseline_s[baseline];
    }
    LK_TRY(lk_score_errors_of(measured, predicted, b->n, out));
out:
    free(measured);
    free(predicted);
    return st;
}

enum lk_status lk_backtest_score(const struct lk_backtests *b, struct lk_score *out)
{
    enum lk_status st = LK_OK;
    struct lk_scored *v = NULL;

    LK_TRY(lk_alloc(&v, b->n, sizeof *v));
    for (size_t i = 0; i < b->n; i++) {
        const struct lk_backtest *test = &b->items[i].test;

        v[i] = (struct lk_scored){test->measured_s, test->predicted_s, test->lo_s, test->hi_s};
    }
    LK_TRY(lk_score_of(v, b->n, b->level, out));
out:
    free(v);
    return st;
}

static enum lk_status add_summary(struct lk_table *t, const struct lk_backtests *b)
{
    struct lk_score score;

    LK_PASS(lk_backtest_score(b, &score));
    LK_PASS(lk_score_note(&score, t));
    for (int k = 0; k < LK_BASELINE_COUNT; k++) {
        struct lk_score_errors e;

        LK_PASS(lk_backtest_baseline_errors(b, (enum lk_baseline)k, &e));
        if (e.n)
            LK_PASS(lk_table_note(t,
                                  "%s, error of %zu: mean %.2f %%, median %.2f %%, worst %.2f %%",
                                  lk_baseline_text((enum lk_baseline)k), e.n, 100 * e.mean,
                                  100 * e.median, 100 * e.worst));
    }
    return lk_table_note(t, "of a local batch: proportional is the time a sample of the nearest "
                            "batch, line the one through the nearest two");
}

enum lk_status lk_backtest_table(const struct lk_backtests *b, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create("Runs that were held out and predicted from the others", columns,
                           LK_COUNT(columns) - !knows_law(b), &t));
    for (size_t i = 0; i < b->n; i++)
        LK_TRY(add_row(t, &b->items[i]));
    if (b->n)
        LK_TRY(add_summary(t, b));
    else
        LK_TRY(lk_table_note(t, "nothing could be held out: runs at two or more counts of GPUs, or "
                                "compute at three or more local batches, are needed"));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

/* ---- Answer ---- */

/* Append the mean error of each baseline that applies: "; baselines: proportional 4.3 %, ...". */
static enum lk_status append_baselines(const struct lk_backtests *b, char **text)
{
    bool any = false;

    for (int k = 0; k < LK_BASELINE_COUNT; k++) {
        struct lk_score_errors e;
        char *longer;

        LK_PASS(lk_backtest_baseline_errors(b, (enum lk_baseline)k, &e));
        if (!e.n)
            continue;
        LK_PASS(lk_asprintf(&longer, "%s%s %s %.1f %%", *text, any ? "," : "; simple baselines:",
                            lk_baseline_name((enum lk_baseline)k), 100 * e.mean));
        free(*text);
        *text = longer;
        any = true;
    }
    return LK_OK;
}

enum lk_status lk_backtest_answer(const struct lk_backtests *b, char **out)
{
    enum lk_status st = LK_OK;
    struct lk_score score;
    char *text = NULL, *longer;

    LK_TRY(lk_backtest_score(b, &score));
    LK_TRY(lk_asprintf(&text,
                       "%zu of %zu held-out runs lie%s inside the %.0f %% interval; mean error "
                       "%.1f %%, worst %.1f %%",
                       score.inside, score.n, score.n == 1 && score.inside == 1 ? "s" : "",
                       100 * b->level, 100 * score.errors.mean, 100 * score.errors.worst));
    LK_TRY(append_baselines(b, &text));
    LK_TRY(lk_asprintf(&longer, "%s.", text));
    *out = longer;
out:
    free(text);
    return st;
}
