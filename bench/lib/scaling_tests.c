/*
 * Tests of the scaling law, and the widths that they choose.
 *
 * Divisions: tests / constant widths / forecasts.
 */
#include "bench/lib/scaling_tests.h"

#include "base/array.h"
#include "base/csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct scaling_kind scaling_kinds[KIND_COUNT] = {
#define KIND_ROW(kind, key, text, by_tier, ...) [kind] = {key, text, by_tier},
    KIND_LIST(KIND_ROW)};

/* ---- Tests ---- */

void scaling_tests_fini(struct scaling_tests *d)
{
    published_series_fini(&d->series);
    free(d->folds);
    free(d->v);
    free(d->scratch);
}

static enum lk_status add_test(struct scaling_tests *d, const struct published_series *s,
                               size_t known, size_t target)
{
    int gpus = s->points[target].config.world_size, second = s->points[1].config.world_size;
    int times = gpus % second == 0 ? gpus / second : 0;
    int doublings = lk_scaling_kind_of(s->points, known, &s->points[target].config).doublings;
    const struct scaling_test t = {
        .s = s,
        .known = known,
        .target = target,
#define KIND_IS(kind, key, text, by_tier, ...) .is[kind] = (__VA_ARGS__),
        KIND_LIST(KIND_IS)
#undef KIND_IS
            .distance = (enum kind)((s->strong ? STRONG_1 : WEAK_1) + doublings - 1)};

    LK_PASS(lk_array_grow(&d->v, &d->capacity, d->n + 1, sizeof *d->v));
    d->v[d->n++] = t;
    return LK_OK;
}

static enum lk_status add_series(struct scaling_tests *d, const struct published_series *s)
{
    for (size_t known = 1; known < s->n; known++)
        for (size_t target = known; target < s->n; target++)
            LK_PASS(add_test(d, s, known, target));
    return LK_OK;
}

enum lk_status scaling_tests_make(struct scaling_tests *out)
{
    enum lk_status st = LK_OK;
    struct scaling_tests d = {0};

    LK_TRY(published_series_read(&d.series));
    for (size_t i = 0; i < d.series.n; i++)
        LK_TRY(add_series(&d, &d.series.v[i]));
    LK_TRY(lk_alloc(&d.folds, d.series.n, sizeof *d.folds));
    LK_TRY(lk_alloc(&d.scratch, d.n, sizeof *d.scratch));
    *out = d;
    d = (struct scaling_tests){0};
out:
    scaling_tests_fini(&d);
    return st;
}

/* ---- Constant widths ---- */

