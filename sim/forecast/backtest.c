/*
 * Back-tests.
 *
 * Divisions: views (jobs without what is held out) / items / all / error and table.
 */
#include "sim/forecast/backtest.h"

#include "base/array.h"
#include "base/score.h"
#include "base/stats.h"
#include "sim/prior.h"
#include "sim/step/measured_runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Views ---- */

/* Copies a job without its rows of compute and runs, for which it has room; their contents stay the
 * job's. */
static enum lk_status view_init(struct lk_job *v, const struct lk_job *j)
{
    enum lk_status st = LK_OK;

    *v = *j;
    v->compute = NULL;
    v->runs = NULL;
    v->n_compute = v->n_runs = 0;
    LK_TRY(lk_alloc(&v->compute, j->n_compute, sizeof *v->compute));
    LK_TRY(lk_alloc(&v->runs, j->n_runs, sizeof *v->runs));
out:
    return st;
}

static void view_fini(struct lk_job *v)
{
    free(v->compute);
    free(v->runs);
}

/*
 * Keeps what is left when a configuration's scale, or its batch, is held out: smaller runs and the
 * compute rows of batches that one of them has (a row whose batch only the held-out scale measured
 * came from it), or the runs and rows of other batches. Returns false if too little is left.
 */
static bool keep_rest(struct lk_job *v, const struct lk_job *j, const struct lk_config *c,
                      bool is_batch)
{
    for (size_t i = 0; i < j->n_runs; i++)
        if (is_batch ? j->runs[i].config.local_batch != c->local_batch
                     : j->runs[i].config.gpus < c->gpus)
            v->runs[v->n_runs++] = j->runs[i];
    for (size_t i = 0; i < j->n_compute; i++) {
        bool keep = is_batch && j->compute[i].local_batch != c->local_batch;

        for (size_t r = 0; r < v->n_runs && !is_batch; r++)
            keep |= v->runs[r].config.local_batch == j->compute[i].local_batch;
        if (keep)
            v->compute[v->n_compute++] = j->compute[i];
    }
    return is_batch ? v->n_compute > 1 : v->n_runs && v->n_compute;
}

/* ---- Items ---- */

/* Returns the mean step of the runs of a configuration; NaN: none. */
static double measured_step(const struct lk_runs *runs, const struct lk_config *c)
{
    size_t n;

    return lk_runs_mean(runs, c, &n);
}

static struct lk_scaling_point scale_point(const struct lk_config *c, double step_s)
{
    return (struct lk_scaling_point){.config = *c, .throughput = lk_config_samples(c) / step_s};
}

/* Fills the throughputs of the configuration at the counts that were run, ascending, at most `max`;
 * returns how many. */
static size_t scale_points(const struct lk_runs *runs, const struct lk_config *like,
                           struct lk_scaling_point *out, size_t max)
{
    const struct lk_job *j = runs->job;
    size_t n = 0;
    int last = 0;

    while (n < max) {
        struct lk_config c = *like;
        double step;

        c.gpus = 0;
        for (size_t i = 0; i < j->n_runs; i++) {
            const struct lk_config *r = &j->runs[i].config;

            if (r->local_batch == like->local_batch && r->accumulation == like->accumulation &&
                r->gpus > last && (!c.gpus || r->gpus < c.gpus)) {
                c.gpus = r->gpus;
                c.nodes = r->nodes;
            }
        }
        if (!c.gpus)
            break;
        last = c.gpus;
        step = measured_step(runs, &c);
        if (!isnan(step))
            out[n++] = scale_point(&c, step);
    }
    return n;
}

static void set_scale_baselines(const struct lk_runs *rest, struct lk_backtest_item *item)
{
    struct lk_scaling_point points[32], target = scale_point(&item->config, NAN);
    size_t n = scale_points(rest, &item->config, points, LK_COUNT(points));

    for (int b = 0; b < LK_BASELINE_COUNT; b++)
        item->baseline_s[b] = lk_config_samples(&item->config) /
                              lk_baseline_throughput((enum lk_baseline)b, points, n, &target);
}

