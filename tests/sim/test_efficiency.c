/* What efficiency refers to, in weak and in strong scaling, and where the rest of a step goes. */
#include "base/array.h"
#include "sim/forecast/forecast.h"
#include "tests/rigs/said.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

static struct lk_forecast_request request(const struct lk_axis_value *world_sizes, size_t n)
{
    return (struct lk_forecast_request){
        .axes[LK_AXIS_GPUS] = {world_sizes, n}, .level = 0.9, .draws = 60, .seed = 1};
}

START_TEST(weak_scaling_refers_to_the_smallest_run)
{
    static const struct lk_axis_value world_sizes[] = {
        {.count = 1}, {.count = 2}, {.count = 4}, {.count = 64}};
    struct sim_world w;
    struct lk_forecast f;
    struct lk_forecast_request q = request(world_sizes, LK_COUNT(world_sizes));

    sim_world_init(&w, 5, 2);
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f), LK_OK);
    ck_assert_uint_eq(f.n_points, 4);
    ck_assert_str_eq(f.reference, "1 GPU, same local batch and accumulation");
    ck_assert_double_eq(f.points[0].efficiency, 1);
    for (size_t i = 1; i < f.n_points; i++) {
        const struct lk_forecast_point *p = &f.points[i];

        ck_assert_double_lt(p->efficiency, f.points[i - 1].efficiency);
        ck_assert_double_le(p->efficiency_lo, p->efficiency);
        ck_assert_double_ge(p->efficiency_hi, p->efficiency);
        ck_assert_double_eq_tol(p->efficiency, f.points[0].step_s / p->step_s, 1e-12);
        ck_assert_double_eq_tol(p->throughput_per_s, p->config.world_size * 8 / p->step_s, 1e-9);
        ck_assert_int_eq(p->config.nodes, p->config.world_size);
    }
    /* The 2-GPU run from the other; the batch that has a run from the rows of the others. */
    ck_assert_uint_eq(f.n_backtests, 2);
    ck_assert_str_eq(f.backtests[0].what, "2 GPUs from 1");
    ck_assert_str_eq(f.backtests[1].what, "local batch 8 from 4, 16");
    ck_assert_ptr_nonnull(forecast_says(&f, "model error: "));
    ck_assert_ptr_nonnull(forecast_says(&f, "knee"));
    ck_assert_ptr_nonnull(forecast_says(&f, "most is lost to blocking communication"));
    lk_forecast_fini(&f);
    sim_world_fini(&w);
}
END_TEST

START_TEST(strong_scaling_keeps_the_global_batch)
{
    static const struct lk_axis_value world_sizes[] = {
        {.count = 1}, {.count = 2}, {.count = 4}, {.count = 16}};
    struct sim_world w;
    struct lk_forecast f;
    struct lk_forecast_request q = request(world_sizes, LK_COUNT(world_sizes));

    q.global_batch = 64;
    sim_world_init(&w, 6, 1);
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f), LK_OK);
    for (size_t i = 0; i < f.n_points; i++) {
        const struct lk_forecast_point *p = &f.points[i];

        ck_assert_int_eq(p->config.world_size * p->config.local_batch * p->config.accumulation, 64);
        ck_assert_int_eq(p->config.local_batch, p->config.world_size == 16 ? 4 : 8);
        ck_assert_int_eq(p->config.accumulation,
                         p->config.world_size == 16 ? 1 : 8 / p->config.world_size);
    }
    ck_assert_ptr_nonnull(strstr(f.reference, "global batch 64"));
    ck_assert_ptr_nonnull(forecast_says(&f, "of this one could be held out"));
    lk_forecast_fini(&f);
    q.global_batch = 3;
    q.axes[LK_AXIS_GPUS].v++;
    q.axes[LK_AXIS_GPUS].n--;
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f), LK_EUSAGE);
    sim_world_fini(&w);
}
END_TEST

/* Efficiency has one meaning: in strong scaling, too, the throughput of a GPU over the reference's.
 * What smaller batches cost is a loss of its own. */
