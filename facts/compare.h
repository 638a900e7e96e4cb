/*
 * Comparisons of two measurements or forecasts, A and B, point by point: the ratio of their speeds
 * with its interval, and a verdict.
 */
#ifndef LK_FACTS_COMPARE_H
#define LK_FACTS_COMPARE_H

#include "base/stats.h"
#include "base/status.h"
#include "base/table.h"
#include "base/units.h"
#include "base/words.h"
#include "facts/forecast.h"
#include "facts/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_COMPARE_LEVEL 0.90 /* of the intervals that artefacts carry */

/* X(verdict, name) of B against A. */
#define LK_DIFFERENCE_LIST(X)                                                                      \
    X(LK_DIFFERENCE_NOISE, "within noise") /* the ratio's interval holds 1 */                      \
    X(LK_DIFFERENCE_FASTER, "faster")                                                              \
    X(LK_DIFFERENCE_SLOWER, "slower")                                                              \
    X(LK_DIFFERENCE_UNKNOWN, "no interval")  /* a side has none: chance is not told apart */       \
    X(LK_DIFFERENCE_NONE, "the same number") /* one side took it over: it tells nothing of both */

enum lk_difference { LK_DIFFERENCE_LIST(LK_WORD_VALUE) LK_DIFFERENCE_COUNT };
LK_WORDS_DECLARE(lk_difference, enum lk_difference);

/* One point of both. An interval that is not known is NaN. */
struct lk_compared {
    char *what;   /* "all_reduce 25.0 MiB, 2 GPUs"; owned */
    char *labels; /* the same as labels (base/label.h); owned */
    char other;   /* letter of the side that is compared with A: 'B', ...; set by the caller */
    enum lk_dimension dim; /* time: less is faster; else more is */
    int gpus;              /* 0: not of any */
    double bytes;          /* of a collective; 0: it is none */
    bool one_number;       /* both sides have it from one source: no evidence of a difference */
    struct lk_estimate a, b;
    const char *evidence_a, *evidence_b; /* of predictions, static storage; NULL: none */
    double efficiency_a, efficiency_b;   /* of forecasts; 0: none */
    struct lk_estimate ratio;            /* speed of B over that of A: above 1, B is faster */
    enum lk_difference verdict;
};

struct lk_comparison {
    struct lk_compared *rows;
    size_t n, capacity;
    size_t only_a, only_b; /* points that the other lacks */
};

/*
 * Append a point: what and labels are taken over, also on failure. ratio NULL: computed from both
 * intervals, which are taken as independent (Zou and Donner 2008, "Construction of confidence
 * limits about effect measures", on logarithms).
 */
enum lk_status lk_compare_add(struct lk_comparison *c, struct lk_compared row,
                              const struct lk_estimate *ratio);
/*
 * Compare two times by their repetitions, of which each has two or more: Welch's interval of the
 * ratio of the means, on logarithms, with its degrees of freedom rounded down. All are above 0.
 */
struct lk_estimate lk_compare_welch(const double *a, size_t n_a, const double *b, size_t n_b,
                                    double level);
/* Count the points of a verdict. */
size_t lk_compare_count(const struct lk_comparison *c, enum lk_difference verdict);
/* Tabulate the points of a dimension; *out is NULL when there is none. */
enum lk_status lk_compare_table(const struct lk_comparison *c, enum lk_dimension dim,
                                const char *title, struct lk_table **out);
void lk_comparison_fini(struct lk_comparison *c); /* zeroes it; safe on a zeroed one */

/*
 * Return true if both are one number from one source: the source of one may have the names of the
 * files before it that took the number over (lockstep import --base).
 */
bool lk_compare_one_number(const struct lk_quantity *a, const struct lk_quantity *b);
/* Add a quantity of both; nothing where a side lacks it. */
enum lk_status lk_compare_quantity(struct lk_comparison *c, enum lk_dimension dim,
                                   const struct lk_quantity *a, const struct lk_quantity *b,
                                   const char *what);
/* Find the ratio of speeds, B over A, at point i of A and point k of B; false: it is taken from
 * both intervals. */
typedef bool lk_compare_ratio(void *user, size_t i, size_t k, struct lk_estimate *out);
/*
 * Compare forecasts: configurations that both have; jobs: compute at each local batch. Clusters:
 * sim/cluster_compare.h. ratio NULL: both intervals are taken as independent.
 */
enum lk_status lk_compare_forecasts(const struct lk_forecast *a, const struct lk_forecast *b,
                                    lk_compare_ratio *ratio, void *user, struct lk_comparison *out);
enum lk_status lk_compare_jobs(const struct lk_job *a, const struct lk_job *b,
                               struct lk_comparison *out);

#endif
