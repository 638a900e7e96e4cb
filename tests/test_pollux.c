/* Pollux's model of throughput, against throughputs that follow it. */
#include "base/array.h"
#include "sim/pollux.h"

#include <check.h>
#include <math.h>

/* On one node 0.02 + 0.002 (K - 2), over nodes 0.06 + 0.001 (K - 2), no overlap. */
static struct lk_scale_point truth(double gpus, double nodes, double batch, double accumulation)
{
    double grad = 0.04 + 0.002 * batch;
    double sync = nodes > 1 ? 0.06 + 0.001 * (gpus - 2) : gpus > 1 ? 0.02 + 0.002 * (gpus - 2) : 0;

    return (struct lk_scale_point){
        gpus, gpus * batch * accumulation / (grad + sync + (accumulation - 1) * grad), nodes, batch,
        accumulation};
}

START_TEST(follows_its_own_truth)
{
    struct lk_scale_point rows[] = {truth(1, 1, 32, 1), truth(2, 1, 32, 1),  truth(4, 1, 32, 1),
                                    truth(8, 1, 32, 1), truth(16, 2, 32, 1), truth(32, 4, 32, 1),
                                    truth(1, 1, 64, 1)};
    struct lk_scale_point targets[] = {truth(64, 8, 32, 1), truth(16, 2, 64, 1),
                                       truth(8, 1, 32, 4)};

    for (size_t i = 0; i < LK_COUNT(targets); i++)
        ck_assert_double_eq_tol(lk_pollux_throughput(rows, LK_COUNT(rows), &targets[i]) /
                                    targets[i].throughput,
                                1, 0.05);
}
END_TEST

/* What no row has a placement of costs nothing: optimistic, as the paper wants it. */
START_TEST(optimistic_beyond)
{
    struct lk_scale_point one = truth(1, 1, 32, 1), eight = truth(8, 1, 32, 1);

    ck_assert_double_eq_tol(lk_pollux_throughput(&one, 1, &eight), 8 * one.throughput, 1e-3);
    ck_assert_double_nan(lk_pollux_throughput(&one, 0, &eight));
}
END_TEST

Suite *lk_suite_pollux(void);
Suite *lk_suite_pollux(void)
{
    Suite *s = suite_create("pollux");
    TCase *t = tcase_create("fit");

    tcase_add_test(t, follows_its_own_truth);
    tcase_add_test(t, optimistic_beyond);
    suite_add_tcase(s, t);
    return s;
}
