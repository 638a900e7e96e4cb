/* Pollux's model of throughput, against throughputs that follow it exactly. */
#include "base/array.h"
#include "sim/forecast/baseline.h"
#include "tests/rigs/suite.h"

#include <math.h>

/* On one node 0.02 + 0.002 (K - 2), over nodes 0.06 + 0.001 (K - 2), no overlap. */
static struct lk_scaling_point truth(int world_size, int nodes, int batch, int accumulation)
{
    double grad = 0.04 + 0.002 * batch;
    double sync = nodes > 1        ? 0.06 + 0.001 * (world_size - 2)
                  : world_size > 1 ? 0.02 + 0.002 * (world_size - 2)
                                   : 0;
    struct lk_config c = {.world_size = world_size,
                          .nodes = nodes,
                          .local_batch = batch,
                          .accumulation = accumulation};

    return (struct lk_scaling_point){.config = c,
                                     .throughput = lk_config_samples(&c) /
                                                   (grad + sync + (accumulation - 1) * grad)};
}

START_TEST(follows_its_own_truth)
{
    struct lk_scaling_point rows[] = {truth(1, 1, 32, 1), truth(2, 1, 32, 1),  truth(4, 1, 32, 1),
                                      truth(8, 1, 32, 1), truth(16, 2, 32, 1), truth(32, 4, 32, 1),
                                      truth(1, 1, 64, 1)};
    struct lk_scaling_point targets[] = {truth(64, 8, 32, 1), truth(16, 2, 64, 1),
                                         truth(8, 1, 32, 4)};

    for (size_t i = 0; i < LK_COUNT(targets); i++)
        ck_assert_double_eq_tol(lk_pollux_throughput(rows, LK_COUNT(rows), &targets[i]) /
                                    targets[i].throughput,
                                1, 0.05);
}
END_TEST

/* A placement without any row costs nothing: optimistic, as in the paper. */
START_TEST(optimistic_beyond)
{
    struct lk_scaling_point one = truth(1, 1, 32, 1), eight = truth(8, 1, 32, 1);

    ck_assert_double_eq_tol(lk_pollux_throughput(&one, 1, &eight), 8 * one.throughput, 1e-3);
    ck_assert_double_nan(lk_pollux_throughput(&one, 0, &eight));
}
END_TEST

SUITE(pollux, t)
{
    tcase_add_test(t, follows_its_own_truth);
    tcase_add_test(t, optimistic_beyond);
}
