/*
 * Fit how one GPU's time follows the local batch in published measurements: prints the constants
 * of sim/prior.h for batches that were not measured.
 *
 *     build/bench/accuracy_batch
 *
 * Data: $LOCKSTEP_DATA/published_scaling.csv, else bench/data's; rows of tiers A and B on one
 * GPU with a numeric batch. A family: source file, model, GPU, precision, length and interconnect.
 * A pair: two neighbouring batches of a family, the larger predicted by proportion. A triple:
 * three, the largest predicted by the line through the smaller two. Errors are of logarithms, a
 * doubling of the batch beyond the nearest one predicted from.
 */
#include "base/array.h"
#include "base/stats.h"
#include "bench/lib/published.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum published_column family_columns[] = {PUBLISHED_MODEL,        PUBLISHED_GPU,
                                                       PUBLISHED_PRECISION,    PUBLISHED_SEQ,
                                                       PUBLISHED_INTERCONNECT, PUBLISHED_ACCUM};

/* 1.5 sd are to contain the errors of this share of the triples. */
static const double HELD_SD = 1.5, HELD_SHARE = 14.0 / 18;
static const double MAD = 1.4826; /* sd of a normal distribution over its median deviation */

struct row {
    char *family;
    size_t source_length; /* of the family's text */
    double batch, time_s; /* a micro-batch */
};

struct rows {
    struct row *v;
    size_t n, capacity;
};

static bool is_number(const char *text)
{
    return *text && strspn(text, "0123456789.") == strlen(text);
}

/* Rows on one GPU; the last one of a family and batch counts. */
static enum lk_status add_row(struct rows *r, const struct lk_csv *t, size_t at)
{
    enum lk_status st = LK_OK;
    const char *batch;
    struct row row = {0};
    int64_t world_size;
    double throughput;
    bool counts;

    LK_TRY(published_counts(t, at, "AB", &counts));
    LK_TRY(published_cell(t, at, PUBLISHED_BATCH, &batch));
    if (!counts || !is_number(batch))
        return LK_OK;
    LK_TRY(lk_csv_int(t, at, PUBLISHED_N_GPUS, 1, 1 << 24, &world_size));
    if (world_size != 1)
        return LK_OK;
    LK_TRY(lk_csv_positive(t, at, PUBLISHED_BATCH, &row.batch));
    LK_TRY(lk_csv_positive(t, at, PUBLISHED_THROUGHPUT, &throughput));
    row.time_s = row.batch / throughput;
    LK_TRY(published_key(t, at, family_columns, LK_COUNT(family_columns), &row.family,
                         &row.source_length));
    for (size_t i = 0; i < r->n; i++)
        if (r->v[i].batch == row.batch && !strcmp(r->v[i].family, row.family)) {
            r->v[i].time_s = row.time_s;
            goto out;
        }
    LK_TRY(lk_array_grow(&r->v, &r->capacity, r->n + 1, sizeof *r->v));
    r->v[r->n++] = row;
    row.family = NULL;
out:
    free(row.family);
    return st;
}

static int by_family_and_batch(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int d = strcmp(x->family, y->family);

    return d ? d : (x->batch > y->batch) - (x->batch < y->batch);
}

static bool same_family(const struct rows *r, size_t i, size_t k)
{
    return k < r->n && !strcmp(r->v[i].family, r->v[k].family);
}

/* Sources of the rows that begin n neighbours of one family. */
static size_t sources_of(const struct rows *r, size_t n)
{
    size_t count = 0;
    const struct row *last = NULL;

    for (size_t i = 0; i < r->n; i++) {
        const struct row *p = &r->v[i];

        if (!same_family(r, i, i + n - 1))
            continue;
        count += !last || last->source_length != p->source_length ||
                 strncmp(last->family, p->family, p->source_length);
        last = p;
    }
    return count;
}

static enum lk_status print_pairs(const struct rows *r)
{
    enum lk_status st = LK_OK;
    double *error = NULL, *change = NULL, growth;
    size_t n = 0;

    LK_TRY(lk_alloc(&error, r->n, sizeof *error));
    LK_TRY(lk_alloc(&change, r->n, sizeof *change));
    for (size_t i = 0; i < r->n; i++) {
        const struct row *p = &r->v[i];

        if (!same_family(r, i, i + 1))
            continue;
        change[n] =
            log(p[1].time_s / p->time_s * p->batch / p[1].batch) / log2(p[1].batch / p->batch);
        error[n] = fabs(change[n]);
        n++;
    }
    growth = 2 * exp(lk_stats_median(change, n));
    printf("pairs: %zu of %zu sources\n", n, sources_of(r, 2));
    printf("LK_PRIOR_ONE_BATCH_ERROR %.3f\n", MAD * lk_stats_median(error, n));
    /* floor + (1 - floor) 2 = growth */
    printf("LK_PRIOR_FLOOR_SHARE %.3f\n", 2 - growth);
out:
    free(error);
    free(change);
    return st;
}

static enum lk_status print_triples(const struct rows *r)
{
    enum lk_status st = LK_OK;
    double *error = NULL;
    size_t n = 0, held;

    LK_TRY(lk_alloc(&error, r->n, sizeof *error));
    for (size_t i = 0; i < r->n; i++) {
        const struct row *p = &r->v[i];
        double slope, line;

        if (!same_family(r, i, i + 2))
            continue;
        slope = (p[1].time_s - p->time_s) / (p[1].batch - p->batch);
        line = p[1].time_s + slope * (p[2].batch - p[1].batch);
        if (line > 0)
            error[n++] = fabs(log(p[2].time_s / line)) / log2(p[2].batch / p[1].batch);
    }
    held = (size_t)(HELD_SHARE * (double)n + 0.5);
    printf("triples: %zu of %zu sources\n", n, sources_of(r, 3));
    printf("LK_PRIOR_BATCH_ERROR %.3f (1.5 sd hold %zu)\n",
           lk_stats_quantile(error, n, (double)(held - 1) / (double)(n - 1)) / HELD_SD, held);
out:
    free(error);
    return st;
}

static enum lk_status run(void)
{
    enum lk_status st = LK_OK;
    struct lk_csv *t = NULL;
    struct rows r = {0};

    LK_TRY(published_load(&t));
    for (size_t i = 0; i < lk_csv_rows(t); i++)
        LK_TRY(add_row(&r, t, i));
    if (r.n < 3)
        LK_TRY(lk_fail(LK_EPARSE, "published_scaling.csv: no rows on one GPU"));
    qsort(r.v, r.n, sizeof *r.v, by_family_and_batch);
    LK_TRY(print_pairs(&r));
    LK_TRY(print_triples(&r));
out:
    for (size_t i = 0; i < r.n; i++)
        free(r.v[i].family);
    free(r.v);
    lk_csv_free(t);
    return st;
}

int main(void)
{
    enum lk_status st = run();

    if (st != LK_OK)
        fprintf(stderr, "bench/accuracy_batch: %s\n", lk_error_text());
    return lk_status_exit_code(st);
}