/* Sets the baselines of a held-out batch: the time a sample of the nearest batch, and the line
 * through the nearest two. */
static void set_batch_baselines(const struct lk_runs *rest, struct lk_backtest_item *item)
{
    double b = item->config.local_batch, x[2] = {0}, y[2] = {0};
    int n = 0;

    for (size_t i = 0; i < rest->job->n_runs; i++) {
        struct lk_config c = rest->job->runs[i].config;
        double d = fabs(log(c.local_batch / b));

        if (c.gpus != item->config.gpus || c.accumulation != item->config.accumulation ||
            (n > 0 && c.local_batch == x[0]) || (n > 1 && c.local_batch == x[1]))
            continue;
        if (n == 0 || d < fabs(log(x[0] / b))) {
            x[1] = x[0];
            y[1] = y[0];
            x[0] = c.local_batch;
            y[0] = measured_step(rest, &c);
            n = n < 2 ? n + 1 : 2;
        } else if (n == 1 || d < fabs(log(x[1] / b))) {
            x[1] = c.local_batch;
            y[1] = measured_step(rest, &c);
            n = 2;
        }
    }
    for (int k = 0; k < LK_BASELINE_COUNT; k++)
        item->baseline_s[k] = NAN;
    if (n > 0)
        item->baseline_s[LK_BASELINE_PROPORTIONAL] = y[0] * b / x[0];
    if (n > 1)
        item->baseline_s[LK_BASELINE_LINE] = y[0] + (y[1] - y[0]) * (b - x[0]) / (x[1] - x[0]);
}

/* Returns the count of GPUs of the i-th run of the rest, or its i-th batch; 0 past the end. */
static int rest_value(const struct lk_job *rest, bool batches, size_t i)
{
    if (batches)
        return i < rest->n_compute ? rest->compute[i].local_batch : 0;
    return i < rest->n_runs ? rest->runs[i].config.gpus : 0;
}

/* Appends " from 1, 2, 4": each count or batch of the rest once, ascending. */
static void list_rest(const struct lk_job *rest, bool batches, char *buf, size_t size)
{
    size_t at = strlen(buf);
    int last = 0;

    for (;;) {
        int next = 0, v;

        for (size_t i = 0; (v = rest_value(rest, batches, i)) > 0; i++)
            if (v > last && (!next || v < next))
                next = v;
        if (!next || at >= size)
            return;
        at += (size_t)snprintf(buf + at, size - at, "%s%d", last ? ", " : " from ", next);
        last = next;
    }
}

/* Predicts the item from the rest. LK_EEVIDENCE: the rest has none. */
static enum lk_status predict_item(const struct lk_job *rest, const struct lk_cluster *cluster,
                                   const struct lk_predictor_options *options,
                                   struct lk_backtest_item *item)
{
    enum lk_status st = LK_OK;
    struct lk_predictor *p = NULL;
    struct lk_prediction got = {0};

    LK_TRY(lk_predictor_create(rest, cluster, options, &p));
    LK_TRY(lk_predictor_at(p, &item->config, &got));
    item->test.predicted_s = got.step_s;
    item->test.lo_s = got.lo_s;
    item->test.hi_s = got.hi_s;
out:
    lk_prediction_fini(&got);
    lk_predictor_destroy(p);
    return st;
}

/* Returns the extrapolation factor from the rest to the item, in GPUs or local batch. */
static double factor_of(const struct lk_job *rest, const struct lk_backtest_item *item)
{
    double batch = item->config.local_batch, gpus = 0;

    for (size_t i = 0; i < rest->n_runs; i++)
        gpus = fmax(gpus, rest->runs[i].config.gpus);
    if (!item->is_batch)
        return item->config.gpus / gpus;
    return fmax(1, fmax(batch / rest->compute[rest->n_compute - 1].local_batch,
                        rest->compute[0].local_batch / batch));
}

/* Holds out the scale of a configuration that was run, or its batch, and adds the item; without
 * enough evidence in the rest it adds nothing. */
