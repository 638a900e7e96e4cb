/* The scaling law, its mixtures and the simplex that fits it. */
#include "base/array.h"
#include "bench/lib/scaling_fit.h"
#include "sim/simplex.h"
#include "tests/rigs/suite.h"

#include <math.h>

/* A mixture of one is the normal distribution; of two apart, the median lies between. */
START_TEST(mixture_quantiles)
{
    struct lk_mixture m = {0};
    double sum;

    ck_assert_int_eq(lk_mixture_add(&m, log(3), 1, 2), LK_OK);
    lk_mixture_normalise(&m, &sum);
    ck_assert_double_eq_tol(sum, log(3), 1e-12);
    ck_assert_double_eq_tol(lk_mixture_quantile(&m, 0.5), 1, 1e-6);
    ck_assert_double_eq_tol(lk_mixture_quantile(&m, 0.95), 1 + 2 * 1.6448536269514722, 1e-6);
    ck_assert_int_eq(lk_mixture_add(&m, 0, 101, 2), LK_OK);
    lk_mixture_normalise(&m, NULL);
    ck_assert_double_eq_tol(lk_mixture_cdf(&m, 51), 0.5, 1e-9);
    lk_mixture_fini(&m);
}
END_TEST

static enum lk_status rosenbrock(const double *x, void *ctx, double *out)
{
    (void)ctx;
    *out = 100 * pow(x[1] - x[0] * x[0], 2) + pow(1 - x[0], 2);
    return LK_OK;
}

START_TEST(simplex_finds_the_valley)
{
    double x[2] = {-1.2, 1}, value;

    ck_assert_int_eq(lk_simplex_minimise(rosenbrock, NULL, x, 2, 0.5, 200, &value), LK_OK);
    ck_assert_double_eq_tol(x[0], 1, 1e-4);
    ck_assert_double_eq_tol(x[1], 1, 1e-4);
    ck_assert_int_eq(lk_simplex_minimise(rosenbrock, NULL, x, 0, 0.5, 1, NULL), LK_EINTERNAL);
}
END_TEST

static void forecast(const struct lk_scaling_point *p, size_t n, struct lk_scaling_point target,
                     double q[3])
{
    struct lk_mixture m = {0};

    ck_assert_int_eq(lk_scaling_predict(&lk_scaling_default, p, n, &target, &m), LK_OK);
    lk_mixture_normalise(&m, NULL);
    q[0] = target.config.world_size / exp(lk_mixture_quantile(&m, 0.95));
    q[1] = target.config.world_size / exp(lk_mixture_quantile(&m, 0.5));
    q[2] = target.config.world_size / exp(lk_mixture_quantile(&m, 0.05));
    lk_mixture_fini(&m);
}

static struct lk_scaling_point at(int world_size, int nodes, double throughput)
{
    return (struct lk_scaling_point){.config.world_size = world_size,
                                     .config.nodes = nodes,
                                     .config.accumulation = 1,
                                     .throughput = throughput};
}

/* Intervals widen with the extrapolation factor and narrow with points; units do not matter. */
START_TEST(intervals_know_their_reach)
{
    struct lk_scaling_point p[] = {at(1, 1, 100), at(2, 1, 196), at(4, 1, 388)}, scaled[3];
    double near[3], far[3], few[3], other[3];

    forecast(p, 3, at(8, 1, 0), near);
    forecast(p, 3, at(64, 8, 0), far);
    forecast(p, 1, at(8, 1, 0), few);
    ck_assert_double_lt(near[2] / near[0], far[2] / far[0]);
    ck_assert_double_lt(near[2] / near[0], few[2] / few[0]);
    ck_assert_double_lt(near[1], 8 * 100);
    ck_assert_double_gt(near[1], 8 * 88);
    for (size_t i = 0; i < LK_COUNT(p); i++) {
        scaled[i] = p[i];
        scaled[i].throughput *= 1000;
    }
    forecast(scaled, 3, at(8, 1, 0), other);
    ck_assert_double_eq_tol(other[1] / near[1], 1000, 1e-3);
}
END_TEST

/* A job that lost efficiency at 4 is expected to lose more; one that did not, hardly. */
START_TEST(losers_lose_on)
{
    struct lk_scaling_point good[] = {at(1, 1, 100), at(4, 1, 395)};
    struct lk_scaling_point bad[] = {at(1, 1, 100), at(4, 1, 280)};
    double a[3], b[3];

    forecast(good, 2, at(8, 1, 0), a);
    forecast(bad, 2, at(8, 1, 0), b);
    ck_assert_double_gt(a[1] / (2 * 395), b[1] / (2 * 280));
    ck_assert_double_lt(a[2] / a[0], b[2] / b[0]);
}
END_TEST

/* However badly it scaled, more GPUs are never expected to be slower. */
START_TEST(saturation_is_a_floor)
{
    struct lk_scaling_point p[] = {at(1, 1, 34710), at(4, 1, 12690)};
    double q[3];

    forecast(p, 2, at(8, 1, 0), q);
    ck_assert_double_gt(q[1], 0.8 * 12690);
}
END_TEST

