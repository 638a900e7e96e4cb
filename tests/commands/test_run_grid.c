/* The grid of a run: its points, their order, its summary and answer. */
#include "base/array.h"
#include "commands/command.h"
#include "commands/run_grid.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *options;
    size_t n_points;
    int ranks[4], batch[4], accumulation[4];
} plans[] = {
    {"-n3 -b4 -a2", 1, {3}, {4}, {2}},
    {"--scaling=1,2,4 -b8", 3, {1, 2, 4}, {8, 8, 8}, {1, 1, 1}},
    {"--scaling=1,2,4 -b8 --strong", 3, {1, 2, 4}, {8, 4, 2}, {1, 1, 1}},
    {"--scaling=1,2,4 -b8 -a4 --strong", 3, {1, 2, 4}, {8, 8, 8}, {4, 2, 1}},
    {"--scaling=4,2 -b6 --strong", 2, {4, 2}, {3, 6}, {1, 1}},
    {"--scaling=1,3 -b4 -a3 --strong", 2, {1, 3}, {4, 4}, {3, 1}},
    {"--scaling=1,2 -b4 -a3 --strong", 2, {1, 2}, {4, 3}, {3, 2}},
    {"--local-batches=2,4,8", 3, {1, 1, 1}, {2, 4, 8}, {1, 1, 1}},
    {"--scaling=2,1 --local-batches=2,8 -b8", 3, {2, 1, 1}, {8, 8, 2}, {1, 1, 1}},
};

static void parse(const char *options, struct run_options *o)
{
    char line[256];
    char *argv[16];
    char *rest = line;
    int n = 0, none;

    snprintf(line, sizeof line, "%s", options);
    while ((argv[n] = strsep(&rest, " ")) != NULL)
        n++;
    ck_assert_msg(lk_command_parse(&lk_command_run, n, argv, o, NULL, &none) == LK_OK &&
                      run_options_complete(&lk_command_run, NULL, o) == LK_OK,
                  "%s", lk_error_text());
}

START_TEST(plan)
{
    struct run_options o;
    struct run_grid s;

    parse(plans[_i].options, &o);
    ck_assert_int_eq(run_grid_plan(&o, &s), LK_OK);
    ck_assert_uint_eq(s.n_points, plans[_i].n_points);
    for (size_t i = 0; i < s.n_points; i++) {
        ck_assert_int_eq(s.points[i].config.world_size, plans[_i].ranks[i]);
        ck_assert_int_eq(s.points[i].config.local_batch, plans[_i].batch[i]);
        ck_assert_int_eq(s.points[i].config.accumulation, plans[_i].accumulation[i]);
    }
    run_grid_fini(&s);
}
END_TEST

/* Every count has every accumulation; ranks that reduce have every bucket cap, too. A local batch
 * of the list has the first of both. */
START_TEST(plan_of_settings)
{
    static const struct lk_config points[] = {
        {.world_size = 1, .local_batch = 8, .accumulation = 2, .cap_bytes = 1024},
        {.world_size = 1, .local_batch = 8, .accumulation = 1, .cap_bytes = 1024},
        {.world_size = 2, .local_batch = 8, .accumulation = 2, .cap_bytes = 1024},
        {.world_size = 2, .local_batch = 8, .accumulation = 2, .cap_bytes = 4096},
        {.world_size = 2, .local_batch = 8, .accumulation = 1, .cap_bytes = 1024},
        {.world_size = 2, .local_batch = 8, .accumulation = 1, .cap_bytes = 4096},
        {.world_size = 1, .local_batch = 4, .accumulation = 2, .cap_bytes = 1024},
    };
    struct run_options o;
    struct run_grid s;

    parse("--scaling=1,2 -b8 --accumulations=2,1 --bucket-caps=1KiB,4KiB --local-batches=4", &o);
    ck_assert_int_eq(run_grid_plan(&o, &s), LK_OK);
    ck_assert_uint_eq(s.n_points, LK_COUNT(points));
    for (size_t i = 0; i < s.n_points; i++)
        ck_assert_msg(lk_config_equal(&s.points[i].config, &points[i]), "point %zu", i);
    ck_assert_uint_eq(s.n_parts, 3 * LK_COUNT(points));
    ck_assert_str_eq(s.parts[3].dir, "k2-b8-a2-c4096-r0");
    run_grid_fini(&s);
}
END_TEST