static enum lk_status hold_out(const struct lk_job *j, const struct lk_cluster *cluster,
                               const struct lk_predictor_options *options,
                               const struct lk_config *c, bool is_batch, struct lk_backtests *out)
{
    enum lk_status st = LK_OK;
    struct lk_job v = {0};
    struct lk_runs all = {.job = j, .cluster = cluster}, rest = {.job = &v, .cluster = cluster};
    struct lk_backtest_item item = {.config = *c, .is_batch = is_batch};

    LK_TRY(view_init(&v, j));
    if (!keep_rest(&v, j, c, is_batch))
        goto out;
    item.test.measured_s = measured_step(&all, c);
    item.reach = factor_of(&v, &item);
    if (is_batch)
        snprintf(item.test.what, sizeof item.test.what, "local batch %d", c->local_batch);
    else
        snprintf(item.test.what, sizeof item.test.what, "%d GPUs", c->gpus);
    list_rest(&v, is_batch, item.test.what, sizeof item.test.what);
    st = predict_item(&v, cluster, options, &item);
    if (st == LK_EEVIDENCE) {
        st = LK_OK;
        goto out;
    }
    LK_TRY(st);
    (is_batch ? set_batch_baselines : set_scale_baselines)(&rest, &item);
    LK_TRY(lk_array_grow(&out->items, &out->capacity, out->n + 1, sizeof *out->items));
    out->items[out->n++] = item;
out:
    view_fini(&v);
    return st;
}

/* Returns the run with the fewest ranks of a batch; NULL: none. */
static const struct lk_job_run *smallest_run(const struct lk_job *j, int batch)
{
    const struct lk_job_run *found = NULL;

    for (size_t i = 0; i < j->n_runs; i++)
        if (j->runs[i].config.local_batch == batch && j->runs[i].n_steps &&
            (!found || j->runs[i].config.gpus < found->config.gpus))
            found = &j->runs[i];
    return found;
}

enum lk_status lk_backtest_all(const struct lk_job *job, const struct lk_cluster *cluster,
                               const struct lk_predictor_options *options, struct lk_backtests *out)
{
    enum lk_status st = LK_OK;
    struct lk_runs runs = {.job = job, .cluster = cluster};
    struct lk_backtests b = {
        .level = options->level,
        .prior_scale_error = lk_prior_value(lk_prior_of_scale(cluster->n_points, cluster->preset))};

    for (size_t i = 0; i < job->n_runs; i++)
        if (job->runs[i].config.gpus > 1 && lk_runs_is_first(&runs, i))
            LK_TRY(hold_out(job, cluster, options, &job->runs[i].config, false, &b));
    for (size_t i = 0; i < job->n_compute; i++) {
        const struct lk_job_run *run = smallest_run(job, job->compute[i].local_batch);

        if (run && lk_run_counts(cluster, run))
            LK_TRY(hold_out(job, cluster, options, &run->config, true, &b));
    }
    *out = b;
    b.items = NULL;
out:
    free(b.items);
    return st;
}

void lk_backtests_fini(struct lk_backtests *b)
{
    free(b->items);
    memset(b, 0, sizeof *b);
}

/* ---- Error and table ---- */

double lk_backtest_scale_error(const struct lk_backtests *b, size_t *out_n)
{
    double weight = lk_prior_value(LK_PRIOR_SCALE_TESTS), n = weight;
    double sum = weight * b->prior_scale_error * b->prior_scale_error;

    for (size_t i = 0; i < b->n; i++) {
        const struct lk_backtest_item *item = &b->items[i];
        double e = log(item->test.measured_s / item->test.predicted_s);

        if (item->is_batch || !(item->reach > 1) || !isfinite(e))
            continue;
        e /= log2(item->reach);
        sum += e * e;
        n++;
    }
    *out_n = (size_t)(n - weight);
    return sqrt(sum / n);
}

