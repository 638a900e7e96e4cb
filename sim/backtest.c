/*
 * Back-tests.
 *
 * Divisions: views (a job without what is held out) / items / all / error and table.
 */
#include "sim/backtest.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/prior.h"
#include "sim/run_group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Views ---- */

/* A job's rows without some; the contents are the job's. */
struct view {
    struct lk_job job;
};

static enum lk_status view_init(struct view *v, const struct lk_job *j)
{
    enum lk_status st = LK_OK;

    v->job = *j;
    v->job.compute = NULL;
    v->job.runs = NULL;
    v->job.n_compute = v->job.n_runs = 0;
    LK_TRY(lk_alloc(&v->job.compute, j->n_compute, sizeof *v->job.compute));
    LK_TRY(lk_alloc(&v->job.runs, j->n_runs, sizeof *v->job.runs));
out:
    return st;
}

static void view_fini(struct view *v)
{
    free(v->job.compute);
    free(v->job.runs);
}

/*
 * Smaller runs only, and the compute rows of batches that some smaller run has: a row whose batch
 * only the held-out scale measured came from it.
 */
static void keep_smaller(struct view *v, const struct lk_job *j, int gpus)
{
    for (size_t i = 0; i < j->n_runs; i++)
        if (j->runs[i].gpus < gpus)
            v->job.runs[v->job.n_runs++] = j->runs[i];
    for (size_t i = 0; i < j->n_compute; i++)
        for (size_t r = 0; r < v->job.n_runs; r++)
            if (v->job.runs[r].local_batch == j->compute[i].local_batch) {
                v->job.compute[v->job.n_compute++] = j->compute[i];
                break;
            }
}

static void keep_other_batches(struct view *v, const struct lk_job *j, int batch)
{
    for (size_t i = 0; i < j->n_runs; i++)
        if (j->runs[i].local_batch != batch)
            v->job.runs[v->job.n_runs++] = j->runs[i];
    for (size_t i = 0; i < j->n_compute; i++)
        if (j->compute[i].local_batch != batch)
            v->job.compute[v->job.n_compute++] = j->compute[i];
}

/* ---- Items ---- */

static bool same_but_gpus(const struct lk_config *a, const struct lk_config *b)
{
    return a->local_batch == b->local_batch && a->accumulation == b->accumulation &&
           (a->no_sync == b->no_sync || a->accumulation == 1);
}

/* Mean step of the runs of a configuration; NaN: none. */
static double measured_step(const struct lk_job *j, const struct lk_config *c)
{
    double sum = 0, n = 0;

    for (size_t i = 0; i < j->n_runs; i++) {
        struct lk_config r = lk_config_of_run(&j->runs[i]);

        if (r.gpus != c->gpus || !same_but_gpus(&r, c) || !j->runs[i].n_steps ||
            (c->gpus > 1 && (r.cap_bytes != c->cap_bytes || r.first_bytes != c->first_bytes)))
            continue;
        sum += lk_stats_mean(j->runs[i].step_s, j->runs[i].n_steps);
        n++;
    }
    return n > 0 ? sum / n : NAN;
}

static struct lk_scale_point scale_point(const struct lk_config *c, double step_s)
{
    return (struct lk_scale_point){.gpus = c->gpus,
                                   .throughput =
                                       (double)c->gpus * c->local_batch * c->accumulation / step_s,
                                   .nodes = c->nodes,
                                   .local_batch = c->local_batch,
                                   .accumulation = c->accumulation};
}

/* Throughputs of the same job at the view's counts, ascending; at most `max`. */
static size_t scale_points(const struct lk_job *j, const struct lk_config *like,
                           struct lk_scale_point *out, size_t max)
{
    size_t n = 0;
    int last = 0;

    while (n < max) {
        struct lk_config c = *like;
        double step;

        c.gpus = 0;
        for (size_t i = 0; i < j->n_runs; i++) {
            struct lk_config r = lk_config_of_run(&j->runs[i]);

            if (same_but_gpus(&r, like) && r.gpus > last && (!c.gpus || r.gpus < c.gpus))
                c.gpus = r.gpus;
        }
        if (!c.gpus)
            break;
        last = c.gpus;
        step = measured_step(j, &c);
        if (!isnan(step))
            out[n++] = scale_point(&c, step);
    }
    return n;
}

static void set_scale_baselines(const struct lk_job *rest, struct lk_backtest_item *item)
{
    struct lk_scale_point points[32];
    size_t n = scale_points(rest, &item->config, points, LK_COUNT(points));
    const struct lk_config *c = &item->config;
    struct lk_scale_point target = scale_point(c, NAN);

    for (int b = 0; b < LK_BASELINE_COUNT; b++)
        item->baseline_s[b] = (double)c->gpus * c->local_batch * c->accumulation /
                              lk_baseline_throughput((enum lk_baseline)b, points, n, &target);
}

