/* This file interpolates in logarithms of both axes. */
#include "sim/collective/loglog_curve.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Set the slopes to the weighted harmonic mean of the neighbouring secants (Fritsch and Butland
 * 1984), which keeps every piece monotone without a second pass.
 */
static void set_slopes(struct lk_loglog_curve *c)
{
    size_t n = c->n;

    for (size_t i = 0; i < n; i++) {
        double h0, h1, d0, d1;

        if (i == 0 || i + 1 == n)
            continue;
        h0 = c->x[i] - c->x[i - 1];
        h1 = c->x[i + 1] - c->x[i];
        d0 = (c->y[i] - c->y[i - 1]) / h0;
        d1 = (c->y[i + 1] - c->y[i]) / h1;
        c->slope[i] =
            d0 > 0 && d1 > 0 ? 3 * (h0 + h1) / ((2 * h1 + h0) / d0 + (h1 + 2 * h0) / d1) : 0;
    }
    if (n > 1) {
        double first = (c->y[1] - c->y[0]) / (c->x[1] - c->x[0]);
        double last = (c->y[n - 1] - c->y[n - 2]) / (c->x[n - 1] - c->x[n - 2]);

        /* The slopes at the ends make the outer pieces parabolas, within [0, 3 secants]. */
        c->slope[0] = fmin(fmax(0, 1.5 * first - 0.5 * c->slope[1]), 3 * first);
        c->slope[n - 1] = fmin(fmax(0, 1.5 * last - 0.5 * c->slope[n - 2]), 3 * last);
        if (n == 2)
            c->slope[0] = c->slope[1] = first;
    }
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
    set_slopes(c);
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
