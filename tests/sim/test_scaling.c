/* The scaling law, its mixtures and the simplex that fits it. */
#include "base/array.h"
#include "base/rng.h"
#include "bench/lib/scaling_fit.h"
#include "sim/simplex.h"
#include "tests/rigs/cases.h"
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

/* ---- Random tables ---- */

static double between(struct lk_rng *g, double lo, double hi)
{
    return lo + (hi - lo) * lk_rng_uniform(g);
}

/* A table of doubling counts, and the GPUs of a node. */
struct made {
    struct lk_scaling_point rows[12];
    size_t n;
    int per_node;
};

static void place(const struct made *t, struct lk_scaling_point *p, int world_size)
{
    p->config.world_size = world_size;
    p->config.nodes = (world_size - 1) / t->per_node + 1;
}

/* Make a table that grows at `growing` counts, by 1.1 to 2 times, and then at `falling` ones does
 * not, as often as not with one global batch. */
static struct made make_table(struct lk_rng *g, size_t growing, size_t falling)
{
    struct made t = {.n = growing + falling, .per_node = 1 << lk_rng_below(g, 4)};
    double throughput = exp(3 * lk_rng_normal(g));
    bool batched = lk_rng_below(g, 2), strong = batched && lk_rng_below(g, 2);

    for (size_t i = 0; i < t.n; i++) {
        struct lk_scaling_point *p = &t.rows[i];

        throughput *= i < growing ? between(g, 1.1, 2) : fmin(1, between(g, 0.6, 1.2));
        *p = (struct lk_scaling_point){.config.accumulation = 1, .throughput = throughput};
        p->config.local_batch = !batched ? 0 : strong ? 1 << (16 - i) : 16;
        place(&t, p, 1 << i);
    }
    return t;
}

/* Forecast the median at so many times the table's most GPUs, of the same local or global batch. */
static double far(const struct made *t, int times)
{
    const struct lk_config *first = &t->rows[0].config, *last = &t->rows[t->n - 1].config;
    struct lk_scaling_point target = t->rows[t->n - 1];

    place(t, &target, last->world_size * times);
    if (first->local_batch != last->local_batch)
        target.config.local_batch /= times;
    return median_of(&lk_scaling_default, t->rows, t->n, target);
}

/* A curve of several GPUs whose last count, or whose last two or three, brought no more samples a
 * second is not forecast to bring more, at twice to 64 times the GPUs. */
START_TEST(a_curve_that_ceased_to_grow_stays_so)
{
    for (size_t i = 0; i < cases_or(10000); i++) {
        struct lk_rng g = lk_rng_init(12, i);
        struct made t = make_table(&g, 2 + lk_rng_below(&g, 4), 1 + lk_rng_below(&g, 3));
        int times = 2 << lk_rng_below(&g, 6);
        double ratio = far(&t, times) / t.rows[t.n - 1].throughput;

        ck_assert_msg(ratio <= 1.05, "case %zu, x%d: %g times the last", i, times, ratio);
    }
}
END_TEST

/* A curve that grew at every count is not forecast to bring less than its last. */
START_TEST(a_curve_that_grew_does_not_fall)
{
    for (size_t i = 0; i < cases_or(10000); i++) {
        struct lk_rng g = lk_rng_init(13, i);
        struct made t = make_table(&g, 2 + lk_rng_below(&g, 4), 0);
        int times = 2 << lk_rng_below(&g, 6);
        double ratio = far(&t, times) / t.rows[t.n - 1].throughput;

        ck_assert_msg(ratio >= 0.98, "case %zu, x%d: %g times the last", i, times, ratio);
    }
}
END_TEST

/* 1 to 8 nodes that bring 146, 140, 130 and 120 samples a second bring no more on 64, of one GPU
 * each or in one node. */