/* Repetitions are the outer loop, and every second one goes backwards. */
START_TEST(plan_interleaves)
{
    static const size_t order[] = {0, 1, 2, 2, 1, 0, 0, 1, 2};
    struct run_options o;
    struct run_grid s;

    parse("--scaling=1,2,4", &o);
    ck_assert_int_eq(run_grid_plan(&o, &s), LK_OK);
    ck_assert_uint_eq(s.n_parts, LK_COUNT(order));
    for (size_t i = 0; i < s.n_parts; i++) {
        ck_assert_uint_eq(s.parts[i].point, order[i]);
        ck_assert_int_eq(s.parts[i].repetition, (int)i / 3);
    }
    ck_assert_str_eq(s.parts[3].dir, "k4-b8-a1-r1");
    run_grid_fini(&s);
}
END_TEST

START_TEST(plan_that_does_not_divide)
{
    struct run_options o;
    struct run_grid s;

    parse("--scaling=1,3 -b8 --strong", &o);
    ck_assert_int_eq(run_grid_plan(&o, &s), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "8 does not divide by 3"));
}
END_TEST

/* A table of known step times: efficiency, throughput and interval by hand. */
START_TEST(summary)
{
    struct run_options o;
    struct run_grid s;
    struct lk_page page = {0};
    struct lk_table *t = NULL;

    parse("--scaling=1,2 --repetitions=2 -b4 --steps=2 --warmup=1", &o);
    ck_assert_int_eq(run_grid_plan(&o, &s), LK_OK);
    for (size_t i = 0; i < s.n_parts; i++) {
        struct lk_train_result *r = &s.parts[i].result;
        double step = s.parts[i].point == 0 ? 0.1 : 0.125;

        r->n = 3;
        r->skipped = 1;
        r->noise.value = NAN;
        r->verify_max_error = r->verify_allowed = NAN;
        ck_assert_int_eq(lk_alloc(&r->step_s, 3, sizeof(double)), LK_OK);
        ck_assert_int_eq(lk_alloc(&r->loss, 3, sizeof(double)), LK_OK);
        r->step_s[0] = 9; /* warm-up */
        r->step_s[1] = step + 0.01 * s.parts[i].repetition;
        r->step_s[2] = step - 0.02 * s.parts[i].repetition;
        r->loss[2] = 1.5;
    }
    ck_assert_int_eq(run_grid_table(&s, &o, &page, &t), LK_OK);
    ck_assert_uint_eq(t->n_rows, 2);
    /* Means 0.1 and 0.095: sd of the logarithms ln(0.1 / 0.095) / sqrt(2), t(0.90, 1) = 6.31375:
     * half 0.161926, and exp(-0.161926) is 0.850505. */
    ck_assert_double_eq_tol(lk_table_cell(t, 0, "step_s")->number, 0.0975, 1e-12);
    ck_assert_double_eq_tol(lk_table_cell(t, 0, "step_lo_s")->number, 0.0975 * 0.850505, 1e-6);
    ck_assert_double_eq_tol(lk_table_cell(t, 0, "efficiency")->number, 1, 1e-12);
    ck_assert_double_eq_tol(lk_table_cell(t, 1, "samples_per_s")->number, 8 / 0.1225, 1e-9);
    ck_assert_double_eq_tol(lk_table_cell(t, 1, "efficiency")->number, 0.0975 / 0.1225, 1e-12);
    ck_assert_double_eq_tol(lk_table_cell(t, 1, "loss")->number, 1.5, 1e-12);
    ck_assert_double_eq_tol(lk_table_cell(t, 1, "learning_rate")->number, 0.001, 1e-12);
    ck_assert_double_eq_tol(lk_table_cell(t, 1, "epoch_s")->number, 65536 * 0.1225 / 8, 1e-9);
    ck_assert_int_eq(run_answer(t, &o, &page), LK_OK);
    ck_assert_str_eq(page.answer[0], "2 ranks: 122 ms a step (108 to 139), 65.3 samples/s, "
                                     "80 % of linear scaling against 1 rank.");
    ck_assert_uint_eq(page.n_values, 6);
    ck_assert_str_eq(page.values[3].name, "efficiency");
    ck_assert_str_eq(
        page.values[3].labels,
        "gpus=\"2\",local_batch=\"4\",accumulation=\"1\",bucket_cap_bytes=\"26214400\"");
    lk_page_fini(&page);
    lk_table_destroy(t);
    run_grid_fini(&s);
}
END_TEST

SUITE(run_grid, c)
{
    tcase_add_loop_test(c, plan, 0, LK_COUNT(plans));
    tcase_add_test(c, plan_of_settings);
    tcase_add_test(c, plan_interleaves);
    tcase_add_test(c, plan_that_does_not_divide);
    tcase_add_test(c, summary);
}
