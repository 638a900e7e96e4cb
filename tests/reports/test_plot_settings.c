/* Plots of settings, targets and back-tests: their marks are the input's numbers. */
#include "base/array.h"
#include "reports/plot/backtest.h"
#include "reports/plot/grid.h"
#include "reports/plot/target.h"
#include "tests/rigs/plots.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

/* Each cell is there, and the best is the forecast's, not the brightest. */
START_TEST(heat_map)
{
    struct lk_forecast_point points[PLOT_SIDE * PLOT_SIDE];
    struct lk_forecast f = plot_grid(points, "this machine");
    const struct lk_chart_layer *l;
    struct lk_chart c = {0};

    ck_assert_int_eq(lk_chart_heat_map(&c, &f), LK_OK);
    ck_assert_str_eq(c.panels[0]->x.ticks[1].label, "2 MiB");
    ck_assert_str_eq(c.panels[0]->y.ticks[3].label, "8");
    l = plot_layer(c.panels[0], LK_CHART_BOXES, NULL, 0);
    ck_assert_uint_eq(l->n_marks, PLOT_SIDE * PLOT_SIDE);
    ck_assert_double_eq(l->marks[0].share, 0);
    ck_assert_double_eq(l->marks[15].share, 1);
    ck_assert_str_eq(l->marks[13].text, "\xe2\x98\x85 +13.0 %");
    ck_assert_str_eq(l->marks[15].text, "+15.0 %");
    plot_draw(&c);
    lk_chart_fini(&c);
}
END_TEST

/* A cell with two further settings shows the better one, and a note says so. */
START_TEST(a_mark_shows_the_fastest_of_other_axes)
{
    struct lk_forecast_point points[PLOT_SIDE * PLOT_SIDE + 1];
    struct lk_forecast f = plot_grid(points, "this machine");
    struct lk_chart c = {0};

    points[16] = points[0];
    points[16].throughput_per_s *= 0.9;
    points[16].gain.ratio = 0.9;
    f.n_points++;
    ck_assert_int_eq(lk_chart_heat_map(&c, &f), LK_OK);
    ck_assert_str_eq(plot_layer(c.panels[0], LK_CHART_BOXES, NULL, 0)->marks[0].text, "+0.0 %");
    ck_assert(plot_noted(&c, "a cell shows the fastest of up to 2 settings"));
    lk_chart_fini(&c);
    ck_assert_int_eq(lk_chart_whatif(&c, &f), LK_OK);
    ck_assert(plot_noted(&c, "a point shows the fastest of up to 2 settings"));
    lk_chart_fini(&c);
}
END_TEST

START_TEST(settings_and_lines)
{
    struct lk_forecast_point points[PLOT_SIDE * PLOT_SIDE];
    struct lk_forecast f = plot_grid(points, "this machine");
    const struct lk_chart_layer *l;
    struct lk_chart c = {0};

    ck_assert_int_eq(lk_chart_gains(&c, &f), LK_OK);
    ck_assert_str_eq(c.panels[0]->y.ticks[0].label, "accumulation 8, bucket cap 2.00 MiB");
    ck_assert_double_eq(plot_layer(c.panels[0], LK_CHART_POINTS, "best", 0)->marks[0].x,
                        points[13].throughput_per_s);
    l = plot_layer(c.panels[0], LK_CHART_BOXES, "90 % interval", 0);
    ck_assert_str_eq(l->marks[0].text, "+13.0 % (+6.5 to +26.0)");
    ck_assert(plot_noted(&c, "of 16 settings"));
    plot_draw(&c);
    lk_chart_fini(&c);
    ck_assert_int_eq(lk_chart_whatif(&c, &f), LK_OK);
    l = plot_layer(c.panels[0], LK_CHART_LINE, "accumulation 4", 0);
    ck_assert_uint_eq(l->n_marks, PLOT_SIDE);
    ck_assert_double_eq(l->marks[1].y, points[9].throughput_per_s);
    plot_draw(&c);
    lk_chart_fini(&c);
}
END_TEST

START_TEST(one_setting_has_no_grid)
{
    struct lk_forecast_point points[] = {plot_point(1, 0.010, NAN), plot_point(2, 0.011, NAN)};
    struct lk_forecast f = plot_forecast("this machine", points, LK_COUNT(points));
    struct lk_chart c = {0};

    ck_assert_int_eq(lk_chart_gains(&c, &f), LK_EEVIDENCE);
    ck_assert_int_eq(lk_chart_heat_map(&c, &f), LK_EEVIDENCE);
    ck_assert_int_eq(lk_chart_batch(&c, &f), LK_EEVIDENCE);
}
END_TEST

