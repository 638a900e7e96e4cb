/* How compute and collectives slow each other, and ranks each other: measured, assumed, drawn. */
#include "base/array.h"
#include "base/rng.h"
#include "sim/calibration.h"
#include "sim/prior.h"
#include "sim/step/config.h"
#include "sim/step/overlap.h"
#include "tests/rigs/suite.h"

#include <math.h>

enum { DRAWS = 4000 };

static struct lk_overlap mean_draw(const struct lk_cluster *c)
{
    struct lk_rng g = lk_rng_init(1, 2);
    struct lk_overlap mean = {0};

    for (int i = 0; i < DRAWS; i++) {
        double z_gamma = lk_rng_normal(&g), z_delta = lk_rng_normal(&g);
        struct lk_overlap d = lk_overlap_draw(c, z_gamma, z_delta);

        ck_assert(d.gamma_wire >= 0 && d.delta >= 0);
        mean.gamma_wire += d.gamma_wire / DRAWS;
        mean.delta += d.delta / DRAWS;
    }
    return mean;
}

static const struct {
    enum lk_gpu_link link;
    double estimate, mean;
} assumed[] = {
    {LK_GPU_LINK_NVSWITCH, 0.19, 0.19},
    {LK_GPU_LINK_NVLINK, 0.19, 0.19},
    {LK_GPU_LINK_PCIE, 0.06, 0.06},
    {LK_GPU_LINK_UNKNOWN, 0, 0},
};

START_TEST(a12_what_was_not_measured_is_assumed_and_drawn)
{
    struct lk_cluster c;
    struct lk_overlap o, mean;

    lk_cluster_init(&c);
    c.topology.gpu_link = assumed[_i].link;
    o = lk_overlap_of(&c);
    mean = mean_draw(&c);
    ck_assert(o.assumed);
    ck_assert_double_eq_tol(o.gamma_wire, assumed[_i].estimate, 1e-12);
    /* The standard error of the mean of a half-normal is 0.76 of it over the root of the draws. */
    ck_assert_double_eq_tol(mean.gamma_wire, assumed[_i].mean,
                            5 * 0.76 * assumed[_i].mean / sqrt(DRAWS) + 1e-12);
    lk_cluster_fini(&c);
}
END_TEST

/* A measured slowdown is drawn within its interval, one without an interval is as it is. */
START_TEST(a12_what_was_measured_is_drawn_in_its_interval)
{
    struct lk_cluster c;
    struct lk_overlap o;

    lk_cluster_init(&c);
    ck_assert_int_eq(lk_quantity_set(&c.gamma_wire, 0.3, 0.2, 0.4, 9, "test"), LK_OK);
    ck_assert_int_eq(lk_quantity_set(&c.delta, 0.1, NAN, NAN, 1, "test"), LK_OK);
    o = lk_overlap_draw(&c, 1.6448536269514722, 3);
    ck_assert_double_eq_tol(o.gamma_wire, 0.4, 1e-9);
    ck_assert_double_eq_tol(o.delta, 0.1, 1e-12);
    o = lk_overlap_draw(&c, -9, 3);
    ck_assert_double_eq(o.gamma_wire, 0);
    ck_assert(!lk_overlap_of(&c).assumed);
    lk_cluster_fini(&c);
}
END_TEST

/* A start is that of GPUs, drawn within three times, or the cluster file's. Small collectives are
 * slowed by it more times than large ones, whose bytes it does not know. */
START_TEST(collectives_in_training_start_late)
{
    struct lk_cluster c;
    double inside = 0;
    struct lk_rng g = lk_rng_init(3, 4);

    lk_cluster_init(&c);
    ck_assert_double_eq(lk_overlap_of(&c).start_s, 0);
    ck_assert_double_eq(lk_overlap_draw_start(&c, 1), 0);
    c.topology.gpu_link = LK_GPU_LINK_NVSWITCH;
    ck_assert(lk_overlap_of(&c).start_assumed);
    for (int i = 0; i < DRAWS; i++) {
        double times = lk_overlap_draw_start(&c, lk_rng_normal(&g)) / lk_overlap_of(&c).start_s;

        inside += (times > 1.0 / 3 && times < 3) / (double)DRAWS;
    }
    ck_assert_double_eq_tol(inside, 0.9, 5 * sqrt(0.09 / DRAWS));
    ck_assert_int_eq(lk_quantity_set(&c.start_s, 70e-6, NAN, NAN, 1, "test"), LK_OK);
    ck_assert(!lk_overlap_of(&c).start_assumed);
    ck_assert_double_eq_tol(lk_overlap_draw_start(&c, 2), 70e-6, 1e-12);
    lk_cluster_fini(&c);
}
END_TEST