enum lk_status lk_backtest_calibrate(const struct lk_job *job, const struct lk_cluster *cluster,
                                     struct lk_predictor_options *options, struct lk_backtests *out)
{
    enum lk_status st = LK_OK;

    options->scale_error = NAN;
    LK_TRY(lk_backtest_all(job, cluster, options, out));
    options->scale_error = lk_backtest_scale_error(out, &options->scale_tests);
out:
    return st;
}

static double percent(double predicted, double measured)
{
    return 100 * (predicted / measured - 1);
}

/* X(name, heading, dimension, digits, value): an item's row. */
#define COLUMNS(X)                                                                                 \
    X("held_out", "held out", LK_DIM_NONE, -1, b->what)                                            \
    X("local_batch", "local batch", LK_DIM_NONE, -1, item->config.local_batch)                     \
    X("measured_s", "measured", LK_DIM_TIME, -1, b->measured_s)                                    \
    X("predicted_s", "predicted", LK_DIM_TIME, -1, b->predicted_s)                                 \
    X("lo_s", "from", LK_DIM_TIME, -1, b->lo_s)                                                    \
    X("hi_s", "to", LK_DIM_TIME, -1, b->hi_s)                                                      \
    X("error_percent", "error %", LK_DIM_NONE, 2, percent(b->predicted_s, b->measured_s))          \
    X("inside", "inside", LK_DIM_NONE, -1,                                                         \
      b->measured_s >= b->lo_s && b->measured_s <= b->hi_s ? "yes" : "no")                         \
    X("proportional_percent", "proportional", LK_DIM_NONE, 2, BASELINE_(PROPORTIONAL))             \
    X("line_percent", "line", LK_DIM_NONE, 2, BASELINE_(LINE))                                     \
    X("amdahl_percent", "Amdahl", LK_DIM_NONE, 2, BASELINE_(AMDAHL))                               \
    X("pollux_percent", "Pollux", LK_DIM_NONE, 2, BASELINE_(POLLUX))
#define BASELINE_(which) percent(item->baseline_s[LK_BASELINE_##which], b->measured_s)

static const struct lk_column columns[] = {COLUMNS(LK_TABLE_COLUMN)};

static enum lk_status add_row(struct lk_table *t, const struct lk_backtest_item *item)
{
    enum lk_status st = LK_OK;
    const struct lk_backtest *b = &item->test;

    LK_TRY(lk_table_row(t));
    COLUMNS(LK_TABLE_CELL)
out:
    return st;
}

/* Computes the errors of one baseline, on the points where it applies. */
static enum lk_status baseline_errors(const struct lk_backtests *b, int baseline,
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

static enum lk_status add_summary(struct lk_table *t, const struct lk_backtests *b)
{
    enum lk_status st = LK_OK;
    struct lk_scored *v = NULL;
    struct lk_score score;

    LK_TRY(lk_alloc(&v, b->n, sizeof *v));
    for (size_t i = 0; i < b->n; i++) {
        const struct lk_backtest *test = &b->items[i].test;

        v[i] = (struct lk_scored){test->measured_s, test->predicted_s, test->lo_s, test->hi_s};
    }
    LK_TRY(lk_score_of(v, b->n, b->level, &score));
    LK_TRY(lk_score_note(&score, t));
    for (int k = 0; k < LK_BASELINE_COUNT; k++) {
        struct lk_score_errors e;

        LK_TRY(baseline_errors(b, k, &e));
        if (e.n)
            LK_TRY(lk_table_note(t, "%s, error of %zu: mean %.2f %%, median %.2f %%, worst %.2f %%",
                                 lk_baseline_text((enum lk_baseline)k), e.n, 100 * e.mean,
                                 100 * e.median, 100 * e.worst));
    }
    LK_TRY(lk_table_note(t, "of a local batch: proportional is the time a sample of the nearest "
                            "batch, line the one through the nearest two"));
out:
    free(v);
    return st;
}

enum lk_status lk_backtest_table(const struct lk_backtests *b, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create("predictions of what was held out", columns, LK_COUNT(columns), &t));
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