/* More samples a step hide the exchange: the same GPUs lose less with accumulation. */
START_TEST(accumulation_hides_the_exchange)
{
    struct lk_scaling_point p[] = {at(1, 1, 100), at(8, 1, 640), at(1, 1, 100)};
    struct lk_scaling_point once = at(8, 1, 0), often = once;
    double a[3], b[3];

    for (size_t i = 0; i < LK_COUNT(p); i++)
        p[i].config.local_batch = 4;
    p[2].config.accumulation = 8;
    once.config.local_batch = often.config.local_batch = 4;
    often.config.accumulation = 8;
    forecast(p, 3, once, a);
    forecast(p, 3, often, b);
    ck_assert_double_gt(b[1], a[1] * 1.05);
    ck_assert_double_lt(b[1], 8 * 104);
}
END_TEST

static double median_of(const struct lk_scaling_prior *prior, const struct lk_scaling_point *p,
                        size_t n, struct lk_scaling_point target)
{
    struct lk_mixture m = {0};
    double y;

    ck_assert_int_eq(lk_scaling_predict(prior, p, n, &target, &m), LK_OK);
    lk_mixture_normalise(&m, NULL);
    y = lk_mixture_quantile(&m, 0.5);
    lk_mixture_fini(&m);
    return target.config.world_size / exp(y);
}

/* What the step from one GPU to two cost is not all lost again at each doubling: less than half of
 * it, and less than by a law without a one-off cost. */
START_TEST(b_a_one_off_cost_is_not_carried_on)
{
    struct lk_scaling_point p[] = {at(1, 1, 100), at(2, 1, 184)};
    struct lk_scaling_prior trend = lk_scaling_default;
    double law = median_of(&lk_scaling_default, p, 2, at(8, 1, 0));

    trend.once = 1e-6;
    ck_assert_double_gt(law, median_of(&trend, p, 2, at(8, 1, 0)));
    ck_assert_double_gt(law, 4 * 184 * 0.96 * 0.96);
}
END_TEST

/* Losses that grow from one doubling of the nodes to the next go on growing. */
START_TEST(b_losses_between_nodes_grow)
{
    struct lk_scaling_point p[] = {at(8, 1, 800), at(16, 2, 1550), at(32, 4, 2950)};
    struct lk_scaling_prior flat = lk_scaling_default;

    flat.growth = 1e-6;
    ck_assert_double_lt(median_of(&lk_scaling_default, p, 3, at(128, 16, 0)),
                        median_of(&flat, p, 3, at(128, 16, 0)));
}
END_TEST

/* Strong scaling: with each halving of the local batch a sample takes longer, but what a step
 * exchanges does not double against it. */
START_TEST(b_a_smaller_batch_does_not_overshoot)
{
    struct lk_scaling_point p[] = {at(1, 1, 100), at(2, 1, 180), at(4, 1, 310)}, target;
    struct lk_scaling_prior doubled = lk_scaling_default;
    double law;

    for (int i = 0; i < 3; i++)
        p[i].config.local_batch = 64 >> i;
    target = at(8, 1, 0);
    target.config.local_batch = 8;
    doubled.hidden = 1;
    law = median_of(&lk_scaling_default, p, 3, target);
    ck_assert_double_gt(law, median_of(&doubled, p, 3, target));
    ck_assert_double_gt(law, 1.2 * 310);
    ck_assert_double_lt(law, 1.8 * 310);
}
END_TEST

/* From constants far off, the fit finds better ones. */
START_TEST(fit_improves)
{
    struct lk_scaling_point a[] = {at(1, 1, 100), at(2, 1, 180), at(4, 1, 350)};
    struct lk_scaling_point b[] = {at(1, 1, 10), at(4, 1, 33), at(8, 1, 62)};
    struct scaling_series s[] = {{a, 3, 1}, {b, 3, 1}};
    struct lk_scaling_prior got;
    double before, after;

    ck_assert_int_eq(scaling_objective(s, 2, &scaling_start, &before), LK_OK);
    ck_assert_int_eq(scaling_fit(s, 2, &scaling_start, 40, &got), LK_OK);
    ck_assert_int_eq(scaling_objective(s, 2, &got, &after), LK_OK);
    ck_assert_double_lt(after, before);
    s[0].weight = s[1].weight = 0;
    ck_assert_int_eq(scaling_fit(s, 2, &scaling_start, 1, &got), LK_EEVIDENCE);
}
END_TEST

SUITE(scaling, t)
{
    tcase_add_test(t, b_a_one_off_cost_is_not_carried_on);
    tcase_add_test(t, b_losses_between_nodes_grow);
    tcase_add_test(t, b_a_smaller_batch_does_not_overshoot);
    tcase_add_test(t, mixture_quantiles);
    tcase_add_test(t, simplex_finds_the_valley);
    tcase_add_test(t, intervals_know_their_reach);
    tcase_add_test(t, losers_lose_on);
    tcase_add_test(t, saturation_is_a_floor);
    tcase_add_test(t, accumulation_hides_the_exchange);
    tcase_add_test(t, fit_improves);
}