/* Of a batch: the time a sample of the nearest batch, and the line through the nearest two. */
static void set_batch_baselines(const struct lk_job *rest, struct lk_backtest_item *item)
{
    double b = item->config.local_batch, x[2] = {0}, y[2] = {0};
    int n = 0;

    for (size_t i = 0; i < rest->n_runs; i++) {
        struct lk_config c = lk_config_of_run(&rest->runs[i]);
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

/* The i-th of what an item was made from: counts of GPUs of the runs, or batches; 0 past the end.
 */
static int rest_value(const struct lk_job *rest, bool batches, size_t i)
{
    if (batches)
        return i < rest->n_compute ? rest->compute[i].local_batch : 0;
    return i < rest->n_runs ? rest->runs[i].gpus : 0;
}

/* Appends " from 1, 2, 4": each value once, ascending. */
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

static enum lk_status append(struct lk_backtests *b, const struct lk_backtest_item *item)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_array_grow(&b->items, &b->capacity, b->n + 1, sizeof *b->items));
    b->items[b->n++] = *item;
out:
    return st;
}

/* ---- All ---- */

static bool first_of_its_kind(const struct lk_job *j, size_t run)
{
    struct lk_config c = lk_config_of_run(&j->runs[run]);

    for (size_t i = 0; i < run; i++) {
        struct lk_config d = lk_config_of_run(&j->runs[i]);

        if (d.gpus == c.gpus && same_but_gpus(&d, &c) && d.cap_bytes == c.cap_bytes &&
            d.first_bytes == c.first_bytes)
            return false;
    }
    return true;
}

static int largest(const struct lk_job *j)
{
    int k = 0;

    for (size_t i = 0; i < j->n_runs; i++)
        k = j->runs[i].gpus > k ? j->runs[i].gpus : k;
    return k;
}

/* Nothing is kept where the rest of the job does not say enough. */
static enum lk_status test_item(const struct lk_job *j, const struct lk_cluster *cluster,
                                const struct lk_predictor_options *options,
                                void (*set_baselines)(const struct lk_job *j,
                                                      struct lk_backtest_item *item),
                                struct lk_backtest_item *item, struct lk_backtests *out)
{
    enum lk_status st = predict_item(j, cluster, options, item);

    if (st == LK_EEVIDENCE)
        return LK_OK;
    LK_TRY(st);
    set_baselines(j, item);
    LK_TRY(append(out, item));
out:
    return st;
}

static enum lk_status hold_out_scale(const struct lk_job *j, const struct lk_cluster *cluster,
                                     const struct lk_predictor_options *options, size_t run,
                                     struct lk_backtests *out)
{
    enum lk_status st = LK_OK;
    struct view v = {0};
    struct lk_backtest_item item = {.config = lk_config_of_run(&j->runs[run])};

    LK_TRY(view_init(&v, j));
    keep_smaller(&v, j, item.config.gpus);
    if (!v.job.n_runs || !v.job.n_compute)
        goto out;
    item.test.measured_s = measured_step(j, &item.config);
    item.reach = (double)item.config.gpus / largest(&v.job);
    snprintf(item.test.what, sizeof item.test.what, "%d GPUs", item.config.gpus);
    list_rest(&v.job, false, item.test.what, sizeof item.test.what);
    LK_TRY(test_item(&v.job, cluster, options, set_scale_baselines, &item, out));
out:
    view_fini(&v);
    return st;
}

/* The run with fewest ranks of a batch; false: none. */
static bool smallest_run(const struct lk_job *j, int batch, size_t *out)
{
    bool found = false;

    for (size_t i = 0; i < j->n_runs; i++)
        if (j->runs[i].local_batch == batch && j->runs[i].n_steps &&
            (!found || j->runs[i].gpus < j->runs[*out].gpus)) {
            *out = i;
            found = true;
        }
    return found;
}

static enum lk_status hold_out_batch(const struct lk_job *j, const struct lk_cluster *cluster,
                                     const struct lk_predictor_options *options, size_t row,
                                     struct lk_backtests *out)
{
    enum lk_status st = LK_OK;
    struct view v = {0};
    struct lk_backtest_item item = {.is_batch = true};
    int batch = j->compute[row].local_batch;
    size_t run = 0;

