/* forecast.json: written files are read back, and bad files are refused with line and key. */
#include "base/array.h"
#include "base/file.h"
#include "facts/forecast.h"
#include "tests/rigs/bad_file.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static void make_path(void)
{
    int fd;

    strcpy(path, "/tmp/lockstep-forecast-XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void remove_path(void)
{
    ck_assert_int_eq(unlink(path), 0);
}

static void fill(struct lk_forecast *f)
{
    struct lk_forecast_point p = {.config.world_size = 8,
                                  .config.nodes = 2,
                                  .config.local_batch = 4,
                                  .config.accumulation = 3,
                                  .config.cap_bytes = 25 << 20,
                                  .step_s = 0.1,
                                  .step_lo_s = 0.09,
                                  .step_hi_s = 0.12,
                                  .throughput_per_s = 960,
                                  .efficiency = 0.8,
                                  .efficiency_lo = 0.7,
                                  .efficiency_hi = 0.9,
                                  .evidence = LK_EVIDENCE_EXTRAPOLATED,
                                  .evidence_text = "extrapolated x4 on gpus",
                                  .measured_step_s = NAN,
                                  .measured_lo_s = NAN,
                                  .measured_hi_s = NAN};
    struct lk_backtest b = {"2 GPUs from 1", 0.02, 0.018, 0.022, 0.021};

    memset(f, 0, sizeof *f);
    p.losses_s[LK_LOSS_IDEAL] = 0.08;
    p.losses_s[LK_LOSS_WIRE] = 0.02;
    ck_assert_int_eq(lk_strdup(&f->job, "gpt-nano"), LK_OK);
    ck_assert_int_eq(lk_strdup(&f->cluster, "here"), LK_OK);
    ck_assert_int_eq(lk_strdup(&f->reference, "1 GPU"), LK_OK);
    ck_assert_int_eq(lk_strdup(&f->sample_unit, "sequence"), LK_OK);
    f->level = 0.9;
    f->knee_gpus = 16;
    ck_assert_int_eq(lk_strdup(&f->currency, "CHF"), LK_OK);
    ck_assert_int_eq(lk_array_grow(&f->points, &f->points_capacity, 1, sizeof p), LK_OK);
    f->points[f->n_points++] = p;
    ck_assert_int_eq(lk_array_grow(&f->backtests, &f->backtests_capacity, 1, sizeof b), LK_OK);
    f->backtests[f->n_backtests++] = b;
    ck_assert_int_eq(lk_forecast_note(f, "knee: %d nodes", 16), LK_OK);
}

START_TEST(round_trip)
{
    struct lk_forecast a, b;

    fill(&a);
    ck_assert_msg(lk_forecast_write(path, &a) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(lk_forecast_read(path, &b) == LK_OK, "%s", lk_error_text());
    ck_assert_str_eq(b.job, "gpt-nano");
    ck_assert_uint_eq(b.n_points, 1);
    ck_assert_int_eq(b.points[0].config.accumulation, 3);
    ck_assert(b.points[0].step_hi_s == 0.12);
    ck_assert(isnan(b.points[0].measured_step_s));
    ck_assert_int_eq(b.points[0].evidence, LK_EVIDENCE_EXTRAPOLATED);
    ck_assert(b.points[0].losses_s[LK_LOSS_WIRE] == 0.02);
    ck_assert(b.backtests[0].measured_s == 0.021);
    ck_assert_str_eq(b.notes[0], "knee: 16 nodes");
    ck_assert_int_eq(b.knee_gpus, 16);
    ck_assert_str_eq(b.currency, "CHF");
    lk_forecast_fini(&a);
    lk_forecast_fini(&b);
}
END_TEST

/* A what-if's axes: words where they apply, gains, verdicts; as JSON and as columns. */
START_TEST(axes_and_gains)
{
    struct lk_forecast a, b;
    struct lk_table *t;

    fill(&a);
    strcpy(a.axes[0], "sharding");
    strcpy(a.axes[1], "period");
    a.n_axes = 2;
    strcpy(a.points[0].words[0], "zero1");
    a.points[0].gain = (struct lk_gain){true, 1.25, 1.2, 1.5, 0.99, LK_VERDICT_TIE};
    ck_assert_msg(lk_forecast_write(path, &a) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(lk_forecast_read(path, &b) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(b.n_axes, 2);
    ck_assert_str_eq(b.axes[1], "period");
    ck_assert_str_eq(b.points[0].words[0], "zero1");
    ck_assert_str_eq(b.points[0].words[1], "");
    ck_assert(b.points[0].gain.known && b.points[0].gain.hi == 1.5);
    ck_assert_int_eq(b.points[0].gain.verdict, LK_VERDICT_TIE);
    ck_assert_int_eq(lk_forecast_csv_table(&b, &t), LK_OK);
    ck_assert_str_eq(lk_table_cell(t, 0, "sharding")->text, "zero1");
    ck_assert_int_eq(lk_table_cell(t, 0, "period")->type, LK_CELL_EMPTY);
    ck_assert_double_eq_tol(lk_table_cell(t, 0, "gain_pct")->number, 25, 1e-12);
    ck_assert_str_eq(lk_table_cell(t, 0, "verdict")->text, "tie");
    lk_table_destroy(t);
    ck_assert(lk_forecast_same_curve(&b, &a.points[0], &b.points[0]));
    strcpy(b.points[0].words[0], "zero2");
    ck_assert(!lk_forecast_same_curve(&b, &a.points[0], &b.points[0]));
    lk_forecast_fini(&a);
    lk_forecast_fini(&b);
}
END_TEST

START_TEST(tables)
{
    struct lk_forecast f;
    struct lk_table *t;

    fill(&f);
    ck_assert_int_eq(lk_forecast_table(&f, &t), LK_OK);
    ck_assert(lk_table_cell(t, 0, "bucket_cap_bytes")->number == 25 << 20);
    ck_assert_str_eq(lk_table_cell(t, 0, "evidence")->text, "extrapolated x4 on gpus");
    ck_assert_int_eq(lk_table_cell(t, 0, "measured_step_s")->type, LK_CELL_EMPTY);
    lk_table_destroy(t);
    ck_assert_int_eq(lk_forecast_backtest_table(&f, &t), LK_OK);
    /* 0.02 / 0.021 - 1; exact to rounding. */
    ck_assert_double_eq_tol(lk_table_cell(t, 0, "error_pct")->number, -4.761904761904763, 1e-12);
    ck_assert_str_eq(lk_table_cell(t, 0, "inside")->text, "yes");
    lk_table_destroy(t);
    ck_assert_int_eq(lk_forecast_loss_table(&f, &t), LK_OK);
    ck_assert_uint_eq(t->n_rows, 1);
    ck_assert(lk_table_cell(t, 0, "wire_s")->number == 0.02);
    ck_assert(lk_table_cell(t, 0, "ideal_s")->number == 0.08);
    lk_table_destroy(t);
    lk_forecast_fini(&f);
}
END_TEST

/* Rows shown of 30 points: all if none was judged or all are requested; the best and its ties while
 * these are few; else the best alone. Row: number of ties, expected rows. */
static const struct {
    bool judged, all;
    size_t ties, rows;
} plan_rows[] = {
    {false, false, 0, 30}, {true, true, 5, 30},  {true, false, 5, 6},
    {true, false, 19, 20}, {true, false, 20, 1},
};

START_TEST(long_plans_show_what_is_good)
{
    struct lk_forecast f;
    struct lk_table *parts[LK_PLAN_TABLES];

    fill(&f);
    f.n_points = 1;
    ck_assert_int_eq(lk_array_grow(&f.points, &f.points_capacity, 30, sizeof *f.points), LK_OK);
    for (size_t i = 0; i < 30; i++) {
        f.points[i] = f.points[0];
        f.points[i].plan = lk_plan_none;
        f.points[i].plan.known = true;
        f.points[i].plan.memory_bytes = 1e9;
        f.points[i].gain.verdict = !plan_rows[_i].judged     ? LK_VERDICT_NONE
                                   : i == 0                  ? LK_VERDICT_BEST
                                   : i <= plan_rows[_i].ties ? LK_VERDICT_TIE
                                                             : LK_VERDICT_NONE;
    }
    f.n_points = 30;
    ck_assert_int_eq(lk_forecast_plan_tables(&f, plan_rows[_i].all, parts), LK_OK);
    ck_assert_uint_eq(parts[0]->n_rows, plan_rows[_i].rows);
    for (size_t i = 0; i < LK_PLAN_TABLES; i++)
        lk_table_destroy(parts[i]);
    lk_forecast_fini(&f);
}
END_TEST

/* A plan's known numbers and texts are read back, the others stay unknown;
 * no plan stays no plan. */
START_TEST(plans)
{
    struct lk_forecast a, b;
    struct lk_table *t, *parts[LK_PLAN_TABLES];

    fill(&a);
    ck_assert_int_eq(lk_forecast_plan_tables(&a, true, parts), LK_OK);
    ck_assert(!parts[0] && !parts[1]);
    ck_assert_msg(lk_forecast_write(path, &a) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(lk_forecast_read(path, &b) == LK_OK, "%s", lk_error_text());
    ck_assert(!b.points[0].plan.known && isnan(b.points[0].plan.memory_bytes));
    lk_forecast_fini(&b);

    a.points[0].plan = lk_plan_none;
    a.points[0].plan.known = true;
    a.points[0].plan.cost_to_target = 12.5;
    strcpy(a.points[0].plan.fits_with, "zero2");
    ck_assert_msg(lk_forecast_write(path, &a) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(lk_forecast_read(path, &b) == LK_OK, "%s", lk_error_text());
    ck_assert(b.points[0].plan.known && b.points[0].plan.cost_to_target == 12.5);
    ck_assert(isnan(b.points[0].plan.memory_bytes));
    ck_assert_str_eq(b.points[0].plan.fits_with, "zero2");
    ck_assert_str_eq(b.points[0].plan.memory_fit, "");

    ck_assert_int_eq(lk_forecast_plan_tables(&b, true, parts), LK_OK);
    ck_assert_str_eq(lk_table_cell(parts[0], 0, "fits_with")->text, "zero2");
    ck_assert(lk_table_cell(parts[1], 0, "cost_to_target")->number == 12.5);
    ck_assert_ptr_null(lk_table_cell(parts[0], 0, "memory_bytes"));
    ck_assert_ptr_null(lk_table_cell(parts[1], 0, "rate_sqrt"));
    lk_table_destroy(parts[0]);
    lk_table_destroy(parts[1]);
    ck_assert_int_eq(lk_forecast_csv_table(&b, &t), LK_OK);
    ck_assert(lk_table_cell(t, 0, "step_s")->number == 0.1);
    ck_assert_str_eq(lk_table_cell(t, 0, "fits_with")->text, "zero2");
    lk_table_destroy(t);
    lk_forecast_fini(&a);
    lk_forecast_fini(&b);
}
END_TEST

static enum lk_status read_and_drop(const char *file)
{
    struct lk_forecast f;
    enum lk_status st = lk_forecast_read(file, &f);

    if (st == LK_OK)
        lk_forecast_fini(&f);
    return st;
}

static const struct bad_file bad[] = {
    {"\"gpus\": 8", "\"gpus\": 0", "gpus"},
    {"\"gpus\": 8", "\"gpsu\": 8", "gpus"},
    {"\"version\": 1", "\"version\": 2", "newer"},
    {"\"extrapolated\"", "\"guessed\"", "guessed"},
    {"\"level\": 0.9", "\"level\": \"high\"", "level"},
    {"\"wire\": ", "\"wier\": ", "wier"},
    {"\"gpus\": 8", "\"gpus\": 1000000000", "points[0].gpus: 1000000000 is out of range"},
    {"\"step_s\": ", "\"step_s_\": ", "points[0].step_s: missing"},
    {"\"level\": 0.9", "\"level\": 90", "level: 90 is not between 0 and 1"},
    {"\"bucket_cap_bytes\": 2", "\"bucket_cap_bytes\": -2", "points[0].bucket_cap_bytes: -2"},
    {"\"notes\": [", "\"notes\": [1, ", "notes[0]: expected a string"},
    {"\"lockstep-forecast\"", "\"lockstep-job\"", "lockstep-job"},
};

START_TEST(bad_files)
{
    struct lk_forecast f;
    char *text;
    size_t size;

    fill(&f);
    ck_assert_int_eq(lk_forecast_write(path, &f), LK_OK);
    lk_forecast_fini(&f);
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    bad_file_check(text, &bad[_i], read_and_drop);
    free(text);
}
END_TEST

START_TEST(torture)
{
    struct lk_forecast f;
    char *text;
    size_t size;

    fill(&f);
    f.points[0].config.cap_bytes = UINT64_MAX; /* no cap; all 64 bits must survive */
    ck_assert_int_eq(lk_forecast_write(path, &f), LK_OK);
    lk_forecast_fini(&f);
    ck_assert_msg(lk_forecast_read(path, &f) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(f.points[0].config.cap_bytes, UINT64_MAX);
    lk_forecast_fini(&f);
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    bad_file_torture(text, 3000, read_and_drop);
    free(text);
}
END_TEST

SUITE(forecast_file, c)
{
    tcase_add_checked_fixture(c, make_path, remove_path);
    tcase_add_test(c, round_trip);
    tcase_add_test(c, axes_and_gains);
    tcase_add_test(c, tables);
    tcase_add_test(c, plans);
    tcase_add_loop_test(c, long_plans_show_what_is_good, 0, (int)LK_COUNT(plan_rows));
    tcase_add_loop_test(c, bad_files, 0, LK_COUNT(bad));
    tcase_add_test(c, torture);
}
