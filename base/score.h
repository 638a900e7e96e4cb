/*
 * How good forecasts were, once what they forecast was measured: errors of the estimates; share
 * inside, width and score of the intervals.
 *
 * Widths and scores are of logarithms, so that 0.1 means 10 % whatever the unit, and a time and the
 * throughput that is its inverse score alike.
 */
#ifndef LK_BASE_SCORE_H
#define LK_BASE_SCORE_H

#include "base/stats.h"
#include "base/status.h"
#include "base/table.h"

#include <stddef.h>

/* A quantity > 0 and its forecast. predicted NaN: none was made; lo or hi NaN: no interval. */
struct lk_scored {
    double measured, predicted, lo, hi;
};

/* Of |predicted / measured - 1|; NaN when n is 0. */
struct lk_score_errors {
    size_t n;
    double mean, median, worst;
};

struct lk_score {
    double level; /* of the intervals */
    struct lk_score_errors errors;
    size_t n, inside;         /* forecasts with an interval; measured in lo..hi */
    struct lk_estimate share; /* inside over n, its 90 % Wilson interval */
    double width;             /* mean ln(hi / lo) */
    double score;             /* mean of lk_score_interval; smaller is better */
    /*
     * predicted x exp(+-c) with the smallest c that holds as many of these very points: a rival
     * that was told the errors. Intervals that are wide where it is needed score below it.
     */
    double constant_width, constant_score;
};

/*
 * The interval score of Gneiting and Raftery, "Strictly proper scoring rules, prediction, and
 * estimation", JASA 102 (2007), eq. 43, of logarithms: width, and 2 / (1 - level) times what the
 * measured value is outside by. pre: 0 < lo <= hi, measured > 0.
 */
double lk_score_interval(double measured, double lo, double hi, double level);

/* Points without a forecast are left out of all, those without an interval of n and what follows
 * it. */
enum lk_status lk_score_of(const struct lk_scored *v, size_t n, double level, struct lk_score *out);
/* The errors alone, e.g. of a baseline: n pairs; a NaN among them is left out. */
enum lk_status lk_score_errors_of(const double *measured, const double *predicted, size_t n,
                                  struct lk_score_errors *out);

/* Two lines below a table: errors; intervals. */
enum lk_status lk_score_note(const struct lk_score *s, struct lk_table *t);

#endif
