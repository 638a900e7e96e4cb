/* Intervals of the scaling law: their order over counts, their widths, and what they hold of
 * published series and of machines that the law itself draws. */
#include "base/array.h"
#include "base/rng.h"
#include "bench/lib/scaling_tests.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/suite.h"

#include <math.h>

static const double LEVEL = 0.9;

static struct lk_scaling_point at(int world_size, int per_node, int local_batch, double throughput)
{
    return (struct lk_scaling_point){.config.world_size = world_size,
                                     .config.nodes = (world_size - 1) / per_node + 1,
                                     .config.local_batch = local_batch,
                                     .config.accumulation = 1,
                                     .throughput = throughput};
}

static struct lk_estimate forecast(const struct lk_scaling_point *rows, size_t n,
                                   struct lk_scaling_point target)
{
    struct lk_scaling_widths widths;
    struct lk_estimate e = {0};

    lk_scaling_widths_init(&widths);
    ck_assert_msg(lk_scaling_interval(&lk_scaling_default, &widths, rows, n, &target, LEVEL, &e) ==
                      LK_OK,
                  "%s", lk_error_text());
    return e;
}

/* ---- Order ---- */

/* A table of doubling counts of one local batch. */
struct made {
    struct lk_scaling_point rows[8];
    size_t n;
    int per_node;
};

/* Make a table each of whose doublings brings `least` to `most` times the throughput. */
static struct made make_table(struct lk_rng *g, double least, double most)
{
    struct made t = {.n = 1 + lk_rng_below(g, 6), .per_node = 1 << lk_rng_below(g, 4)};
    double throughput = exp(3 * lk_rng_normal(g));

    for (size_t i = 0; i < t.n; i++, throughput *= least + (most - least) * lk_rng_uniform(g))
        t.rows[i] = at(1 << i, t.per_node, 16, throughput);
    return t;
}

/* Return the step of a forecast in s: 0 the lower end, 1 the estimate, 2 the upper end. */
static double step_of(const struct made *t, int gpus, int end)
{
    struct lk_estimate e = forecast(t->rows, t->n, at(gpus, t->per_node, 16, 0));

    return 16.0 * gpus / (end == 0 ? e.hi : end == 1 ? e.value : e.lo);
}

/* More GPUs at one local batch make no step faster: beyond the rows neither the estimate nor an end
 * of its interval falls from count to count, be the rows flat, irregular or better than linear; nor
 * does the lower end before the first doubling. */
START_TEST(more_gpus_make_no_step_faster)
{
    static const double doublings[][2] = {{2, 2}, {1.2, 2.1}, {1.9, 2.1}, {0.7, 1.3}};

    for (size_t i = 0; i < cases_or(200); i++) {
        struct lk_rng g = lk_rng_init(31, i);
        const double *d = doublings[lk_rng_below(&g, LK_COUNT(doublings))];
        struct made t = make_table(&g, d[0], d[1]);
        int last = t.rows[t.n - 1].config.world_size;

        for (int end = 0; end < 3; end++) {
            double before = step_of(&t, end ? 2 * last : last + (last + 1) / 2, end);

            for (int times = end ? 4 : 2; times <= 64; times *= 2) {
                double s = step_of(&t, times * last, end);

                ck_assert_msg(s >= before * (1 - 1e-6), "case %zu, end %d, x%d: %g s after %g", i,
                              end, times, s, before);
                before = s;
            }
        }
    }
}
END_TEST

/* A table whose GPUs bring the same at every count is forecast to lose less than 1 % a doubling in
 * the node, and its step, 1 s, to be no more than 3 % faster. */
START_TEST(a_flat_table_stays_flat)
{
    struct lk_scaling_point rows[5];

    for (int n = 3; n <= 5; n++)
        for (int lg = 1; lg <= 6; lg++) {
            struct lk_estimate e;
            int gpus = 1 << (n - 1 + lg);

            for (int i = 0; i < n; i++)
                rows[i] = at(1 << i, 1 << 20, 16, 16 << i);
            e = forecast(rows, (size_t)n, at(gpus, 1 << 20, 16, 0));
            ck_assert_double_ge(e.value / (16.0 * gpus), 1 - 0.01 * lg);
            ck_assert_double_le(e.hi / (16.0 * gpus), 1.03);
        }
}
END_TEST

/* ---- Widths ---- */

/* A kind is of the largest row of the target's local batch, else of its global batch. */
START_TEST(kinds_of_forecasts)
{
    static const struct {
        int gpus, batch;
        bool strong;
        int doublings;
    } cases[] = {
        {8, 16, false, 1}, {12, 16, false, 2}, {16, 16, false, 2}, {256, 16, false, 5},
        {4, 16, false, 0}, {3, 16, false, 0},  {8, 8, true, 1},    {64, 1, true, 4},
        {2, 32, false, 0}, {8, 24, false, 0},
    };
    const struct lk_scaling_point rows[] = {at(1, 8, 16, 100), at(4, 8, 16, 390)};

    for (size_t i = 0; i < LK_COUNT(cases); i++) {
        struct lk_scaling_point p = at(cases[i].gpus, 8, cases[i].batch, 0);
        struct lk_scaling_kind k = lk_scaling_kind_of(rows, LK_COUNT(rows), &p.config);

        ck_assert_msg(
            k.doublings == cases[i].doublings && (!k.doublings || k.strong == cases[i].strong),
            "%d GPUs at %d: %d, %d", cases[i].gpus, cases[i].batch, k.strong, k.doublings);
    }
}
END_TEST

