/* Comparisons of artefacts; see facts/compare.h. */
#include "base/array.h"
#include "base/label.h"
#include "base/rng.h"
#include "facts/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct lk_estimate estimate_of(const struct lk_quantity *q)
{
    return (struct lk_estimate){q->value, q->lo, q->hi, (size_t)q->n};
}

/* Return true if a text is the other, or ends with it after a name and a colon. */
static bool ends_alike(const char *x, const char *y)
{
    size_t n = strlen(x), m = strlen(y);

    if (n < m)
        return ends_alike(y, x);
    return !strcmp(x + n - m, y) && (n == m || (n - m >= 2 && !memcmp(x + n - m - 2, ": ", 2)));
}

static bool same(double x, double y)
{
    return x == y || (isnan(x) && isnan(y));
}

bool lk_compare_one_number(const struct lk_quantity *a, const struct lk_quantity *b)
{
    return same(a->value, b->value) && same(a->lo, b->lo) && same(a->hi, b->hi) && a->n == b->n &&
           ends_alike(a->source, b->source);
}

enum lk_status lk_compare_quantity(struct lk_comparison *c, enum lk_dimension dim,
                                   const struct lk_quantity *a, const struct lk_quantity *b,
                                   const char *what)
{
    struct lk_compared row = {.dim = dim};

    if (!lk_quantity_known(a) || !lk_quantity_known(b) || !(a->value > 0) || !(b->value > 0))
        return LK_OK;
    row.a = estimate_of(a);
    row.b = estimate_of(b);
    row.one_number = lk_compare_one_number(a, b);
    LK_PASS(lk_label_add(&row.labels, "of", "%s", what));
    if (lk_strdup(&row.what, what) != LK_OK) {
        free(row.labels);
        return LK_ENOMEM;
    }
    return lk_compare_add(c, row, NULL);
}

/* ---- Forecasts ---- */

/* Return a point's word on the axis of a name; "": unchanged, or the forecast has no such axis. */
static const char *word_of(const struct lk_forecast *f, const struct lk_forecast_point *p,
                           const char *axis)
{
    for (size_t i = 0; i < f->n_axes; i++)
        if (!strcmp(f->axes[i], axis))
            return p->words[i];
    return "";
}

/* Return true if both points are of one configuration. Nodes are the cluster's, and may differ. */
static bool same_configuration(const struct lk_forecast *a, const struct lk_forecast_point *p,
                               const struct lk_forecast *b, const struct lk_forecast_point *q)
{
    if (p->config.world_size != q->config.world_size ||
        p->config.local_batch != q->config.local_batch ||
        p->config.accumulation != q->config.accumulation ||
        p->config.cap_bytes != q->config.cap_bytes)
        return false;
    for (size_t i = 0; i < a->n_axes; i++)
        if (strcmp(p->words[i], word_of(b, q, a->axes[i])) != 0)
            return false;
    for (size_t i = 0; i < b->n_axes; i++)
        if (strcmp(q->words[i], word_of(a, p, b->axes[i])) != 0)
            return false;
    return true;
}

static enum lk_status name_configuration(const struct lk_forecast *f,
                                         const struct lk_forecast_point *p, struct lk_compared *row)
{
    char *longer;

    LK_PASS(lk_asprintf(&row->what, "%d GPU%s, batch %d", p->config.world_size,
                        p->config.world_size == 1 ? "" : "s", p->config.local_batch));
    if (p->config.accumulation > 1) {
        LK_PASS(lk_asprintf(&longer, "%s x %d", row->what, p->config.accumulation));
        free(row->what);
        row->what = longer;
    }
    LK_PASS(lk_label_add(&row->labels, "gpus", "%d", p->config.world_size));
    LK_PASS(lk_label_add(&row->labels, "local_batch", "%d", p->config.local_batch));
    LK_PASS(lk_label_add(&row->labels, "accumulation", "%d", p->config.accumulation));
    LK_PASS(lk_label_add(&row->labels, "bucket_cap_bytes", "%llu",
                         (unsigned long long)p->config.cap_bytes));
    for (size_t i = 0; i < f->n_axes; i++) {
        if (!*p->words[i])
            continue;
        LK_PASS(lk_label_add(&row->labels, f->axes[i], "%s", p->words[i]));
        LK_PASS(lk_asprintf(&longer, "%s, %s %s", row->what, f->axes[i], p->words[i]));
        free(row->what);
        row->what = longer;
    }
    return LK_OK;
}

