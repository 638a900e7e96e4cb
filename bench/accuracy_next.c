/*
 * The promise of `lockstep plan --narrow` against what runs brought: published series of four
 * counts or more (bench/data's published_scaling.csv, or $LOCKSTEP_DATA's), weak scaling, tiers A
 * and B.
 *
 *     build/bench/accuracy_next     prints a table in Markdown
 *
 * The first one or two counts of each series are known and the largest is the target. The counts
 * between are what could be run. The named one is added as it was measured, and in its place the
 * next larger count; widths are ln(hi / lo) of the 90 % interval at the target. Constants of the
 * law are those of the program, to whose fit these series belong; widths, not errors, are judged.
 */
#include "base/array.h"
#include "base/log.h"
#include "base/stats.h"
#include "bench/lib/published_series.h"
#include "sim/forecast/next_run.h"
#include "sim/throughput/throughput.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST_COUNTS = 4, KNOWN_MAX = 2 };

/* One test brought these. */
struct outcome {
    double now, promised, named, next; /* widths */
    bool is_next;                      /* the named one is the next larger count */
    bool inside;                       /* the target, after the named run */
};

/* Forecasts the last point of a series from these rows. */
static enum lk_status forecast(const struct published_series *s, struct lk_scaling_point *rows,
                               size_t n, struct lk_prediction *out)
{
    enum lk_status st = LK_OK;
    struct lk_throughput_table t = {.name = s->key, .points = rows, .n = n};
    const struct lk_throughput_request q = {
        .gpus_per_node = 8, .grid = {.level = 0.9, .draws = 20, .seed = 1, .anyway = true}};
    struct lk_evidence_source e = {0};
    struct lk_forecast f = {0};

    LK_TRY(lk_throughput_evidence(&t, &q, &e));
    LK_TRY(e.ops->prepare(e.self, &f));
    LK_TRY(e.ops->at(e.self, &s->points[s->n - 1].config, out));
out:
    lk_forecast_fini(&f);
    if (e.self)
        e.ops->close(e.self);
    return st;
}

/* Asks which of the counts between to run; *out: it and its promise. */
static enum lk_status ask(const struct published_series *s, size_t known, struct lk_next_run *out,
                          double *now)
{
    enum lk_status st = LK_OK;
    struct lk_throughput_table t = {.name = s->key, .points = s->points, .n = known};
    const struct lk_throughput_request q = {
        .gpus_per_node = 8, .grid = {.level = 0.9, .draws = 20, .seed = 1, .anyway = true}};
    struct lk_evidence_source e = {0};
    struct lk_forecast f = {0};
    struct lk_prediction p = {0};
    struct lk_next_run *v = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&v, s->n, sizeof *v));
    for (size_t i = known; i + 1 < s->n; i++)
        v[n++] = (struct lk_next_run){.config = s->points[i].config,
                                      .gpu_hours = s->points[i].config.world_size};
    LK_TRY(lk_throughput_evidence(&t, &q, &e));
    LK_TRY(e.ops->prepare(e.self, &f));
    LK_TRY(lk_next_runs(&e, &s->points[s->n - 1].config, v, n, &n, &p));
    *now = log(p.hi_s / p.lo_s);
    if (n)
        *out = v[0];
    else
        st = lk_fail(LK_EEVIDENCE, "%s: nothing could be run", s->key);
out:
    lk_prediction_fini(&p);
    lk_forecast_fini(&f);
    if (e.self)
        e.ops->close(e.self);
    free(v);
    return st;
}

static enum lk_status test(const struct published_series *s, size_t known, struct outcome *out)
{
    enum lk_status st = LK_OK;
    struct lk_scaling_point *rows = NULL;
    struct lk_prediction p = {0};
    struct lk_next_run run = {0};
    const struct lk_scaling_point *target = &s->points[s->n - 1];
    double measured_s = lk_config_samples(&target->config) / target->throughput;
    size_t at = known;