/* A kind for which a constant width was chosen has that one about the same estimate, at 90 %; the
 * others keep the law's. */
START_TEST(a_chosen_width_is_used)
{
    const struct lk_scaling_point rows[] = {at(1, 8, 16, 100), at(2, 8, 16, 196)};
    struct lk_scaling_widths widths;
    struct lk_estimate own, chosen;

    lk_scaling_widths_none(&widths);
    widths.half[1][0] = 0.3; /* the same global batch, x2 */
    for (int strong = 0; strong < 2; strong++) {
        struct lk_scaling_point p = at(4, 8, strong ? 8 : 16, 0);

        own = forecast(rows, 2, p);
        ck_assert_int_eq(
            lk_scaling_interval(&lk_scaling_default, &widths, rows, 2, &p, LEVEL, &chosen), LK_OK);
        ck_assert_double_eq_tol(chosen.value / own.value, 1, 1e-6);
        ck_assert_double_eq_tol(log(chosen.hi / chosen.lo), strong ? 0.6 : log(own.hi / own.lo),
                                1e-6);
    }
}
END_TEST

/* The widths in sim/throughput/scaling_widths.h are those that published series choose now. */
START_TEST(the_recorded_widths_are_chosen)
{
    struct lk_scaling_prior folds[SCALING_FOLDS];
    struct scaling_tests d = {0};

    ck_assert_int_eq(scaling_tests_read_folds("bench/results/scaling_folds.csv", folds), LK_OK);
    ck_assert_int_eq(scaling_tests_make(&d), LK_OK);
    scaling_tests_deal(&d, false);
    ck_assert_int_eq(scaling_tests_by_law(&d, folds), LK_OK);
    for (int k = WEAK_1; k < KIND_COUNT; k++) {
        const struct lk_scaling_kind kind = {k >= STRONG_1,
                                             k - (k >= STRONG_1 ? STRONG_1 : WEAK_1) + 1};
        const struct lk_scaling_judged *j = lk_scaling_judged(kind);
        struct scaling_rivals r = scaling_tests_rivals(&d, (enum kind)k, -1);
        double half = scaling_tests_width(&d, (enum kind)k, -1);

        ck_assert((j != NULL) == (r.n > 0));
        if (!j)
            continue;
        ck_assert_int_eq((int)r.n, j->tests);
        ck_assert_double_eq_tol(r.law / (double)r.n / j->law, 1, 0.02);
        ck_assert_double_eq_tol(isnan(half) ? 0 : half, j->half, 0.02 * j->half + 1e-12);
        /* A kind that enough sources judge has the width that scores better. */
        ck_assert(j->sources < SCALING_SOURCES_LEAST || (j->half > 0) == (j->constant < j->law));
    }
    scaling_tests_fini(&d);
}
END_TEST

/* ---- Coverage ---- */

static void check_coverage(const char *what, const struct lk_scored *v, size_t n,
                           double other_width)
{
    struct lk_score s;

    ck_assert_int_eq(lk_score_of(v, n, LEVEL, &s), LK_OK);
    ck_assert_msg((double)s.inside >= 0.85 * (double)n && (double)s.inside <= 0.95 * (double)n,
                  "%s: %zu of %zu inside", what, s.inside, n);
    ck_assert_msg(s.width <= 1.3 * other_width, "%s: %g wide, the constant one %g", what, s.width,
                  other_width);
}

/* Published counts are tested, each forecast from the ones before it by constants of other sources,
 * 85 to 95 % are inside their intervals at each distance, which are no wider than 1.3 times the
 * constant width of other sources. */
START_TEST(published_counts_are_inside)
{
    static const struct {
        const char *name;
        enum kind from, to;
    } distances[] = {{"x2", WEAK_1, WEAK_1},
                     {"x4", WEAK_2, WEAK_2},
                     {"x8", WEAK_3, WEAK_3},
                     {"x16 and more", WEAK_4, WEAK_5}};
    struct lk_scaling_prior folds[SCALING_FOLDS];
    struct scaling_tests d = {0};
    struct lk_scored *v = NULL;

    ck_assert_int_eq(scaling_tests_read_folds("bench/results/scaling_folds.csv", folds), LK_OK);
    ck_assert_int_eq(scaling_tests_make(&d), LK_OK);
    scaling_tests_deal(&d, false);
    ck_assert_int_eq(scaling_tests_predict(&d, folds), LK_OK);
    ck_assert_int_eq(lk_alloc(&v, d.n, sizeof *v), LK_OK);
    for (size_t i = 0; i < LK_COUNT(distances); i++) {
        double width = 0;
        size_t n = 0;

        for (size_t k = 0; k < d.n; k++)
            for (int kind = (int)distances[i].from; kind <= (int)distances[i].to; kind++)
                if (d.v[k].is[kind]) {
                    v[n++] = d.v[k].ours;
                    width += 2 * d.v[k].constant[kind];
                }
        ck_assert_msg(n > 50, "%s: %zu", distances[i].name, n);
        check_coverage(distances[i].name, v, n, width / (double)n);
    }
    free(v);
    scaling_tests_fini(&d);
}
END_TEST

SUITE(scaling_interval, t)
{
    tcase_add_test(t, more_gpus_make_no_step_faster);
    tcase_add_test(t, a_flat_table_stays_flat);
    tcase_add_test(t, kinds_of_forecasts);
    tcase_add_test(t, a_chosen_width_is_used);
    tcase_add_test(t, the_recorded_widths_are_chosen);
    tcase_add_test(t, published_counts_are_inside);
}
