/*
 * A log-log curve goes through points in logarithms of both axes. It is piecewise cubic and
 * monotone between points (Fritsch and Carlson, "Monotone piecewise cubic interpolation", SIAM J.
 * Numer. Anal. 17, 1980). Where the points fall by little, their non-decreasing fit (base/stats.h)
 * replaces them. Two points of nearly the same x are the sides of a jump, large or small, as where
 * a library goes to another algorithm: neither side says how steep the other is, and the line
 * between them says nothing.
 *
 * Collective times over bytes have slope 0 in logarithms at the small end (latency) and 1 at the
 * large end (bandwidth); a straight line between points a factor 4 apart is up to 6 % off there,
 * the cubic under 1 %.
 */
#ifndef LK_SIM_LOGLOG_CURVE_H
#define LK_SIM_LOGLOG_CURVE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct lk_loglog_curve {
    size_t n;
    double *x, *y; /* natural logarithms, x ascending */
    double *slope; /* dy/dx at the points */
};

/*
 * Make a curve that is flat before the first point and proportional to x beyond the last. It keeps
 * a point that is lower than the one before by more than real_fall in the logarithm; with INFINITY
 * the curve does not fall at all. pre: x ascending and > 0, y > 0, n >= 1.
 */
enum lk_status lk_loglog_curve_init(struct lk_loglog_curve *c, const double *x, const double *y,
                                    size_t n, double real_fall);
void lk_loglog_curve_fini(struct lk_loglog_curve *c); /* zeroes it; safe on a zeroed curve */
/* Points whose x differ by less than this (ln) are of one x. */
#define LK_LOGLOG_SAME 1e-3
/* Return true if points i and i + 1 are the sides of a jump. pre: i + 1 < n. */
bool lk_loglog_curve_jumps(const struct lk_loglog_curve *c, size_t i);
/* Return y at x. pre: x > 0. */
double lk_loglog_curve_at(const struct lk_loglog_curve *c, double x);

#endif