    LK_TRY(lk_alloc(&rows, known + 1, sizeof *rows));
    LK_TRY(ask(s, known, &run, &out->now));
    out->promised = run.width;
    while (s->points[at].config.world_size != run.config.world_size)
        at++;
    for (size_t i = 0; i < known; i++)
        rows[i] = s->points[i];
    rows[known] = s->points[at];
    LK_TRY(forecast(s, rows, known + 1, &p));
    out->named = log(p.hi_s / p.lo_s);
    out->inside = measured_s >= p.lo_s && measured_s <= p.hi_s;
    out->is_next = at == known;
    lk_prediction_fini(&p);
    rows[known] = s->points[known];
    LK_TRY(forecast(s, rows, known + 1, &p));
    out->next = log(p.hi_s / p.lo_s);
out:
    lk_prediction_fini(&p);
    free(rows);
    return st;
}

static double mean_of(const struct outcome *v, size_t n, size_t offset)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += *(const double *)(const void *)((const char *)&v[i] + offset);
    return sum / (double)n;
}

static enum lk_status print_row(const struct outcome *v, size_t n, size_t known)
{
    enum lk_status st = LK_OK;
    double *ratios = NULL;
    size_t inside = 0, kept = 0, better = 0, chosen = 0;

    LK_TRY(lk_alloc(&ratios, n, sizeof *ratios));
    for (size_t i = 0; i < n; i++) {
        ratios[i] = v[i].named / v[i].promised;
        inside += v[i].inside;
        kept += ratios[i] <= 1.25;
        better += !v[i].is_next && v[i].named < v[i].next;
        chosen += !v[i].is_next;
    }
    lk_stats_sort(ratios, n);
    printf("| %zu | %zu | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.2f (%.2f to %.2f) | %.0f %% | "
           "%.0f %% | %zu of %zu |\n",
           known, n, 100 * mean_of(v, n, offsetof(struct outcome, now)),
           100 * mean_of(v, n, offsetof(struct outcome, promised)),
           100 * mean_of(v, n, offsetof(struct outcome, named)),
           100 * mean_of(v, n, offsetof(struct outcome, next)),
           lk_stats_quantile_sorted(ratios, n, 0.5), lk_stats_quantile_sorted(ratios, n, 0.05),
           lk_stats_quantile_sorted(ratios, n, 0.95), 100.0 * (double)kept / (double)n,
           100.0 * (double)inside / (double)n, better, chosen);
out:
    free(ratios);
    return st;
}

static enum lk_status print_all(const struct published_list *l)
{
    enum lk_status st = LK_OK;
    struct outcome *v = NULL;

    LK_TRY(lk_alloc(&v, l->n, sizeof *v));
    puts("| counts known | tests | width before | promised | after the named run | after the next "
         "larger count | brought over promised: median (90 % of tests) | at most 1.25 | inside | "
         "named another count, and it is narrower |\n|---|---|---|---|---|---|---|---|---|---|");
    for (size_t known = 1; known <= KNOWN_MAX; known++) {
        size_t n = 0;

        for (size_t i = 0; i < l->n; i++) {
            const struct published_series *s = &l->v[i];
            enum lk_status is;

            if (s->strong || s->n < LEAST_COUNTS)
                continue;
            is = test(s, known, &v[n]);
            if (is != LK_OK && is != LK_EEVIDENCE)
                LK_TRY(is);
            n += is == LK_OK;
        }
        if (n)
            LK_TRY(print_row(v, n, known));
    }
out:
    free(v);
    return st;
}

int main(void)
{
    enum lk_status st = LK_OK;
    struct published_list l = {0};

    LK_TRY(published_series_read(&l));
    LK_TRY(print_all(&l));
out:
    published_series_fini(&l);
    if (st != LK_OK)
        fprintf(stderr, "accuracy_next: %s\n", lk_error_text());
    return st == LK_OK ? 0 : 1;
}
