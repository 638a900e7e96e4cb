/*
 * Which measurement to make next: what a made-up measurement promises is what the same pipeline
 * gives with the measurement in the job, or in the table; the list is in order.
 */
#include "base/array.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/next_run.h"
#include "sim/throughput/throughput.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>

enum { LEVEL_DRAWS = 100, TARGET = 16 };

static const struct lk_forecast_request grid = {.level = 0.9, .draws = LEVEL_DRAWS, .seed = 1};

static struct lk_config at_gpus(const struct lk_evidence_source *e, int gpus)
{
    struct lk_config c = e->current;

    c.world_size = gpus;
    ck_assert_int_eq(lk_config_nodes(e->cluster, &c), LK_OK);
    return c;
}

static void open_job(const struct lk_job *j, const struct lk_cluster *c,
                     struct lk_evidence_source *e)
{
    struct lk_forecast f = {0};

    ck_assert_int_eq(lk_step_evidence(j, c, &grid, e), LK_OK);
    ck_assert_msg(e->ops->prepare(e->self, &f) == LK_OK, "%s", lk_error_text());
    lk_forecast_fini(&f);
}

static double width_at(const struct lk_evidence_source *e, const struct lk_config *c)
{
    struct lk_prediction p;
    double width;

    ck_assert_msg(e->ops->at(e->self, c, &p) == LK_OK, "%s", lk_error_text());
    width = log(p.hi_s / p.lo_s);
    lk_prediction_fini(&p);
    return width;
}

START_TEST(a_promise_is_the_forecast_with_the_run)
{
    struct sim_world w;
    struct lk_evidence_source e, with;
    struct lk_next_run v[4];
    struct lk_config target;
    struct lk_prediction now;
    struct lk_job more;
    double steps[50], step_s;
    size_t n;

    sim_world_init(&w, 1, 2);
    open_job(&w.job, &w.cluster, &e);
    target = at_gpus(&e, TARGET);
    for (int i = 0; i < 4; i++) /* 1, 2, 4 and 8 GPUs, of which two were run */
        v[i] = (struct lk_next_run){.config = at_gpus(&e, 1 << i), .gpu_hours = 1 << i};
    ck_assert_int_eq(lk_next_runs(&e, &target, v, 4, &n, &now), LK_OK);
    ck_assert_uint_eq(n, 2);
    ck_assert_int_eq(v[0].config.world_size, 8);
    ck_assert_double_lt(v[0].width, log(now.hi_s / now.lo_s));
    ck_assert_int_eq(e.ops->estimate(e.self, &v[0].config, &step_s), LK_OK);
    more = w.job;
    ck_assert_int_eq(lk_alloc(&more.runs, w.job.n_runs + 1, sizeof *more.runs), LK_OK);
    for (size_t i = 0; i < w.job.n_runs; i++)
        more.runs[i] = w.job.runs[i];
    for (int i = 0; i < 50; i++)
        steps[i] = step_s;
    more.runs[more.n_runs] = w.job.runs[0];
    more.runs[more.n_runs].config = v[0].config;
    more.runs[more.n_runs].rank_compute_s = NULL;
    more.runs[more.n_runs].step_s = steps;
    more.runs[more.n_runs++].n_steps = 50;
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        more.runs[more.n_runs - 1].losses_s[i] = NAN;
    open_job(&more, &w.cluster, &with);
    ck_assert_double_eq_tol(width_at(&with, &target) / v[0].width, 1, 1e-9);
    with.ops->close(with.self);
    free(more.runs);
    lk_prediction_fini(&now);
    e.ops->close(e.self);
    sim_world_fini(&w);
}
END_TEST

/* All-reduces on eight ranks tell more of sixteen than those on four. */
START_TEST(collectives_are_measurements)
{
    struct sim_world w;
    struct lk_evidence_source e;
    struct lk_next_run v[2];
    struct lk_config target;
    struct lk_prediction now;
    size_t n;

    sim_world_init(&w, 2, 2);
    open_job(&w.job, &w.cluster, &e);
    target = at_gpus(&e, TARGET);
    for (int i = 0; i < 2; i++)
        v[i] = (struct lk_next_run){
            .config = at_gpus(&e, 4 << i), .collectives = true, .gpu_hours = 4 << i};
    ck_assert_int_eq(lk_next_runs(&e, &target, v, 2, &n, &now), LK_OK);
    ck_assert_uint_eq(n, 2);
    ck_assert_int_eq(v[0].config.world_size, 8);
    ck_assert_double_lt(v[0].width, v[1].width);
    lk_prediction_fini(&now);
    e.ops->close(e.self);
    sim_world_fini(&w);
}
END_TEST

/* A table with the row has the width that was promised; a promise that is alike takes fewer hours.
 */
START_TEST(a_promise_is_the_table_with_the_row)
{
    struct lk_scaling_point rows[4] = {{.throughput = 100}, {.throughput = 197}};
    struct lk_throughput_table t = {.name = (char *)"rows", .points = rows, .n = 2};
    const struct lk_throughput_request q = {.gpus_per_node = 8, .grid = grid};
    struct lk_evidence_source e, with;
    struct lk_next_run v[3];
    struct lk_config target;
    struct lk_prediction now, run;
    struct lk_forecast f = {0};
    size_t n;

    for (int i = 0; i < 2; i++)
        rows[i].config = (struct lk_config){
            .world_size = 1 << i, .nodes = 1, .local_batch = 8, .accumulation = 1};
    ck_assert_int_eq(lk_throughput_evidence(&t, &q, &e), LK_OK);
    ck_assert_int_eq(e.ops->prepare(e.self, &f), LK_OK);
    lk_forecast_fini(&f);
    target = at_gpus(&e, 8);
    v[0] = (struct lk_next_run){.config = at_gpus(&e, 4), .gpu_hours = 9};
    v[1] = (struct lk_next_run){.config = at_gpus(&e, 4), .gpu_hours = 4};
    v[2] = (struct lk_next_run){.config = at_gpus(&e, 4), .collectives = true};
    ck_assert_int_eq(lk_next_runs(&e, &target, v, 3, &n, &now), LK_OK);
    ck_assert_uint_eq(n, 2); /* a table takes no times of collectives */
    ck_assert_double_eq(v[0].gpu_hours, 4);
    ck_assert_double_lt(v[0].width, log(now.hi_s / now.lo_s));
    ck_assert_int_eq(e.ops->at(e.self, &v[0].config, &run), LK_OK);
    rows[2] = (struct lk_scaling_point){.config = v[0].config,
                                        .throughput = lk_config_samples(&v[0].config) / run.step_s};
    t.n = 3;
    ck_assert_int_eq(lk_throughput_evidence(&t, &q, &with), LK_OK);
    ck_assert_int_eq(with.ops->prepare(with.self, &f), LK_OK);
    ck_assert_double_eq_tol(width_at(&with, &target) / v[0].width, 1, 1e-9);
    lk_forecast_fini(&f);
    lk_prediction_fini(&run);
    lk_prediction_fini(&now);
    with.ops->close(with.self);
    t.n = 2;
    e.ops->close(e.self);
}
END_TEST

SUITE(next_run, c)
{
    tcase_add_test(c, a_promise_is_the_forecast_with_the_run);
    tcase_add_test(c, collectives_are_measurements);
    tcase_add_test(c, a_promise_is_the_table_with_the_row);
}
