/*
 * A curve through points, in logarithms of both axes: piecewise cubic, monotone between points
 * (Fritsch and Carlson, "Monotone piecewise cubic interpolation", SIAM J. Numer. Anal. 17, 1980).
 * It meets its points; where these fall by little, their non-decreasing fit (base/stats.h)
 * replaces them.
 *
 * Collective times over bytes have slope 0 in logarithms at the small end (latency) and 1 at the
 * large end (bandwidth); a straight line between points a factor 4 apart is up to 6 % off there,
 * the cubic under 1 %.
 */
#ifndef LK_SIM_CURVE_H
#define LK_SIM_CURVE_H

#include "base/status.h"

#include <stddef.h>

struct lk_curve {
    size_t n;
    double *x, *y; /* natural logarithms, x ascending */
    double *slope; /* dy/dx at the points */
    double tail;   /* slope beyond the last point */
};

/*
 * pre: x ascending and > 0, y > 0, n >= 1. Before the first point the curve is flat; beyond the
 * last it goes on as y ~ x^tail (1: the last point's bandwidth, 0: flat). A point lower than the
 * one before by more than real_fall in the logarithm is no noise and stays so; INFINITY: the curve
 * does not fall at all.
 */
enum lk_status lk_curve_init(struct lk_curve *c, const double *x, const double *y, size_t n,
                             double tail, double real_fall);
void lk_curve_fini(struct lk_curve *c); /* zeroes it; safe on a zeroed curve */
/* pre: x > 0. */
double lk_curve_at(const struct lk_curve *c, double x);

#endif
