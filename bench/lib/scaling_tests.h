/*
 * The tests hold out of published series, to judge the scaling law, every count from those before
 * it, as many of these as one likes. Kinds of such tests overlap: the largest count, from all
 * smaller ones; counts that are twice, four or eight times the second, from the first two; the
 * largest of strong scaling; and all tests of a distance, for which a forecast chooses its width
 * (sim/throughput/scaling_interval.h).
 *
 * Whole sources are dealt to folds. A test is compared with the constant width that scores best on
 * the other folds.
 */
#ifndef LK_BENCH_LIB_SCALING_TESTS_H
#define LK_BENCH_LIB_SCALING_TESTS_H

#include "base/csv.h"
#include "bench/lib/published_series.h"
#include "facts/score.h"
#include "sim/forecast/baseline.h"
#include "sim/throughput/scaling_interval.h"

#include <stdbool.h>
#include <stddef.h>

enum { SCALING_FOLDS = 8 };
static const double SCALING_LEVEL = 0.90; /* of intervals */

/* Errors of a source are alike: the largest of n sources is exceeded by the next one in 1 of n + 1
 * cases, so no fewer speak for a constant interval of SCALING_LEVEL. */
enum { SCALING_SOURCES_LEAST = 10 };

/* X(kind, key, text, by tier, what is held out) */
#define KIND_LIST(X)                                                                               \
    X(LARGEST, "largest", "the largest count from all smaller ones", true,                         \
      !s->strong && known + 1 == s->n && target == known)                                          \
    X(TWICE, "x2", "x2 from two counts", true, !s->strong && known == 2 && times == 2)             \
    X(FOURFOLD, "x4", "x4 from two counts", true, !s->strong && known == 2 && times == 4)          \
    X(EIGHTFOLD, "x8", "x8 from two counts", true, !s->strong && known == 2 && times == 8)         \
    X(STRONG, "strong", "strong scaling, the largest count", true,                                 \
      s->strong &&known + 1 == s->n && target == known)                                            \
    X(WEAK_1, "weak x2", "x2", false, !s->strong && doublings == 1)                                \
    X(WEAK_2, "weak x4", "x4", false, !s->strong && doublings == 2)                                \
    X(WEAK_3, "weak x8", "x8", false, !s->strong && doublings == 3)                                \
    X(WEAK_4, "weak x16", "x16", false, !s->strong && doublings == 4)                              \
    X(WEAK_5, "weak x32", "x32 and more", false, !s->strong && doublings == 5)                     \
    X(STRONG_1, "strong x2", "strong scaling, x2", false, s->strong &&doublings == 1)              \
    X(STRONG_2, "strong x4", "strong scaling, x4", false, s->strong &&doublings == 2)              \
    X(STRONG_3, "strong x8", "strong scaling, x8", false, s->strong &&doublings == 3)              \
    X(STRONG_4, "strong x16", "strong scaling, x16", false, s->strong &&doublings == 4)            \
    X(STRONG_5, "strong x32", "strong scaling, x32 and more", false, s->strong &&doublings == 5)
#define KIND_ENUM(kind, ...) kind,
enum kind { KIND_LIST(KIND_ENUM) KIND_COUNT };

struct scaling_kind {
    const char *key, *text;
    bool by_tier; /* tests of one tier alone are compared */
};
extern const struct scaling_kind scaling_kinds[KIND_COUNT];

/* A count of a series that is forecast from its first `known`. */
struct scaling_test {
    const struct published_series *s;
    size_t known, target;
    int fold;
    bool is[KIND_COUNT];
    enum kind distance;          /* the kind by which the width is chosen */
    double constant[KIND_COUNT]; /* the half width of ln that scores best on the other folds */
    struct lk_scored ours;
    double baseline[LK_BASELINE_COUNT];
};

struct scaling_tests {
    struct published_list series;
    int *folds; /* of each series */
    struct scaling_test *v;
    size_t n, capacity;
    double *scratch; /* of n */
    struct lk_scaling_widths
        widths[SCALING_FOLDS]; /* as the tests of the other folds choose them */
};

/* Read the series and make their tests; the caller deals the folds. */
enum lk_status scaling_tests_make(struct scaling_tests *out);
void scaling_tests_fini(struct scaling_tests *d);

/* Return the constant half width that scores best on the tests of a kind outside two folds, and of
 * a tier (0: both); NaN without tests. */
double scaling_tests_best(const struct scaling_tests *d, enum kind kind, char tier, int fold,
                          int other);
/* Set what the tests of every fold are compared with. */
void scaling_tests_constants(struct scaling_tests *d);

/* Scores of a kind outside a fold (-1: of all), summed: of the law's own widths, and of constant
 * ones, each chosen outside that fold and the test's own. pre: no test has a chosen width. */
struct scaling_rivals {
    double law, constant;
    size_t n;
};
struct scaling_rivals scaling_tests_rivals(const struct scaling_tests *d, enum kind kind, int fold);
/* Return how many sources outside a fold have tests of a kind. */
int scaling_tests_sources(const struct scaling_tests *d, enum kind kind, int fold);
/* Return the half width of a kind that the tests outside a fold choose; NaN: the law's own. */
double scaling_tests_width(const struct scaling_tests *d, enum kind kind, int fold);
/* Choose those of all kinds. */
void scaling_tests_widths(const struct scaling_tests *d, int fold, struct lk_scaling_widths *out);
double *scaling_tests_width_at(struct lk_scaling_widths *w, enum kind kind);

/* Deal whole sources, or repositories, to folds in turn, in the order of the file. */
void scaling_tests_deal(struct scaling_tests *d, bool by_repository);
/* Forecast every test by the constants of its fold, with the law's own widths, or with those that
 * the other folds choose. */
enum lk_status scaling_tests_by_law(struct scaling_tests *d, const struct lk_scaling_prior *folds);
enum lk_status scaling_tests_predict(struct scaling_tests *d, const struct lk_scaling_prior *folds);

/* Columns of a CSV of the constants of the law, a row for each fold, and the reader of one. */
extern const struct lk_csv_column scaling_constants[LK_SCALING_CONSTANT_COUNT];
enum lk_status scaling_tests_read_folds(const char *path, struct lk_scaling_prior *out_folds);

#endif
