/*
 * Score forecasts against measurements: errors of the estimates; coverage, width and score of the
 * intervals.
 *
 * Widths and scores are computed on logarithms, so that 0.1 means 10 % whatever the unit, and a
 * time and its inverse, the throughput, score alike.
 */
#ifndef LK_FACTS_SCORE_H
#define LK_FACTS_SCORE_H

#include "base/stats.h"
#include "base/status.h"
#include "base/table.h"

#include <stddef.h>

/* A quantity > 0 and its forecast. predicted NaN: none was made; lo or hi NaN: no interval. */
struct lk_scored {
    double measured, predicted, lo, hi;
};

/* Summary of |predicted / measured - 1|; NaN when n is 0. */
struct lk_score_errors {
    size_t n;
    double mean, median, worst;
};

struct lk_score {
    double level; /* level of the intervals */
    struct lk_score_errors errors;
    size_t n, inside;         /* points with an interval; those of them with measured in lo..hi */
    struct lk_estimate share; /* inside / n, with its 90 % Wilson interval */
    double width;             /* mean ln(hi / lo) */
    double score;             /* mean of lk_score_interval; smaller is better */
    /*
     * The same of a baseline, for comparison: the interval predicted x exp(+-c), with one c for all
     * points, the smallest that covers `inside` of them. The baseline is given the errors, so
     * intervals score below it only if they are wide where the errors are large.
     */
    double constant_width, constant_score;
};

/*
 * Return the interval score of Gneiting and Raftery, "Strictly proper scoring rules, prediction,
 * and estimation", JASA 102 (2007), eq. 43, on logarithms: the width, plus 2 / (1 - level) times
 * the distance of the measured value from the interval. pre: 0 < lo <= hi, measured > 0.
 */
double lk_score_interval(double measured, double lo, double hi, double level);

/* Score n points. Points without a forecast are left out of everything; those without an interval
 * are left out of n and the members after it. */
enum lk_status lk_score_of(const struct lk_scored *v, size_t n, double level, struct lk_score *out);
/* Summarise the errors alone, e.g. of a baseline: n pairs; pairs with a NaN are left out. */
enum lk_status lk_score_errors_of(const double *measured, const double *predicted, size_t n,
                                  struct lk_score_errors *out);

/* Add up to two notes below a table: one on the errors, one on the intervals. */
enum lk_status lk_score_note(const struct lk_score *s, struct lk_table *t);

#endif