static const struct lk_forecast_point *find_configuration(const struct lk_forecast *f,
                                                          const struct lk_forecast *of,
                                                          const struct lk_forecast_point *p)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (same_configuration(of, p, f, &f->points[i]))
            return &f->points[i];
    return NULL;
}

enum lk_status lk_compare_forecasts(const struct lk_forecast *a, const struct lk_forecast *b,
                                    lk_compare_ratio *ratio, void *user, struct lk_comparison *out)
{
    for (size_t i = 0; i < a->n_points; i++) {
        const struct lk_forecast_point *p = &a->points[i], *q = find_configuration(b, a, p);
        struct lk_compared row = {.dim = LK_DIM_TIME, .gpus = p->config.world_size};
        struct lk_estimate paired;
        enum lk_status st;
        bool is_paired;

        if (isnan(p->step_s) || (q && isnan(q->step_s))) /* contradicted: it has no number */
            continue;
        out->only_a += !q;
        if (!q)
            continue;
        row.a = (struct lk_estimate){p->step_s, p->step_lo_s, p->step_hi_s, 0};
        row.b = (struct lk_estimate){q->step_s, q->step_lo_s, q->step_hi_s, 0};
        row.efficiency_a = p->efficiency;
        row.efficiency_b = q->efficiency;
        row.evidence_a = lk_evidence_name(p->evidence);
        row.evidence_b = lk_evidence_name(q->evidence);
        st = name_configuration(a, p, &row);
        if (st != LK_OK) {
            free(row.what);
            free(row.labels);
            return st;
        }
        is_paired = ratio && ratio(user, i, (size_t)(q - b->points), &paired);
        LK_PASS(lk_compare_add(out, row, is_paired ? &paired : NULL));
    }
    for (size_t i = 0; i < b->n_points; i++)
        out->only_b += !find_configuration(a, b, &b->points[i]);
    return LK_OK;
}

/* ---- Jobs ---- */

static const struct lk_job_compute *find_compute(const struct lk_job *j, int local_batch)
{
    for (size_t i = 0; i < j->n_compute; i++)
        if (j->compute[i].local_batch == local_batch)
            return &j->compute[i];
    return NULL;
}

/* Return true if two runs are repeats: one rank has no buckets to differ in. */
static bool repeats(const struct lk_job_run *x, const struct lk_job_run *y)
{
    struct lk_config same = y->config;

    if (lk_config_replicas(&same) == 1) {
        same.first_bytes = x->config.first_bytes;
        same.cap_bytes = x->config.cap_bytes;
    }
    return lk_config_equal(&x->config, &same);
}

/* Gather the steps of a job's runs that repeat another; return how many runs there are. */
static size_t gather(const struct lk_job *j, const struct lk_job_run *like, struct lk_series *out)
{
    size_t n = 0;

    for (size_t i = 0; i < j->n_runs; i++)
        if (j->runs[i].n_steps && repeats(&j->runs[i], like))
            out[n++] = (struct lk_series){j->runs[i].step_s, j->runs[i].n_steps};
    return n;
}

static bool is_first(const struct lk_job *j, size_t run)
{
    size_t i = 0;

    while (!repeats(&j->runs[i], &j->runs[run]))
        i++;
    return i == run;
}

