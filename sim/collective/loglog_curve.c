/* This file interpolates in logarithms of both axes. */
#include "sim/collective/loglog_curve.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool lk_loglog_curve_jumps(const struct lk_loglog_curve *c, size_t i)
{
    return c->x[i + 1] - c->x[i] < LK_LOGLOG_SAME;
}

static double secant(const struct lk_loglog_curve *c, size_t i)
{
    return (c->y[i + 1] - c->y[i]) / (c->x[i + 1] - c->x[i]);
}

/*
 * Set the slopes of points first to last, between which nothing jumps, to the weighted harmonic
 * mean of the neighbouring secants (Fritsch and Butland 1984), which keeps every piece monotone
 * without a second pass.
 */
static void set_slopes(struct lk_loglog_curve *c, size_t first, size_t last)
{
    double *slope = c->slope, begin, end;

    if (first == last)
        return;
    for (size_t i = first + 1; i < last; i++) {
        double h0 = c->x[i] - c->x[i - 1], h1 = c->x[i + 1] - c->x[i];
        double d0 = secant(c, i - 1), d1 = secant(c, i);

        slope[i] = d0 > 0 && d1 > 0 ? 3 * (h0 + h1) / ((2 * h1 + h0) / d0 + (h1 + 2 * h0) / d1) : 0;
    }
    begin = secant(c, first);
    end = secant(c, last - 1);
    /* The slopes at the ends make the outer pieces parabolas, within [0, 3 secants]. */
    slope[first] = fmin(fmax(0, 1.5 * begin - 0.5 * slope[first + 1]), 3 * begin);
    slope[last] = fmin(fmax(0, 1.5 * end - 0.5 * slope[last - 1]), 3 * end);
    if (last == first + 1)
        slope[first] = slope[last] = begin;
}

enum lk_status lk_loglog_curve_init(struct lk_loglog_curve *c, const double *x, const double *y,
                                    size_t n, double real_fall)
{
    enum lk_status st = LK_OK;

    *c = (struct lk_loglog_curve){.n = n};
    LK_TRY(lk_alloc(&c->x, n, sizeof *c->x));
    LK_TRY(lk_alloc(&c->y, n, sizeof *c->y));
    LK_TRY(lk_alloc(&c->slope, n, sizeof *c->slope));
    for (size_t i = 0; i < n; i++) {
        c->x[i] = log(x[i]);
        c->y[i] = log(y[i]);
    }
    for (size_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && c->y[next] > c->y[next - 1] - real_fall; next++)
            ;
        LK_TRY(lk_stats_isotonic(c->y + i, NULL, next - i));
    }
    for (size_t first = 0, last; first < n; first = last + 1) {
        for (last = first; last + 1 < n && !lk_loglog_curve_jumps(c, last); last++)
            ;
        set_slopes(c, first, last);
    }
out:
    if (st != LK_OK)
        lk_loglog_curve_fini(c);
    return st;
}

void lk_loglog_curve_fini(struct lk_loglog_curve *c)
{
    free(c->x);
    free(c->y);
    free(c->slope);
    memset(c, 0, sizeof *c);
}

double lk_loglog_curve_at(const struct lk_loglog_curve *c, double x_linear)
{
    double x = log(x_linear);
    size_t lo = 0, hi = c->n - 1;
    double h, t, t2, t3;

    if (x <= c->x[0])
        return exp(c->y[0]);
    if (x >= c->x[hi])
        return exp(c->y[hi] + (x - c->x[hi]));
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;

        if (c->x[mid] <= x)
            lo = mid;
        else
            hi = mid;
    }
    h = c->x[hi] - c->x[lo];
    t = (x - c->x[lo]) / h;
    t2 = t * t;
    t3 = t2 * t;
    /* Cubic Hermite basis. */
    return exp((2 * t3 - 3 * t2 + 1) * c->y[lo] + (t3 - 2 * t2 + t) * h * c->slope[lo] +
               (3 * t2 - 2 * t3) * c->y[hi] + (t3 - t2) * h * c->slope[hi]);
}
