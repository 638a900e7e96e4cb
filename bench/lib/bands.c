/* Scores of forecasts of collectives by bands; see the header. */
#include "bench/lib/bands.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LEVEL = 0.9;

static const double ends[BANDS] = {32768, 1048576, 33554432, INFINITY};
static const char *const names[BANDS] = {"<=32K", "<=1M", "<=32M", ">32M"};

/* A larger size of the same table that was faster by more than 5 % says that something else went
 * on. */
static bool is_odd(const struct lk_public_table *s, size_t k)
{
    for (size_t j = 0; j < s->n; j++)
        if (s->bytes[j] > s->bytes[k] && s->us[j] < 0.95 * s->us[k])
            return true;
    return false;
}

static enum lk_status count(struct band *b, const struct band_point *point)
{
    LK_PASS(lk_array_grow(&b->v, &b->capacity, b->n + 1, sizeof *b->v));
    b->v[b->n++] = *point;
    return LK_OK;
}

enum lk_status band_count(struct band *bands, const struct lk_public_table *s, size_t k, double us,
                          double lo, double hi)
{
    const struct band_point point = {{s->us[k], us, lo, hi}, s->source};
    int b = 0;

    while (s->bytes[k] > ends[b])
        b++;
    LK_PASS(count(&bands[b], &point));
    if (bands->points)
        fprintf(bands->points, "%.9g,%.9g,%.9g,%.9g\n", s->us[k], us, lo, hi);
    return is_odd(s, k) ? LK_OK : count(&bands[BANDS + b], &point);
}

/* ---- The constant width ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double off(const struct band_point *p)
{
    return fabs(log(p->scored.measured / p->scored.predicted));
}

/*
 * Return the half width (ln) that scores best on n points that are off by `sorted`: the score's
 * slope changes its sign where as many lie outside as the level leaves out. NaN without points.
 */
static double best_width(const double *sorted, size_t n)
{
    return n ? sorted[(size_t)ceil(LEVEL * (double)n) - 1] : NAN;
}

/*
 * Set the mean width and score of intervals whose width is chosen on the other sources; NaN if a
 * point has none.
 */
static enum lk_status constant_width(const struct band *b, double *out_width, double *out_score)
{
    enum lk_status st = LK_OK;
    const char *source = NULL;
    double *others = NULL, half = NAN, width = 0, score = 0;

    LK_TRY(lk_alloc(&others, b->n, sizeof *others));
    for (size_t i = 0; i < b->n; i++) {
        const struct lk_scored *p = &b->v[i].scored;
        size_t n = 0;

        if (!source || strcmp(b->v[i].source, source)) {
            source = b->v[i].source;
            for (size_t j = 0; j < b->n; j++)
                if (strcmp(b->v[j].source, source))
                    others[n++] = off(&b->v[j]);
            qsort(others, n, sizeof *others, by_value);
            half = best_width(others, n);
        }
        width += 2 * half;
        score += lk_score_interval(p->measured, p->predicted * exp(-half), p->predicted * exp(half),
                                   LEVEL);
    }
    *out_width = width / (double)b->n;
    *out_score = score / (double)b->n;
out:
    free(others);
    return st;
}

/* ---- Printing ---- */

void band_heading(bool csv)
{
    printf(csv ? "what,bytes,rows,n,mean_error_percent,median_error_percent,worst_percent,"
                 "inside_percent,inside_lo,inside_hi,width_percent,interval_score_percent,"
                 "constant_width_percent,its_score_percent\n"
               : "%-34s %-6s %-5s %5s %8s %8s %8s %17s %7s %7s %8s %8s\n",
           "# what", "bytes", "rows", "n", "mean %", "median", "worst", "inside % (90 %)", "width",
           "score", "constant", "score");
}

enum lk_status band_print(const char *what, struct band *bands, bool csv)
{
    enum lk_status st = LK_OK;
    struct lk_scored *v = NULL;

    for (int i = 0; i < 2 * BANDS; i++) {
        struct band *b = &bands[i];
        struct lk_score r;
        double width, score;

        if (!b->n)
            continue;
        LK_TRY(lk_alloc(&v, b->n, sizeof *v));
        for (size_t k = 0; k < b->n; k++)
            v[k] = b->v[k].scored;
        LK_TRY(lk_score_of(v, b->n, LEVEL, &r));
        LK_TRY(constant_width(b, &width, &score));
        printf(csv ? "%s,%s,%s,%zu,%.2f,%.2f,%.2f,%.1f,%.1f,%.1f,%.1f,%.1f,%.1f,%.1f\n"
                   : "%-34s %-6s %-5s %5zu %8.1f %8.1f %8.1f %7.1f (%3.0f-%3.0f) %7.1f %7.1f %8.1f "
                     "%8.1f\n",
               what, names[i % BANDS], i < BANDS ? "all" : "even", r.errors.n, 100 * r.errors.mean,
               100 * r.errors.median, 100 * r.errors.worst, 100 * r.share.value, 100 * r.share.lo,
               100 * r.share.hi, 100 * r.width, 100 * r.score, 100 * width, 100 * score);
        free(v);
        free(b->v);
        v = NULL;
        *b = (struct band){0};
    }
out:
    free(v);
    return st;
}
