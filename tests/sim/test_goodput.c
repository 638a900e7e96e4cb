/* Goodput under failures: limits, the best period, and an independent simulation. */
#include "sim/planning/economics.h"

#include "base/array.h"
#include "base/rng.h"
#include "tests/rigs/suite.h"

#include <math.h>

/* 419 interruptions in 54 days on 16,384 GPUs (Llama 3, arXiv:2407.21783, section 3.3.4). */
static const double LLAMA_MTBF_S = 16384.0 * 54 * 86400 / 419;

static const struct {
    struct lk_goodput law;
    int world_size;
} cases[] = {
    {{1e6, 10, 100}, 8},     {{1e6, 60, 300}, 256},
    {{1e6, 60, 300}, 1024}, /* M = 977 s: checkpoint and restart are large parts of it */
    {{4e5, 200, 600}, 1000}, {{182430720, 30, 600}, 16384},
};

/* Simulate `periods` periods of training event by event: an independent way to the mean. */
static double simulate(const struct lk_goodput *g, int world_size, double period_s, int periods,
                       uint64_t seed)
{
    struct lk_rng rng = lk_rng_init(seed, lk_rng_stream("goodput test", 0));
    double m = g->mtbf_s / world_size, now = 0, failure = m * lk_rng_exponential(&rng);

    for (int done = 0; done < periods;) {
        if (now + period_s + g->write_s <= failure) {
            now += period_s + g->write_s;
            done++;
            continue;
        }
        /* Restart until a restart succeeds. */
        do {
            now = failure;
            failure = now + m * lk_rng_exponential(&rng);
        } while (failure < now + g->restart_s);
        now += g->restart_s;
    }
    return periods * period_s / now;
}

/*
 * About 1e4 to 1e5 failures are simulated, so the simulated loss has a relative sd of about 1 %,
 * and the share that times its lost part.
 */
START_TEST(the_formula_is_the_simulations_mean)
{
    const struct lk_goodput *g = &cases[_i].law;
    double best = lk_goodput_best_period_s(g, cases[_i].world_size);

    for (int k = -1; k <= 1; k++) {
        double period = best * pow(2, k);
        double share = lk_goodput_share(g, cases[_i].world_size, period);
        double seen = simulate(g, cases[_i].world_size, period, 200000, 7 + (uint64_t)_i);

        ck_assert_double_eq_tol(seen, share, 0.03 * (1 - share) + 1e-4);
    }
}
END_TEST

/* No other period on a fine grid around it is better. */
START_TEST(the_best_period_is_best)
{
    const struct lk_goodput *g = &cases[_i].law;
    int world_size = cases[_i].world_size;
    double best = lk_goodput_best_period_s(g, world_size),
           share = lk_goodput_share(g, world_size, best);

    ck_assert(best > 0);
    for (int k = -200; k <= 200; k++)
        ck_assert_double_le(lk_goodput_share(g, world_size, best * exp(0.01 * k)),
                            share * (1 + 1e-12));
}
END_TEST

/* Compare with Daly's series for the same optimum; its next terms are
 * below 1 % up to write = M / 2. */
START_TEST(the_best_period_is_daly_and_young)
{
    const struct lk_goodput *g = &cases[_i].law;
    double m = g->mtbf_s / cases[_i].world_size, x = g->write_s / (2 * m);
    double daly = sqrt(2 * g->write_s * m) * (1 + sqrt(x) / 3 + x / 9) - g->write_s;

    ck_assert_double_eq_tol(lk_goodput_best_period_s(g, cases[_i].world_size) / daly, 1, 0.01);
    ck_assert_double_le(lk_goodput_best_period_s(g, cases[_i].world_size),
                        sqrt(2 * g->write_s * m));
}
END_TEST

START_TEST(limits)
{
    struct lk_goodput never = {1e30, 10, 100}, always = {1, 10, 100}, free_of_cost = {1e6, 0, 100};

    ck_assert_double_eq_tol(lk_goodput_share(&never, 8, lk_goodput_best_period_s(&never, 8)), 1,
                            1e-9);
    ck_assert_double_lt(lk_goodput_share(&always, 1000, 100), 1e-100);
    ck_assert(lk_goodput_best_period_s(&free_of_cost, 8) == 0);
    ck_assert_double_eq_tol(lk_goodput_share(&free_of_cost, 8, 0), exp(-100 / 125000.0), 1e-12);
    ck_assert(lk_goodput_share(&always, 1, 0) == 0);
    /* More GPUs, more failures, less goodput. */
    for (int world_size = 1; world_size < 1 << 20; world_size *= 2) {
        struct lk_goodput g = {LLAMA_MTBF_S, 30, 600};
        double a = lk_goodput_share(&g, world_size, lk_goodput_best_period_s(&g, world_size));
        double b =
            lk_goodput_share(&g, 2 * world_size, lk_goodput_best_period_s(&g, 2 * world_size));

        ck_assert_double_gt(a, b);
    }
}
END_TEST

/*
 * The Llama 3 run had 419 interruptions in 54 days, one in 3.1 h, and the paper reports more than
 * 90 % effective training time. A checkpoint of 30 s and a restart of 10 min give as much.
 */
START_TEST(a_published_run_is_met)
{
    struct lk_goodput g = {LLAMA_MTBF_S, 30, 600};

    ck_assert_double_eq_tol(g.mtbf_s / 16384 / 3600, 3.09, 0.01);
    ck_assert_double_gt(lk_goodput_share(&g, 16384, lk_goodput_best_period_s(&g, 16384)), 0.85);
    ck_assert_double_lt(lk_goodput_share(&g, 16384, lk_goodput_best_period_s(&g, 16384)), 0.95);
}
END_TEST

SUITE(goodput, c)
{
    tcase_add_loop_test(c, the_formula_is_the_simulations_mean, 0, LK_COUNT(cases));
    tcase_add_loop_test(c, the_best_period_is_best, 0, LK_COUNT(cases));
    tcase_add_loop_test(c, the_best_period_is_daly_and_young, 0, LK_COUNT(cases));
    tcase_add_test(c, limits);
    tcase_add_test(c, a_published_run_is_met);
}