START_TEST(a_falling_table_is_not_forecast_to_rise)
{
    struct made t = {.n = 4, .per_node = 1};
    static const double throughputs[] = {146, 140, 130, 120};
    struct lk_scaling_point in_one;

    for (int i = 0; i < 4; i++)
        t.rows[i] = at(1 << i, 1 << i, throughputs[i]);
    ck_assert_double_le(far(&t, 8), 126);
    ck_assert_double_ge(far(&t, 8), 60);
    in_one = at(64, 1, 0);
    for (int i = 0; i < 4; i++)
        t.rows[i].config.nodes = 1;
    ck_assert_double_le(median_of(&lk_scaling_default, t.rows, 4, in_one), 126);
}
END_TEST

/* A curve that loses nothing is forecast to lose as little as by the law's effects alone. */
START_TEST(shapes_cost_a_good_curve_nothing)
{
    struct lk_scaling_prior without = lk_scaling_default;
    struct lk_scaling_point p[] = {at(1, 1, 100), at(2, 1, 199), at(4, 1, 397), at(8, 1, 792)};

    without.saturated = without.serial = 1e-9;
    ck_assert_double_ge(median_of(&lk_scaling_default, p, 4, at(64, 8, 0)),
                        0.995 * median_of(&without, p, 4, at(64, 8, 0)));
}
END_TEST

/* On a curve of Amdahl's law the forecast is that law's, whatever the serial share is. */
START_TEST(a_serial_share_is_found)
{
    for (size_t i = 0; i < cases_or(400); i++) {
        struct lk_rng g = lk_rng_init(9, i);
        double share = 0.01 * exp(log(40) * lk_rng_uniform(&g)), truth, off;
        size_t n = 5 + lk_rng_below(&g, 3);
        int gpus = 1 << (n + lk_rng_below(&g, 2));
        struct lk_scaling_point p[8];

        for (size_t k = 0; k < n; k++)
            p[k] = at(1 << k, 1 << k, 100 * (1 << k) / (1 + share * ((1 << k) - 1)));
        truth = 100 * gpus / (1 + share * (gpus - 1));
        off = log(median_of(&lk_scaling_default, p, n, at(gpus, gpus, 0)) / truth);
        ck_assert_msg(fabs(off) < 0.05, "share %g, %d GPUs from %zu rows: off by %g", share, gpus,
                      n, off);
    }
}
END_TEST

/* A step of fewer samples is shorter, and takes longer a sample, whatever the table. */
START_TEST(a_smaller_batch_is_a_shorter_step)
{
    for (size_t i = 0; i < cases_or(1000); i++) {
        struct lk_rng g = lk_rng_init(4, i);
        struct made t = make_table(&g, 1 + lk_rng_below(&g, 5), 0);
        struct lk_scaling_point target = t.rows[0];
        double last_s = 0, last_a_sample = INFINITY;

        for (size_t k = 0; k < t.n; k++)
            t.rows[k].config.local_batch = 64;
        place(&t, &target, 1 << lk_rng_below(&g, 8));
        for (int batch = 1; batch <= 256; batch *= 2) {
            double s;

            target.config.local_batch = batch;
            s = batch * target.config.world_size /
                median_of(&lk_scaling_default, t.rows, t.n, target);
            ck_assert_msg(s > last_s && s / batch < last_a_sample,
                          "case %zu, batch %d of %d GPUs: %g s, of half of it %g s", i, batch,
                          target.config.world_size, s, last_s);
            last_s = s;
            last_a_sample = s / batch;
        }
    }
}
END_TEST

SUITE(scaling, t)
{
    tcase_add_test(t, a_curve_that_ceased_to_grow_stays_so);
    tcase_add_test(t, a_curve_that_grew_does_not_fall);
    tcase_add_test(t, a_falling_table_is_not_forecast_to_rise);
    tcase_add_test(t, shapes_cost_a_good_curve_nothing);
    tcase_add_test(t, a_serial_share_is_found);
    tcase_add_test(t, a_smaller_batch_is_a_shorter_step);
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