/* Time and memory by local batch; what does not fit is hollow. */
START_TEST(batch)
{
    struct lk_forecast_point points[] = {plot_point(8, 0.010, NAN), plot_point(8, 0.018, NAN)};
    struct lk_forecast f = plot_forecast("this machine", points, LK_COUNT(points));
    struct lk_chart c = {0};

    points[1].config.local_batch = 8;
    for (int i = 0; i < 2; i++) {
        points[i].plan = lk_plan_none;
        points[i].plan.known = true;
        points[i].plan.memory_bytes = (i + 1) * 8e9;
        strcpy(points[i].plan.memory_fit, i ? "no" : "yes");
    }
    ck_assert_int_eq(lk_chart_batch(&c, &f), LK_OK);
    ck_assert_double_eq(plot_layer(c.panels[0], LK_CHART_LINE, "8 GPUs", 0)->marks[1].y, 0.018);
    ck_assert_double_eq(plot_layer(c.panels[1], LK_CHART_LINE, "8 GPUs", 0)->marks[0].y, 8e9);
    ck_assert_double_eq(plot_layer(c.panels[1], LK_CHART_POINTS, NULL, 1)->marks[0].y, 16e9);
    ck_assert_int_eq(plot_layer(c.panels[1], LK_CHART_POINTS, NULL, 1)->style, LK_CHART_DASHED);
    plot_draw(&c);
    lk_chart_fini(&c);
}
END_TEST

/* Time, cost and the critical batch: at a statistical efficiency of 0.8 on 8 GPUs it is on 32. */
START_TEST(target)
{
    struct lk_forecast_point points[] = {plot_point(8, 0.012, NAN), plot_point(4, 0.011, NAN)};
    struct lk_forecast f = plot_forecast("this machine", points, LK_COUNT(points));
    struct lk_chart c = {0};

    for (int i = 0; i < 2; i++) {
        points[i].plan = lk_plan_none;
        points[i].plan.known = true;
        points[i].plan.time_to_target_h = 10 * (i + 1);
        points[i].plan.statistical_efficiency = i ? 8.0 / 9 : 0.8;
        points[i].plan.cost_to_target = 100 + i;
    }
    f.currency = (char[]){"CHF"};
    f.knee_gpus = 6;
    ck_assert_int_eq(lk_chart_target(&c, &f), LK_OK);
    ck_assert_uint_eq(c.n_panels, 4);
    ck_assert_double_eq(plot_layer(c.panels[0], LK_CHART_LINE, NULL, 0)->marks[0].y, 20);
    ck_assert_str_eq(c.panels[1]->y.label, "cost to the target, CHF");
    ck_assert_double_eq(plot_layer(c.panels[1], LK_CHART_LINE, "knee of throughput", 0)->marks[1].x,
                        6);
    ck_assert(plot_noted(&c, "critical batch: on 32 GPUs"));
    plot_draw(&c);
    lk_chart_fini(&c);
    points[0].plan.cost_to_target = points[1].plan.cost_to_target = NAN;
    ck_assert_int_eq(lk_chart_target(&c, &f), LK_OK);
    ck_assert(plot_noted(&c, "no price_per_hour"));
    lk_chart_fini(&c);
}
END_TEST

START_TEST(backtests)
{
    struct lk_backtest tests[] = {{"2 GPUs from 1", 0.010, 0.009, 0.012, 0.011},
                                  {"4 GPUs from 1, 2", 0.020, 0.019, 0.021, 0.025}};
    struct lk_forecast f = plot_forecast("this machine", NULL, 0);
    struct lk_chart c = {0};

    ck_assert_int_eq(lk_chart_backtest(&c, &f, 1), LK_EEVIDENCE);
    f.backtests = tests;
    f.n_backtests = LK_COUNT(tests);
    ck_assert_int_eq(lk_chart_backtest(&c, &f, 1), LK_OK);
    ck_assert_ptr_nonnull(strstr(c.title, "1 of 2 inside the 90 % interval, mean error 14.5 %"));
    ck_assert_double_eq(plot_layer(c.panels[0], LK_CHART_POINTS, "this machine", 0)->marks[0].x,
                        0.011);
    ck_assert_int_eq(plot_layer(c.panels[0], LK_CHART_POINTS, NULL, 0)->style, LK_CHART_DASHED);
    plot_draw(&c);
    lk_chart_fini(&c);
}
END_TEST

SUITE(plot_settings, c)
{
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, plot_make_dir, plot_remove_dir);
    tcase_add_test(c, heat_map);
    tcase_add_test(c, a_mark_shows_the_fastest_of_other_axes);
    tcase_add_test(c, settings_and_lines);
    tcase_add_test(c, one_setting_has_no_grid);
    tcase_add_test(c, batch);
    tcase_add_test(c, target);
    tcase_add_test(c, backtests);
}