START_TEST(a04_strong_scaling_refers_to_one_reference)
{
    static const struct lk_axis_value world_sizes[] = {{.count = 1}, {.count = 4}, {.count = 16}},
                                      batches[] = {{.count = 16}};
    struct sim_world w;
    struct lk_forecast f;
    struct lk_forecast_request q = request(world_sizes, LK_COUNT(world_sizes));

    q.global_batch = 64;
    q.axes[LK_AXIS_LOCAL_BATCH].v = batches;
    q.axes[LK_AXIS_LOCAL_BATCH].n = 1;
    sim_world_init(&w, 6, 0);
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f), LK_OK);
    ck_assert_int_eq(f.points[2].config.local_batch, 4);
    for (size_t i = 0; i < f.n_points; i++) {
        const struct lk_forecast_point *p = &f.points[i];

        ck_assert_double_eq_tol(
            p->efficiency,
            p->throughput_per_s / f.points[0].throughput_per_s / p->config.world_size, 1e-9);
    }
    /* The optimizer runs for one micro-batch instead of for four. */
    ck_assert_double_eq_tol(f.points[1].losses_s[LK_LOSS_BATCH],
                            0.75 * w.job.compute[0].optimizer_s.value, 0.01 * f.points[1].step_s);
    /* And a third of the compute at batch 8 does not depend on the batch: with 4 of 16 samples it
     * is there four times as often. */
    ck_assert_double_eq_tol(f.points[2].losses_s[LK_LOSS_BATCH],
                            (w.truth.forward_s + w.truth.backward_s) / 3 * 0.75,
                            0.05 * f.points[2].step_s);
    ck_assert_ptr_nonnull(strstr(f.reference, "1 GPU, the same global batch 64"));
    lk_forecast_fini(&f);
    sim_world_fini(&w);
}
END_TEST

/* The waterfall agrees with the efficiency; a measured run's is what its analysis says. */
START_TEST(a06_the_waterfall_is_that_of_the_efficiency)
{
    static const struct lk_axis_value world_sizes[] = {{.count = 1}, {.count = 2}, {.count = 8}};
    struct sim_world w;
    struct lk_forecast f;
    struct lk_forecast_request q = request(world_sizes, LK_COUNT(world_sizes));
    struct lk_job_run *runs;

    sim_world_init(&w, 9, 2);
    runs = w.job.runs;
    runs[0].losses_s[LK_LOSS_IDEAL] = runs[1].losses_s[LK_LOSS_IDEAL] = 20e-3;
    runs[1].losses_s[LK_LOSS_STRAGGLER] = 1e-3;
    runs[1].losses_s[LK_LOSS_WIRE] = 2e-3;
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f), LK_OK);
    for (size_t i = 0; i < f.n_points; i++) {
        const struct lk_forecast_point *p = &f.points[i];
        double sum = 0;

        for (int l = 0; l < LK_LOSS_COUNT; l++)
            sum += p->losses_s[l];
        ck_assert_double_eq_tol(sum, p->step_s, 1e-9 * p->step_s);
        ck_assert_double_eq_tol(p->losses_s[LK_LOSS_IDEAL] / p->step_s, p->efficiency, 1e-9);
    }
    ck_assert_double_eq_tol(f.points[1].losses_s[LK_LOSS_STRAGGLER], 1e-3, 1e-12);
    ck_assert_double_eq_tol(f.points[1].losses_s[LK_LOSS_WIRE], 2e-3, 1e-12);
    lk_forecast_fini(&f);
    sim_world_fini(&w);
}
END_TEST

SUITE(efficiency, c)
{
    tcase_add_test(c, weak_scaling_refers_to_the_smallest_run);
    tcase_add_test(c, strong_scaling_keeps_the_global_batch);
    tcase_add_test(c, a04_strong_scaling_refers_to_one_reference);
    tcase_add_test(c, a06_the_waterfall_is_that_of_the_efficiency);
}