/* Measured co-location is drawn in its interval, and is never below 0. */
START_TEST(a14_co_location_is_drawn_in_its_interval)
{
    struct lk_cluster c;

    lk_cluster_init(&c);
    c.gpus_per_node = 2;
    ck_assert_int_eq(lk_alloc(&c.kappa, 1, sizeof *c.kappa), LK_OK);
    c.n_kappa = 1;
    c.kappa[0] = (struct lk_cluster_kappa){.ranks = 2, .kappa = lk_quantity_none()};
    ck_assert_int_eq(lk_quantity_set(&c.kappa[0].kappa, 0.3, 0.1, 0.8, 9, "test"), LK_OK);
    ck_assert_double_eq_tol(lk_config_kappa(&c, 2, 0), 0.3, 1e-12);
    ck_assert_double_eq_tol(lk_config_kappa(&c, 2, 1.6448536269514722), 0.8, 1e-9);
    ck_assert_double_eq_tol(lk_config_kappa(&c, 2, -1.6448536269514722), 0.1, 1e-9);
    ck_assert_double_eq(lk_config_kappa(&c, 2, -9), 0);
    ck_assert_double_eq(lk_config_kappa(&c, 1, 9), 0);
    lk_cluster_fini(&c);
}
END_TEST

/* Ranks that outnumber the processors take at least their share of them, whatever was measured, and
 * how they take turns widens the draws. */
START_TEST(a15_ranks_that_outnumber_processors_take_turns)
{
    static const double Z = 1.6448536269514722;
    struct lk_cluster c;

    lk_cluster_init(&c);
    c.gpus_per_node = 2;
    ck_assert_int_eq(lk_alloc(&c.kappa, 1, sizeof *c.kappa), LK_OK);
    c.n_kappa = 1;
    c.kappa[0] = (struct lk_cluster_kappa){.ranks = 4, .kappa = lk_quantity_none()};
    ck_assert_int_eq(lk_quantity_set(&c.kappa[0].kappa, 0.6, 0.6, 0.6, 9, "test"), LK_OK);
    ck_assert_double_eq_tol(lk_config_kappa(&c, 4, 0), 1, 1e-12);
    ck_assert_double_eq_tol(lk_config_kappa(&c, 4, -Z), 1, 1e-12);
    ck_assert_double_eq_tol(lk_config_kappa(&c, 4, Z),
                            1.6 * exp(Z * lk_prior_value(LK_PRIOR_TURNS)) - 1, 1e-9);
    ck_assert_double_eq_tol(lk_config_kappa(&c, 2, Z), 0.2, 1e-9);
    lk_cluster_fini(&c);
}
END_TEST

/* Of ranks that take turns the last one counts, and their spread is no law of the ranks. */
START_TEST(a15_co_location_in_turns_is_that_of_the_last)
{
    enum { RANKS = 2, N = 6 };
    double alone[RANKS * N], together[RANKS * N];
    const struct lk_probe_colocation s = {
        .ranks = RANKS, .warmup = 1, .n = N, .alone_s = alone, .together_s = together};
    struct lk_cluster c[2];

    for (int i = 0; i < RANKS * N; i++) {
        alone[i] = 1;
        together[i] = 1.5 + i % 2 * 0.5;
    }
    for (int turns = 0; turns < 2; turns++) {
        lk_cluster_init(&c[turns]);
        ck_assert_int_eq(lk_calibration_add_colocation(&s, RANKS, turns, &c[turns]), LK_OK);
    }
    ck_assert_double_eq_tol(c[0].kappa[0].kappa.value, 0.75, 1e-12);
    ck_assert_double_eq_tol(c[1].kappa[0].kappa.value, 1, 1e-12);
    ck_assert(lk_quantity_known(&c[0].rank_sd));
    ck_assert(!lk_quantity_known(&c[1].rank_sd));
    lk_cluster_fini(&c[0]);
    lk_cluster_fini(&c[1]);
}
END_TEST

SUITE(overlap, c)
{
    tcase_add_test(c, collectives_in_training_start_late);
    tcase_add_test(c, a15_ranks_that_outnumber_processors_take_turns);
    tcase_add_test(c, a15_co_location_in_turns_is_that_of_the_last);
    tcase_add_test(c, a14_co_location_is_drawn_in_its_interval);
    tcase_add_loop_test(c, a12_what_was_not_measured_is_assumed_and_drawn, 0, 4);
    tcase_add_test(c, a12_what_was_measured_is_drawn_in_its_interval);
}