static double error_of(const struct scaling_test *t)
{
    return fabs(log(t->ours.predicted / t->ours.measured));
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A width's score changes the sign of its slope where as many lie outside as the level leaves out.
 */
double scaling_tests_best(const struct scaling_tests *d, enum kind kind, char tier, int fold,
                          int other)
{
    size_t n = 0;

    for (size_t i = 0; i < d->n; i++)
        if (d->v[i].is[kind] && d->v[i].fold != fold && d->v[i].fold != other &&
            (!tier || d->v[i].s->tier == tier))
            d->scratch[n++] = error_of(&d->v[i]);
    qsort(d->scratch, n, sizeof *d->scratch, by_value);
    return n ? d->scratch[(size_t)ceil(SCALING_LEVEL * (double)n) - 1] : NAN;
}

void scaling_tests_constants(struct scaling_tests *d)
{
    for (int k = 0; k < KIND_COUNT; k++)
        for (int fold = 0; fold < SCALING_FOLDS; fold++)
            for (const char *tier = "AB"; *tier; tier++) {
                double best = scaling_tests_best(d, (enum kind)k,
                                                 scaling_kinds[k].by_tier ? *tier : 0, fold, fold);

                for (size_t i = 0; i < d->n; i++)
                    if (d->v[i].fold == fold && d->v[i].s->tier == *tier)
                        d->v[i].constant[k] = best;
            }
}

struct scaling_rivals scaling_tests_rivals(const struct scaling_tests *d, enum kind kind, int fold)
{
    struct scaling_rivals r = {0};

    for (int other = 0; other < SCALING_FOLDS; other++) {
        double half = scaling_tests_best(d, kind, 0, fold, other);

        for (size_t i = 0; i < d->n && other != fold; i++) {
            const struct scaling_test *t = &d->v[i];

            if (!t->is[kind] || t->fold != other)
                continue;
            r.n++;
            r.law += lk_score_interval(t->ours.measured, t->ours.lo, t->ours.hi, SCALING_LEVEL);
            r.constant += isnan(half) ? INFINITY
                                      : lk_score_interval(exp(error_of(t)), exp(-half), exp(half),
                                                          SCALING_LEVEL);
        }
    }
    return r;
}

double *scaling_tests_width_at(struct lk_scaling_widths *w, enum kind kind)
{
    return &w->half[kind >= STRONG_1][kind - (kind >= STRONG_1 ? STRONG_1 : WEAK_1)];
}

int scaling_tests_sources(const struct scaling_tests *d, enum kind kind, int fold)
{
    int n = 0;

    for (size_t i = 0; i < d->n; i++) {
        bool seen = !d->v[i].is[kind] || d->v[i].fold == fold;

        for (size_t k = 0; k < i && !seen; k++)
            seen = d->v[k].is[kind] && !strcmp(d->v[k].s->source, d->v[i].s->source);
        n += !seen;
    }
    return n;
}

double scaling_tests_width(const struct scaling_tests *d, enum kind kind, int fold)
{
    struct scaling_rivals r = scaling_tests_rivals(d, kind, fold);

    return r.constant < r.law && scaling_tests_sources(d, kind, fold) >= SCALING_SOURCES_LEAST
               ? scaling_tests_best(d, kind, 0, fold, fold)
               : NAN;
}

void scaling_tests_widths(const struct scaling_tests *d, int fold, struct lk_scaling_widths *out)
{
    for (int k = WEAK_1; k <= STRONG_5; k++)
        *scaling_tests_width_at(out, (enum kind)k) = scaling_tests_width(d, (enum kind)k, fold);
}

/* ---- Forecasts ---- */

#define COLUMN(field, value, text) {#field, true},
const struct lk_csv_column scaling_constants[LK_SCALING_CONSTANT_COUNT] = {LK_SCALING_LIST(COLUMN)};
#undef COLUMN

static const char *group_of(const struct published_series *s, bool by_repository)
{
    return by_repository ? s->repository : s->source;
}

/* Whole groups to folds in turn, in the order of the file. */
void scaling_tests_deal(struct scaling_tests *d, bool by_repository)
{
    const struct published_series *v = d->series.v;
    int groups = 0;

    for (size_t i = 0; i < d->series.n; i++) {
        d->folds[i] = -1;
        for (size_t k = 0; k < i && d->folds[i] < 0; k++)
            if (!strcmp(group_of(&v[k], by_repository), group_of(&v[i], by_repository)))
                d->folds[i] = d->folds[k];
        if (d->folds[i] < 0)
            d->folds[i] = groups++ % SCALING_FOLDS;
    }
    for (size_t i = 0; i < d->n; i++)
        d->v[i].fold = d->folds[d->v[i].s - v];
}

static enum lk_status predict(struct scaling_test *t, const struct lk_scaling_prior *p,
                              const struct lk_scaling_widths *widths)
{
    const struct lk_scaling_point *target = &t->s->points[t->target];
    struct lk_estimate e;

    LK_PASS(lk_scaling_interval(p, widths, t->s->points, t->known, target, SCALING_LEVEL, &e));
    t->ours = (struct lk_scored){
        .measured = target->throughput, .predicted = e.value, .lo = e.lo, .hi = e.hi};
    return LK_OK;
}

/* Every series by the constants of its fold, with the law's own widths. */
enum lk_status scaling_tests_by_law(struct scaling_tests *d, const struct lk_scaling_prior *folds)
{
    struct lk_scaling_widths own;

    lk_scaling_widths_none(&own);
    for (size_t i = 0; i < d->n; i++)
        LK_PASS(predict(&d->v[i], &folds[d->v[i].fold], &own));
    return LK_OK;
}

/* Every series by the constants of its fold, and by the widths that the other folds choose. */
enum lk_status scaling_tests_predict(struct scaling_tests *d, const struct lk_scaling_prior *folds)
{
    LK_PASS(scaling_tests_by_law(d, folds));
    scaling_tests_constants(d);
    for (int fold = 0; fold < SCALING_FOLDS; fold++)
        scaling_tests_widths(d, fold, &d->widths[fold]);
    for (size_t i = 0; i < d->n; i++) {
        struct scaling_test *t = &d->v[i];
        struct lk_scaling_widths *w = &d->widths[t->fold];

        if (!isnan(*scaling_tests_width_at(w, t->distance)))
            LK_PASS(predict(t, &folds[t->fold], w));
    }
    return LK_OK;
}

enum lk_status scaling_tests_read_folds(const char *path, struct lk_scaling_prior *folds)
{
    enum lk_status st = LK_OK;
    struct lk_csv *t = NULL;

    LK_TRY(lk_csv_load(path, scaling_constants, LK_SCALING_CONSTANT_COUNT, LK_CSV_STRICT, &t));
    if (lk_csv_rows(t) != SCALING_FOLDS) {
        st = lk_fail(LK_EPARSE, "%s: %zu rows, not %d", path, lk_csv_rows(t), SCALING_FOLDS);
        goto out;
    }
    for (size_t i = 0; i < SCALING_FOLDS; i++)
        for (size_t k = 0; k < LK_SCALING_CONSTANT_COUNT; k++)
            LK_TRY(lk_csv_real(t, i, k, 0, 1e6, &((double *)&folds[i])[k]));
out:
    lk_csv_free(t);
    return st;
}
