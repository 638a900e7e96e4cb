/* Scores of forecasts, by hand and against the property that they reward. */
#include "base/array.h"
#include "base/rng.h"
#include "facts/score.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

START_TEST(errors_by_hand)
{
    static const struct lk_scored v[] = {
        {100, 110, 90, 120}, {100, 95, 94, 99}, {200, 204, 190, 210},
        {50, NAN, NAN, NAN}, {50, 60, NAN, 70},
    };
    struct lk_score s;

    ck_assert_int_eq(lk_score_of(v, LK_COUNT(v), 0.9, &s), LK_OK);
    ck_assert_uint_eq(s.errors.n, 4);
    ck_assert_double_eq_tol(s.errors.mean, (0.10 + 0.05 + 0.02 + 0.20) / 4, 1e-12);
    ck_assert_double_eq_tol(s.errors.median, 0.075, 1e-12);
    ck_assert_double_eq_tol(s.errors.worst, 0.2, 1e-12);
    ck_assert_uint_eq(s.n, 3);
    ck_assert_uint_eq(s.inside, 2);
    ck_assert_double_eq_tol(s.share.value, 2.0 / 3, 1e-12);
    ck_assert_double_eq_tol(s.width, (log(120.0 / 90) + log(99.0 / 94) + log(210.0 / 190)) / 3,
                            1e-12);
    ck_assert_double_eq_tol(s.score, s.width + 20 * log(100.0 / 99) / 3, 1e-12);
    /* The second smallest of 0.0953, 0.0513 and 0.0198 in ln, and one outside it. */
    ck_assert_double_eq_tol(s.constant_width, 2 * log(100.0 / 95), 1e-12);
    ck_assert_double_eq_tol(s.constant_score,
                            s.constant_width + 20 * (log(1.1) - log(100.0 / 95)) / 3, 1e-12);
}
END_TEST

/* A time and its inverse, a throughput, score alike. */
START_TEST(inverses_score_alike)
{
    double a = lk_score_interval(0.2, 0.21, 0.3, 0.8);

    ck_assert_double_eq_tol(a, lk_score_interval(1 / 0.2, 1 / 0.3, 1 / 0.21, 0.8), 1e-12);
    ck_assert_double_eq_tol(a, log(0.3 / 0.21) + 10 * log(0.21 / 0.2), 1e-12);
}
END_TEST

START_TEST(nothing_scores_nothing)
{
    struct lk_score s;
    struct lk_score_errors e;
    double measured = 1, predicted = NAN;

    ck_assert_int_eq(lk_score_of(NULL, 0, 0.9, &s), LK_OK);
    ck_assert_uint_eq(s.n + s.errors.n, 0);
    ck_assert_double_nan(s.score);
    ck_assert_double_nan(s.errors.mean);
    ck_assert_int_eq(lk_score_errors_of(&measured, &predicted, 1, &e), LK_OK);
    ck_assert_uint_eq(e.n, 0);
    ck_assert_int_eq(lk_score_of(NULL, 0, 1, &s), LK_EINTERNAL);
}
END_TEST

/*
 * 4,000 errors have an sd of 1 % or 10 % in turn. The true intervals contain 90 %, beat the
 * constant width of the same coverage, and beat themselves made half or twice as wide.
 */
START_TEST(the_true_interval_scores_best)
{
    enum { N = 4000 };
    static const double stretch[] = {1, 0.5, 2};
    double score[LK_COUNT(stretch)];

    for (size_t k = 0; k < LK_COUNT(stretch); k++) {
        static struct lk_scored v[N];
        struct lk_rng g = lk_rng_init(5, 5);
        struct lk_score s;

        for (int i = 0; i < N; i++) {
            double sd = i % 2 ? 0.01 : 0.1, half = 1.6449 * sd * stretch[k];

            v[i] = (struct lk_scored){exp(sd * lk_rng_normal(&g)), 1, exp(-half), exp(half)};
        }
        ck_assert_int_eq(lk_score_of(v, N, 0.9, &s), LK_OK);
        score[k] = s.score;
        if (k)
            continue;
        ck_assert_double_eq_tol(s.share.value, 0.9, 0.02); /* four binomial sd */
        ck_assert_double_lt(s.score, 0.9 * s.constant_score);
        ck_assert_double_lt(s.width, s.constant_width);
    }
    ck_assert_double_lt(score[0], score[1]);
    ck_assert_double_lt(score[0], score[2]);
}
END_TEST

START_TEST(the_note_says_it)
{
    static const struct lk_column columns[] = {{"a", "a", LK_DIM_NONE, -1}};
    static const struct lk_scored v[] = {{100, 110, 90, 120}, {100, 95, 94, 99}};
    struct lk_score s;
    struct lk_table *t = NULL;

    ck_assert_int_eq(lk_table_create("t", columns, 1, &t), LK_OK);
    ck_assert_int_eq(lk_score_of(v, 2, 0.9, &s), LK_OK);
    ck_assert_int_eq(lk_score_note(&s, t), LK_OK);
    ck_assert_uint_eq(t->n_notes, 2);
    ck_assert_str_eq(t->notes[0], "error of 2: mean 7.50 %, median 7.50 %, worst 10.00 %");
    ck_assert_ptr_nonnull(strstr(t->notes[1], "90 % interval: 1 of 2 inside"));
    lk_table_destroy(t);
}
END_TEST

SUITE(score, c)
{
    tcase_add_test(c, errors_by_hand);
    tcase_add_test(c, inverses_score_alike);
    tcase_add_test(c, nothing_scores_nothing);
    tcase_add_test(c, the_true_interval_scores_best);
    tcase_add_test(c, the_note_says_it);
}
