/* Late gradients in the event engine: a step takes the longer of compute and communication, ranks
 * that differ from step to step wait for a mean, and the rule of the step model errs to the long
 * side (sim/step/config.h). */
#include "base/array.h"
#include "sim/step/engine.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"

#include <math.h>

static double step_s(const struct lk_step_model *m, int steps)
{
    struct lk_sim_request q = {.steps = steps, .seed = 7};
    struct lk_sim_result r = {0};
    double mean;

    must(lk_engine_run(m, &q, NULL, &r));
    mean = r.mean_s;
    lk_sim_result_fini(&r);
    return mean;
}

/* 10 ms forward, 20 ms backward a micro-batch, 4 ms optimizer; two buckets of `cost` each. */
static const struct {
    int accumulation;
    double cost_s, want_s; /* of a steady step */
} rows[] = {{1, 1e-3, 34e-3},  {1, 17e-3, 34e-3}, {1, 30e-3, 60e-3}, {1, 0.1, 0.2},
            {3, 30e-3, 94e-3}, {3, 47e-3, 94e-3}, {3, 60e-3, 0.12}};

START_TEST(the_longer_of_compute_and_communication)
{
    double need = LK_STEP_END + 1.5, cost = rows[_i].cost_s;
    struct lk_step_coll colls[] = {
        {.ready = 1.5, .need = need, .late = true, .cost_s = cost, .bucket = 0},
        {.ready = 2, .need = need, .late = true, .cost_s = cost, .bucket = 1}};
    struct lk_step_model m = {.ranks = 2,
                              .nodes = 2,
                              .accumulation = rows[_i].accumulation,
                              .forward_s = 10e-3,
                              .backward_s = 20e-3,
                              .optimizer_s = 4e-3,
                              .colls = colls,
                              .n_colls = LK_COUNT(colls)};

    ck_assert_double_eq_tol(step_s(&m, 4), rows[_i].want_s, 1e-8);
}
END_TEST

/* Return what transients of a deviation cost a step of so many ranks, late or not. */
static double transients_s(int ranks, double sd, bool late)
{
    const struct lk_step_coll coll = {
        .ready = 1.5, .need = late ? 4.5 : 2, .late = late, .cost_s = 1e-9, .bucket = 0};
    struct lk_step_model m = {.ranks = ranks,
                              .nodes = ranks,
                              .accumulation = 1,
                              .forward_s = 10e-3,
                              .backward_s = 20e-3,
                              .optimizer_s = 1e-3,
                              .law.transient_sd = sd,
                              .colls = &coll,
                              .n_colls = 1};

    return step_s(&m, 400) - 31e-3;
}

START_TEST(transients_cost_less_than_the_rule_says)
{
    int ranks = 4 << _i;
    double late = transients_s(ranks, 0.1, true);

    ck_assert_double_gt(late, 0.2 * transients_s(ranks, 0.1, false));
    ck_assert_double_lt(late, transients_s(ranks, 0.1 / sqrt(2), false));
}
END_TEST

SUITE(late, c)
{
    tcase_add_loop_test(c, the_longer_of_compute_and_communication, 0, LK_COUNT(rows));
    tcase_add_loop_test(c, transients_cost_less_than_the_rule_says, 0, 4);
}