    if (!smallest_run(j, batch, &run) || !lk_run_counts(cluster, &j->runs[run]))
        return LK_OK;
    LK_TRY(view_init(&v, j));
    keep_other_batches(&v, j, batch);
    if (v.job.n_compute < 2)
        goto out;
    item.config = lk_config_of_run(&j->runs[run]);
    item.test.measured_s = measured_step(j, &item.config);
    item.reach = fmax(1, fmax((double)batch / v.job.compute[v.job.n_compute - 1].local_batch,
                              (double)v.job.compute[0].local_batch / batch));
    snprintf(item.test.what, sizeof item.test.what, "local batch %d", batch);
    list_rest(&v.job, true, item.test.what, sizeof item.test.what);
    LK_TRY(test_item(&v.job, cluster, options, set_batch_baselines, &item, out));
out:
    view_fini(&v);
    return st;
}

enum lk_status lk_backtest_all(const struct lk_job *job, const struct lk_cluster *cluster,
                               const struct lk_predictor_options *options, struct lk_backtests *out)
{
    enum lk_status st = LK_OK;
    struct lk_backtests b = {
        .level = options->level,
        .prior_scale_error = lk_prior_value(lk_prior_of_scale(cluster->n_points, cluster->preset))};

    for (size_t i = 0; i < job->n_runs; i++)
        if (job->runs[i].gpus > 1 && lk_run_counts(cluster, &job->runs[i]) &&
            first_of_its_kind(job, i))
            LK_TRY(hold_out_scale(job, cluster, options, i, &b));
    for (size_t i = 0; i < job->n_compute; i++)
        LK_TRY(hold_out_batch(job, cluster, options, i, &b));
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

static const struct lk_column columns[] = {
    {"held_out",             "held out",     LK_DIM_NONE, -1},
    {"local_batch",          "local batch",  LK_DIM_NONE, -1},
    {"measured_s",           "measured",     LK_DIM_TIME, -1},
    {"predicted_s",          "predicted",    LK_DIM_TIME, -1},
    {"lo_s",                 "from",         LK_DIM_TIME, -1},
    {"hi_s",                 "to",           LK_DIM_TIME, -1},
    {"error_percent",        "error %",      LK_DIM_NONE, 2 },
    {"inside",               "inside",       LK_DIM_NONE, -1},
    {"proportional_percent", "proportional", LK_DIM_NONE, 2 },
    {"line_percent",         "line",         LK_DIM_NONE, 2 },
    {"amdahl_percent",       "Amdahl",       LK_DIM_NONE, 2 },
    {"pollux_percent",       "Pollux",       LK_DIM_NONE, 2 },
};

static const char *const baseline_columns[LK_BASELINE_COUNT] = {
#define LK_BASELINE_COLUMN_(baseline, key, text) [baseline] = key "_percent",
    LK_BASELINE_LIST(LK_BASELINE_COLUMN_)
#undef LK_BASELINE_COLUMN_
};

static double percent(double predicted, double measured)
{
    return 100 * (predicted / measured - 1);
}

static enum lk_status add_row(struct lk_table *t, const struct lk_backtest_item *item)
{
    enum lk_status st = LK_OK;
    const struct lk_backtest *b = &item->test;

    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_text(t, "held_out", "%s", b->what));
    LK_TRY(lk_table_number(t, "local_batch", item->config.local_batch));
    LK_TRY(lk_table_number(t, "measured_s", b->measured_s));
    LK_TRY(lk_table_number(t, "predicted_s", b->predicted_s));
    LK_TRY(lk_table_number(t, "lo_s", b->lo_s));
    LK_TRY(lk_table_number(t, "hi_s", b->hi_s));
    LK_TRY(lk_table_number(t, "error_percent", percent(b->predicted_s, b->measured_s)));
    LK_TRY(lk_table_text(t, "inside", "%s",
                         b->measured_s >= b->lo_s && b->measured_s <= b->hi_s ? "yes" : "no"));
    for (int k = 0; k < LK_BASELINE_COUNT; k++)
        LK_TRY(
            lk_table_number(t, baseline_columns[k], percent(item->baseline_s[k], b->measured_s)));
out:
    return st;
}

/* Errors of one simple forecaster, on the points where it applies. */
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

enum lk_status lk_backtest_score(const struct lk_backtests *b, struct lk_score *out)
{
    enum lk_status st = LK_OK;
    struct lk_scored *v = NULL;

    LK_TRY(lk_alloc(&v, b->n, sizeof *v));
    for (size_t i = 0; i < b->n; i++) {
        const struct lk_backtest *t = &b->items[i].test;

        v[i] = (struct lk_scored){t->measured_s, t->predicted_s, t->lo_s, t->hi_s};
    }
    LK_TRY(lk_score_of(v, b->n, b->level, out));
out:
    free(v);
    return st;
}

static enum lk_status add_summary(struct lk_table *t, const struct lk_backtests *b)
{
    enum lk_status st = LK_OK;
    struct lk_score score;

    LK_TRY(lk_backtest_score(b, &score));
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