static enum lk_status name_run(const struct lk_config *c, struct lk_compared *row)
{
    const struct lk_forecast none = {0};
    char cap[32], *longer;

    LK_PASS(name_configuration(&none, &(struct lk_forecast_point){.config = *c}, row));
    LK_PASS(lk_asprintf(&longer, "step of %s%s%s", row->what,
                        lk_config_replicas(c) > 1 ? ", bucket cap " : "",
                        lk_config_replicas(c) > 1
                            ? lk_units_format(LK_DIM_BYTES, (double)c->cap_bytes, cap, sizeof cap)
                            : ""));
    free(row->what);
    row->what = longer;
    return LK_OK;
}

/* Add the step of a configuration that both jobs have runs of. */
static enum lk_status add_runs(const struct lk_config *c, const struct lk_series *a, size_t n_a,
                               const struct lk_series *b, size_t n_b, struct lk_comparison *out)
{
    enum { BLOCK_STEPS = 5, RESAMPLES = 2000 }; /* as for runs (profiler/analysis/run_compare.c) */
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("compare", out->n));
    struct lk_compared row = {.dim = LK_DIM_TIME, .gpus = c->world_size};
    enum lk_status st = LK_OK;

    LK_TRY(lk_stats_repeated_mean(a, n_a, BLOCK_STEPS, RESAMPLES, LK_COMPARE_LEVEL, &g, &row.a));
    LK_TRY(lk_stats_repeated_mean(b, n_b, BLOCK_STEPS, RESAMPLES, LK_COMPARE_LEVEL, &g, &row.b));
    LK_TRY(name_run(c, &row));
    st = lk_compare_add(out, row, NULL);
    row.what = row.labels = NULL;
out:
    free(row.what);
    free(row.labels);
    return st;
}

static enum lk_status compare_runs(const struct lk_job *a, const struct lk_job *b,
                                   struct lk_comparison *out)
{
    enum lk_status st = LK_OK;
    struct lk_series *x = NULL, *y = NULL;

    LK_TRY(lk_alloc(&x, a->n_runs, sizeof *x));
    LK_TRY(lk_alloc(&y, b->n_runs, sizeof *y));
    for (size_t i = 0; i < a->n_runs; i++) {
        size_t n_a = gather(a, &a->runs[i], x), n_b = gather(b, &a->runs[i], y);

        if (!n_a || !is_first(a, i))
            continue;
        out->only_a += !n_b;
        if (n_b)
            LK_TRY(add_runs(&a->runs[i].config, x, n_a, y, n_b, out));
    }
    for (size_t i = 0; i < b->n_runs; i++)
        out->only_b += is_first(b, i) && gather(b, &b->runs[i], y) && !gather(a, &b->runs[i], x);
out:
    free(x);
    free(y);
    return st;
}

enum lk_status lk_compare_jobs(const struct lk_job *a, const struct lk_job *b,
                               struct lk_comparison *out)
{
    for (size_t i = 0; i < a->n_compute; i++) {
        const struct lk_job_compute *x = &a->compute[i], *y = find_compute(b, x->local_batch);
        const struct {
            const char *name;
            const struct lk_quantity *a, *b;
        } parts[] = {{"forward", &x->forward_s, y ? &y->forward_s : NULL},
                     {"backward", &x->backward_s, y ? &y->backward_s : NULL},
                     {"optimizer", &x->optimizer_s, y ? &y->optimizer_s : NULL}};

        out->only_a += !y;
        for (size_t k = 0; y && k < LK_COUNT(parts); k++) {
            char what[64];

            snprintf(what, sizeof what, "%s, local batch %d", parts[k].name, x->local_batch);
            LK_PASS(lk_compare_quantity(out, LK_DIM_TIME, parts[k].a, parts[k].b, what));
        }
    }
    for (size_t i = 0; i < b->n_compute; i++)
        out->only_b += !find_compute(a, b->compute[i].local_batch);
    return compare_runs(a, b, out);
}
