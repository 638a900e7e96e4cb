/* Plots: their marks are the input's numbers, nothing is dropped without a note, and gnuplot draws
 * them whatever names hold. */
#include "base/array.h"
#include "base/file.h"
#include "reports/plot/plots.h"
#include "tests/rigs/plots.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Scaling ---- */

/* Points come in any order; they are drawn by GPUs, with interval, measured point and number. */
START_TEST(efficiency)
{
    struct lk_forecast_point points[] = {plot_point(4, 0.0135, NAN), plot_point(1, 0.010, 0.0101),
                                         plot_point(2, 0.0115, 0.0118)};
    struct lk_forecast f = plot_forecast("this machine", points, LK_COUNT(points));
    const struct lk_chart_layer *l;
    struct lk_chart c = {0};

    ck_assert_int_eq(lk_chart_efficiency(&c, &f, 1), LK_OK);
    ck_assert_uint_eq(c.n_panels, 1);
    l = plot_layer(c.panels[0], LK_CHART_LINE, "this machine", 0);
    ck_assert_double_eq(l->marks[0].x, 1);
    ck_assert_double_eq(l->marks[l->n_marks - 1].x, 4);
    ck_assert_double_eq(l->marks[l->n_marks - 1].y, 0.010 / 0.0135);
    l = plot_layer(c.panels[0], LK_CHART_BAND, "90 % interval", 0);
    ck_assert_uint_eq(l->n_marks, 3);
    ck_assert_double_eq(l->marks[1].lo, points[2].efficiency_lo);
    l = plot_layer(c.panels[0], LK_CHART_POINTS, "measured", 0);
    ck_assert_uint_eq(l->n_marks, 2);
    ck_assert_double_eq_tol(l->marks[1].y, 0.010 / 0.0118, 1e-12);
    ck_assert_double_lt(l->marks[1].lo, l->marks[1].y);
    ck_assert_double_gt(l->marks[1].hi, l->marks[1].y);
    l = plot_layer(c.panels[0], LK_CHART_POINTS, NULL, 0);
    ck_assert_str_eq(l->marks[2].text, "74 %");
    plot_draw(&c);
    lk_chart_fini(&c);
}
END_TEST

START_TEST(throughput)
{
    struct lk_forecast_point points[] = {plot_point(1, 0.010, NAN), plot_point(4, 0.0135, 0.0140)};
    struct lk_forecast f = plot_forecast("this machine", points, LK_COUNT(points));
    const struct lk_chart_layer *l;
    struct lk_chart c = {0};

    ck_assert_int_eq(lk_chart_throughput(&c, &f, 1), LK_OK);
    l = plot_layer(c.panels[0], LK_CHART_LINE, "this machine", 0);
    ck_assert_double_eq_tol(l->marks[1].y, 16 / 0.0135, 1e-9);
    l = plot_layer(c.panels[0], LK_CHART_POINTS, "measured", 0);
    ck_assert_double_eq_tol(l->marks[0].y, 16 / 0.0140, 1e-9);
    l = plot_layer(c.panels[0], LK_CHART_LINE, "ideal: linear scaling", 0);
    ck_assert_double_eq_tol(l->marks[1].y, 4 * 4 / 0.010, 1e-9);
    lk_chart_fini(&c);
}
END_TEST

/* Every forecast is drawn, not the first four, and what is of a preset is hollow and dashed. */
START_TEST(all_forecasts_are_drawn)
{
    enum { MANY = 7 };
    struct lk_forecast_point points[MANY][2];
    struct lk_forecast f[MANY];
    char names[MANY][24];
    struct lk_chart c = {0};

    for (int i = 0; i < MANY; i++) {
        points[i][0] = plot_point(1, 0.010, NAN);
        points[i][1] = plot_point(8, 0.012 + 0.001 * i, NAN);
        points[i][1].evidence = i == 6 ? LK_EVIDENCE_PRESET : LK_EVIDENCE_EXTRAPOLATED;
        snprintf(names[i], sizeof names[i], "cluster-%d", i);
        f[i] = plot_forecast(names[i], points[i], 2);
    }
    ck_assert_int_eq(lk_chart_efficiency(&c, f, MANY), LK_OK);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(plot_layer(c.panels[0], LK_CHART_LINE, names[i], 0)->style,
                         LK_CHART_SOLID);
    ck_assert_int_eq(plot_layer(c.panels[0], LK_CHART_LINE, NULL, 0)->style, LK_CHART_DASHED);
    ck_assert(plot_noted(&c, "of a preset"));
    plot_draw(&c);
    lk_chart_fini(&c);
}
END_TEST

/* What was measured at a count that was not asked for is drawn as well, of the same batch alone. */
START_TEST(rows_at_other_counts_are_drawn)
{
    struct lk_forecast_point points[] = {plot_point(1, 0.010, 0.010), plot_point(16, 0.020, NAN)};
    struct lk_forecast_measured rows[] = {
        {.config = {.world_size = 1, .local_batch = 4, .accumulation = 1}, .step_s = 0.010},
        {.config = {.world_size = 4, .local_batch = 4, .accumulation = 1}, .step_s = 0.0125},
        {.config = {.world_size = 8, .local_batch = 2, .accumulation = 1}, .step_s = 0.010}};
    struct lk_forecast f = plot_forecast("this machine", points, LK_COUNT(points));
    const struct lk_chart_layer *l;
    struct lk_chart c = {0};

    f.measured = rows;
    f.n_measured = LK_COUNT(rows);
    for (int what = LK_CHART_EFFICIENCY; what <= LK_CHART_THROUGHPUT; what++) {
        bool rate = what == LK_CHART_THROUGHPUT;

        ck_assert_int_eq(lk_chart_scaling(&c, (enum lk_chart_scaling)what, &f, 1, NULL, 0), LK_OK);
        l = plot_layer(c.panels[0], LK_CHART_POINTS, "measured", 0);
        ck_assert_uint_eq(l->n_marks, 2);
        ck_assert_double_eq(l->marks[1].x, 4);
        ck_assert_double_eq_tol(l->marks[1].y, rate ? 16 / 0.0125 : 0.8, 1e-9);
        lk_chart_fini(&c);
    }
}
END_TEST

/* The knee is marked across the panel where it is among the counts, and else noted. */
START_TEST(the_knee_is_marked)
{
    struct lk_forecast_point points[] = {plot_point(1, 0.010, NAN), plot_point(8, 0.012, NAN),
                                         plot_point(64, 0.030, NAN)};
    struct lk_forecast f = plot_forecast("this machine", points, LK_COUNT(points));
    const struct lk_chart_layer *l;
    struct lk_chart c = {0};

    f.knee_gpus = _i ? 512 : 24; /* which need not be a point */
    ck_assert_int_eq(lk_chart_throughput(&c, &f, 1), LK_OK);
    ck_assert(plot_noted(&c, _i ? "the knee, 512 GPUs, is not among" : "knee: a further node"));
    l = plot_layer(c.panels[0], LK_CHART_LINE, _i ? "this machine" : NULL, 0);
    if (!_i) {
        ck_assert_int_eq(l->style, LK_CHART_DOTTED);
        ck_assert_str_eq(l->marks[1].text, "knee: 24 GPUs");
        ck_assert_double_eq(l->marks[0].x, 24);
        ck_assert_double_eq(l->marks[1].x, 24);
        plot_draw(&c);
    }
    lk_chart_fini(&c);
}
END_TEST

START_TEST(each_batch_has_a_panel)
{
    struct lk_forecast_point points[] = {plot_point(1, 0.010, NAN), plot_point(2, 0.011, NAN),
                                         plot_point(1, 0.010, NAN), plot_point(2, 0.012, NAN)};
    struct lk_forecast f = plot_forecast("this machine", points, LK_COUNT(points));
    struct lk_chart c = {0};

    points[2].config.local_batch = points[3].config.local_batch = 8;
    ck_assert_int_eq(lk_chart_efficiency(&c, &f, 1), LK_OK);
    ck_assert_uint_eq(c.n_panels, 2);
    ck_assert_str_eq(c.panels[1]->title, "local batch 8, accumulation 1");
    plot_draw(&c);
    lk_chart_fini(&c);
}
END_TEST

/* In strong scaling the batch changes with the GPUs: that is one curve. */
START_TEST(strong_scaling_is_one_curve)
{
    struct lk_forecast_point points[] = {plot_point(1, 0.040, NAN), plot_point(2, 0.022, NAN),
                                         plot_point(4, 0.012, NAN)};
    struct lk_forecast f = plot_forecast("this machine", points, LK_COUNT(points));
    struct lk_chart c = {0};

    points[0].config.local_batch = 16;
    points[1].config.local_batch = 8;
    ck_assert_int_eq(lk_chart_throughput(&c, &f, 1), LK_OK);
    ck_assert_uint_eq(c.n_panels, 1);
    ck_assert_uint_eq(plot_layer(c.panels[0], LK_CHART_POINTS, NULL, 0)->n_marks, 3);
    lk_chart_fini(&c);
}
END_TEST

/* A value above 100 % is in the range; a point without a number is noted. */
START_TEST(nothing_is_cut_or_dropped_in_silence)
{
    struct lk_forecast_point points[] = {plot_point(1, 0.010, NAN), plot_point(2, 0.008, NAN),
                                         plot_point(4, 0.012, NAN)};
    struct lk_forecast f = plot_forecast("this machine", points, LK_COUNT(points));
    struct lk_chart c = {0};

    points[2].efficiency = NAN;
    ck_assert_int_eq(lk_chart_efficiency(&c, &f, 1), LK_OK);
    ck_assert_double_gt(c.panels[0]->y.to, 1.25);
    ck_assert(plot_noted(&c, "1 of 3 points have no number"));
    lk_chart_fini(&c);
}
END_TEST

/* A grid of runs has a curve with bars from the least run to the most. */
START_TEST(measured_runs_are_a_curve)
{
    struct lk_plot_measured m[] = {
        {"host",
         {.world_size = 1, .local_batch = 4, .accumulation = 1},
         0.010,
         0.0099,
         0.0101,
         1,
         0.99,
         1.01,
         3},
        {"host",
         {.world_size = 2, .local_batch = 4, .accumulation = 1},
         0.011,
         0.0108,
         0.0114,
         0.91,
         0.88,
         0.93,
         3},
    };
    const struct lk_chart_layer *l;
    struct lk_chart c = {0};

    ck_assert_int_eq(lk_chart_scaling(&c, LK_CHART_EFFICIENCY, NULL, 0, m, LK_COUNT(m)), LK_OK);
    l = plot_layer(c.panels[0], LK_CHART_POINTS, "measured: host", 0);
    ck_assert_uint_eq(l->n_marks, 2);
    ck_assert_double_eq(l->marks[1].lo, 0.88);
    ck_assert_str_eq(l->marks[1].text, "91 %");
    lk_chart_fini(&c);
}
END_TEST

START_TEST(an_empty_forecast_is_refused)
{
    struct lk_forecast a = {.cluster = (char[]){"this machine"}};
    struct lk_chart c = {0};

    ck_assert_int_eq(lk_chart_efficiency(&c, &a, 1), LK_EEVIDENCE);
}
END_TEST

/* ---- Losses ---- */

static struct lk_plot_losses losses_of_two(void)
{
    struct lk_plot_losses v = {.title = "2 ranks", .reference = "1 rank", .runs = 1};

    v.mean_s[LK_LOSS_IDEAL] = 0.010;
    v.mean_s[LK_LOSS_OVERLAP] = 0.0012;
    v.mean_s[LK_LOSS_STRAGGLER] = 0.002;
    v.mean_s[LK_LOSS_WIRE] = 0.003;
    v.mean_s[LK_LOSS_REST] = -0.0001;
    return v;
}

/* The bars stand on each other, in the words of `analyze`, and end at the step. */
START_TEST(waterfall)
{
    struct lk_plot_losses v = losses_of_two();
    const struct lk_chart_panel *p;
    struct lk_chart c = {0};

    ck_assert_int_eq(lk_chart_waterfall(&c, &v), LK_OK);
    p = c.panels[0];
    ck_assert_uint_eq(p->y.n_ticks, 6);
    ck_assert_str_eq(p->y.ticks[3].label, "blocking communication");
    ck_assert_double_eq_tol(p->layers[3]->marks[0].x, 0.0132, 1e-12);
    ck_assert_double_eq_tol(p->layers[3]->marks[0].x2, 0.0162, 1e-12);
    ck_assert_str_eq(p->y.ticks[5].label, "step");
    ck_assert_double_eq_tol(p->layers[5]->marks[0].x2, 0.0161, 1e-12);
    ck_assert_str_eq(p->layers[5]->marks[0].text, "16.1 ms, 100.0 %");
    ck_assert(plot_noted(&c, "6 losses below 0.1 %"));
    plot_draw(&c);
    lk_chart_fini(&c);
    v.mean_s[LK_LOSS_IDEAL] = NAN;
    ck_assert_int_eq(lk_chart_waterfall(&c, &v), LK_EEVIDENCE);
}
END_TEST

/* Losses are stacked upwards, gains below zero: the parts sum to the step. */
START_TEST(losses_by_gpus)
{
    struct lk_forecast_point points[] = {plot_point(2, 0.0125, NAN), plot_point(1, 0.010, NAN)};
    struct lk_forecast f = plot_forecast("this machine", points, LK_COUNT(points));
    const struct lk_chart_layer *l;
    struct lk_chart c = {0};

    points[1].losses_s[LK_LOSS_IDEAL] = 0.010;
    points[0].losses_s[LK_LOSS_IDEAL] = 0.010;
    points[0].losses_s[LK_LOSS_WIRE] = 0.003;
    points[0].losses_s[LK_LOSS_REST] = -0.0005;
    ck_assert_int_eq(lk_chart_losses(&c, &f, 1), LK_OK);
    ck_assert_str_eq(c.panels[0]->x.ticks[1].label, "2");
    l = plot_layer(c.panels[0], LK_CHART_BOXES, "blocking communication", 0);
    ck_assert_double_eq_tol(l->marks[0].lo, 0.8, 1e-12);
    ck_assert_double_eq_tol(l->marks[0].hi, 1.04, 1e-12);
    l = plot_layer(c.panels[0], LK_CHART_BOXES, "host gaps and the rest", 0);
    ck_assert_double_eq_tol(l->marks[0].lo, -0.04, 1e-12);
    ck_assert_double_eq(l->marks[0].hi, 0);
    plot_draw(&c);
    lk_chart_fini(&c);
}
END_TEST

/* ---- Ranks ---- */

/* Fill a rank's trace: a forward of 4 ms, a backward that ends at `backward_end`, and one
 * all-reduce that starts then and ends at 12 ms; all in step 3. */
static void fill_trace(struct lk_trace *t, struct lk_trace_span *spans, int rank,
                       uint64_t backward_end)
{
    static struct lk_trace_track tracks[] = {{.kind = LK_TRACK_HOST}, {.kind = LK_TRACK_LOADER}};
    const uint64_t ms = LK_NS_PER_MS;

    spans[0].span = (struct lk_span){.start_ns = 1 * ms, .end_ns = 13 * ms, .step = 3};
    spans[0].span.kind = LK_SPAN_STEP;
    spans[1].span = (struct lk_span){.start_ns = 1 * ms, .end_ns = 5 * ms, .step = 3};
    spans[1].span.kind = LK_SPAN_FORWARD;
    spans[2].span = (struct lk_span){.start_ns = 5 * ms, .end_ns = backward_end, .step = 3};
    spans[2].span.kind = LK_SPAN_BACKWARD;
    spans[3].span = (struct lk_span){.start_ns = backward_end, .end_ns = 12 * ms, .step = 3};
    spans[3].span.kind = LK_SPAN_COLLECTIVE;
    /* The loader prepared this step's batch before the step began: it is not in the picture. */
    spans[4].span = (struct lk_span){.start_ns = 0, .end_ns = 1, .step = 3};
    spans[4].span.kind = LK_SPAN_INPUT;
    spans[4].track = 1;
    *t = (struct lk_trace){.spans = spans,
                           .n_spans = 5,
                           .tracks = tracks,
                           .n_tracks = LK_COUNT(tracks),
                           .clock = lk_clock_identity()};
    t->info.rank = rank;
}

START_TEST(timeline)
{
    struct lk_trace_span spans[2][5] = {0};
    struct lk_trace traces[2];
    const struct lk_chart_layer *l;
    struct lk_chart c = {0};

    fill_trace(&traces[0], spans[0], 0, 8 * LK_NS_PER_MS);
    fill_trace(&traces[1], spans[1], 1, 10 * LK_NS_PER_MS);
    ck_assert_int_eq(lk_chart_timeline(&c, traces, 2, -1), LK_OK);
    /* Rank 0 arrives at 7 ms from the start and waits for rank 1 until 9; the wire takes 2 more. */
    l = plot_layer(c.panels[0], LK_CHART_BOXES, "collective: waiting for the last rank", 0);
    ck_assert_uint_eq(l->n_marks, 1);
    ck_assert_double_eq_tol(l->marks[0].x, 0.007, 1e-9);
    ck_assert_double_eq_tol(l->marks[0].x2, 0.009, 1e-9);
    l = plot_layer(c.panels[0], LK_CHART_BOXES, "collective: moving bytes", 0);
    ck_assert_uint_eq(l->n_marks, 2);
    ck_assert_double_eq_tol(l->marks[1].x, 0.009, 1e-9);
    ck_assert_double_eq_tol(l->marks[1].x2, 0.011, 1e-9);
    plot_draw(&c);
    lk_chart_fini(&c);
    ck_assert_int_eq(lk_chart_timeline(&c, traces, 2, 7), LK_EEVIDENCE);
}
END_TEST

/* Ten thousand ranks and a thousand steps are joined into cells that show the most of each, so that
 * the one slow rank is bright. */
START_TEST(stragglers)
{
    enum { RANKS = 10000, STEPS = 1000, SLOW = 7777 };
    struct lk_step_times r = {0};
    const struct lk_chart_layer *l;
    struct lk_chart c = {0};
    size_t bright = 0;

    ck_assert_int_eq(lk_step_times_init(&r, RANKS, STEPS), LK_OK);
    for (int i = 0; i < RANKS; i++) {
        r.ranks[i] = i;
        ck_assert_int_eq(lk_strdup(&r.hosts[i], "node"), LK_OK);
        for (int k = 0; k < STEPS; k++)
            r.own_s[i * STEPS + k] = i == SLOW ? 0.02 : 0.01;
    }
    for (uint32_t k = 0; k < STEPS; k++)
        r.steps[k] = k + 5;
    ck_assert_int_eq(lk_chart_stragglers(&c, &r), LK_OK);
    l = plot_layer(c.panels[0], LK_CHART_BOXES, NULL, 0);
    for (size_t i = 0; i < l->n_marks; i++)
        if (l->marks[i].share > 0.5) {
            const char *row = c.panels[0]->y.ticks[lround(l->marks[i].lo + 0.5)].label;

            ck_assert_msg(!strcmp(row, "rank 7742 to 7820, node"), "%s", row);
            bright++;
        }
    ck_assert_uint_eq(bright, 200);
    ck_assert(plot_noted(&c, "the most of 79 ranks and 5 steps"));
    lk_chart_fini(&c);
    lk_step_times_fini(&r);
}
END_TEST

/* ---- Collectives ---- */

START_TEST(collectives)
{
    struct lk_plot_size sizes[] = {{1024, 1e8, 1.5e8, 1.2e8, 1.8e8},
                                   {1 << 20, 1e10, 9e9, 8e9, 1e10}};
    struct lk_plot_collective curve = {(char[]){"all_reduce, 8 GPUs"}, sizes, LK_COUNT(sizes)};
    const struct lk_chart_layer *l;
    struct lk_chart c = {0};

    ck_assert_int_eq(lk_chart_collectives(&c, &curve, 1), LK_OK);
    l = plot_layer(c.panels[0], LK_CHART_POINTS, "all_reduce, 8 GPUs", 0);
    ck_assert_double_eq(l->marks[1].y, 1e10);
    ck_assert_double_eq(plot_layer(c.panels[0], LK_CHART_LINE, "expected", 0)->marks[0].y, 1.5e8);
    plot_draw(&c);
    lk_chart_fini(&c);
}
END_TEST

/* ---- All of them ---- */

/* An input gets the plots that it has the numbers for, each under a name of its own. */
START_TEST(plots_fit_the_input)
{
    struct lk_forecast_point a[PLOT_SIDE * PLOT_SIDE], b[PLOT_SIDE * PLOT_SIDE];
    struct lk_forecast f[] = {plot_grid(a, "A"), plot_grid(b, "B")};
    struct lk_report_input in = {.title = "t", .forecasts = f, .n_forecasts = 2};
    static const char *const names[] = {"efficiency", "throughput", "settings", "settings-2",
                                        "grid",       "grid-2",     "whatif",   "whatif-2"};
    struct lk_chart_list list = {0};

    ck_assert_int_eq(lk_plots_make(&in, &list), LK_OK);
    ck_assert_uint_eq(list.n, LK_COUNT(names));
    for (size_t i = 0; i < list.n; i++)
        ck_assert_str_eq(list.charts[i].name, names[i]);
    ck_assert_str_eq(list.charts[3].title, "Which setting is best, B\nt");
    lk_chart_list_fini(&list);
}
END_TEST

/* Settings on one count of GPUs have no curve of scaling, which the chart of settings says. */
START_TEST(settings_on_one_count_have_no_curve)
{
    struct lk_forecast_point a[PLOT_SIDE * PLOT_SIDE];
    struct lk_forecast f = plot_grid(a, "A");
    struct lk_report_input in = {.title = "t", .forecasts = &f, .n_forecasts = 1};
    struct lk_chart_list list = {0};

    ck_assert_int_eq(lk_plots_make(&in, &list), LK_OK);
    ck_assert_uint_gt(list.n, 0);
    ck_assert_str_eq(list.charts[0].name, "settings");
    ck_assert(plot_noted(&list.charts[0], "all settings have 8 GPUs"));
    lk_chart_list_fini(&list);
}
END_TEST

/* One configuration has its interval as a bar, and one tick: its count; millions are short. */
START_TEST(one_configuration)
{
    struct lk_forecast_point points[] = {plot_point(1000000, 0.5, NAN)};
    struct lk_forecast f = plot_forecast("this machine", points, 1);
    const struct lk_chart_layer *l;
    struct lk_chart c = {0};

    ck_assert_int_eq(lk_chart_throughput(&c, &f, 1), LK_OK);
    ck_assert_uint_eq(c.panels[0]->x.n_ticks, 1);
    ck_assert_str_eq(c.panels[0]->x.ticks[0].label, "1M");
    l = plot_layer(c.panels[0], LK_CHART_POINTS, "this machine", 0);
    ck_assert(lk_chart_has_bar(l, &l->marks[0]));
    ck_assert_str_eq(l->marks[0].text, "8 M");
    ck_assert(plot_noted(&c, "bars: 90 % interval"));
    plot_draw(&c);
    lk_chart_fini(&c);
}
END_TEST

/* Ten thousand points are drawn, all of them. */
START_TEST(ten_thousand_points)
{
    enum { MANY = 10000 };
    struct lk_forecast_point *points = malloc(sizeof *points * MANY);
    struct lk_forecast f = plot_forecast("this machine", points, MANY);
    struct lk_chart c = {0};

    ck_assert_ptr_nonnull(points);
    for (int i = 0; i < MANY; i++)
        points[i] = plot_point(i + 1, 0.010 + 1e-6 * i, NAN);
    ck_assert_int_eq(lk_chart_efficiency(&c, &f, 1), LK_OK);
    ck_assert_uint_eq(plot_layer(c.panels[0], LK_CHART_POINTS, NULL, 0)->n_marks, MANY);
    plot_draw(&c);
    lk_chart_fini(&c);
    free(points);
}
END_TEST

/* gnuplot gets names as text alone, whatever they hold: none makes a file, and all are drawn. */
START_TEST(hostile_names_are_text)
{
    static const char *const names[] = {
        "it's",
        "it''s",
        "`touch boo`",
        "\"; system 'touch boo'; \"",
        "'; system \"touch boo\" #",
        "a\n'.system('touch boo').'",
        "@boo {/Bold x} %s %d \\n \\",
        "\x1b[31m\xe2\x80\xae\xff",
        "</svg><script>",
        "$(touch boo)",
    };
    char *boo;

    ck_assert_int_eq(lk_path_join(&boo, plot_dir, "boo"), LK_OK);
    for (size_t i = 0; i < LK_COUNT(names); i++) {
        struct lk_forecast_point points[] = {plot_point(1, 0.010, NAN), plot_point(2, 0.011, 0.011),
                                             plot_point(1, 0.010, NAN), plot_point(2, 0.012, NAN)};
        struct lk_forecast f = plot_forecast(names[i], points, LK_COUNT(points));
        struct lk_report_input in = {.title = names[i], .forecasts = &f, .n_forecasts = 1};
        struct lk_chart_list list = {0};
        size_t size;
        char *svg;

        points[2].config.accumulation = points[3].config.accumulation = 2;
        ck_assert_msg(lk_plots_make(&in, &list) == LK_OK, "%s", lk_error_text());
        ck_assert_int_eq(lk_chart_note(&list.charts[0], "%s", names[i]), LK_OK);
        plot_draw(&list.charts[0]);
        ck_assert(!lk_file_exists(boo));
        svg = plot_read("efficiency", "svg", &size);
        ck_assert_ptr_null(strstr(svg, "<script>"));
        free(svg);
        lk_chart_list_fini(&list);
    }
    free(boo);
}
END_TEST

/* gnuplot's picture goes to no file that a link leads to elsewhere. */
START_TEST(a_planted_link_is_not_followed)
{
    struct lk_forecast_point points[] = {plot_point(1, 0.010, NAN), plot_point(2, 0.011, NAN)};
    struct lk_forecast f = plot_forecast("c", points, LK_COUNT(points));
    struct lk_chart c = {0};
    char *link_path, *other;

    ck_assert_int_eq(lk_chart_efficiency(&c, &f, 1), LK_OK);
    ck_assert_int_eq(lk_asprintf(&link_path, "%s/efficiency.png.tmp", plot_dir), LK_OK);
    ck_assert_int_eq(lk_asprintf(&other, "%s/target", plot_dir), LK_OK);
    ck_assert_int_eq(symlink(other, link_path), 0);
    plot_draw(&c);
    ck_assert(!lk_file_exists(other));
    lk_chart_fini(&c);
    free(link_path);
    free(other);
}
END_TEST

SUITE(plot, c)
{
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, plot_make_dir, plot_remove_dir);
    tcase_add_test(c, efficiency);
    tcase_add_test(c, throughput);
    tcase_add_test(c, all_forecasts_are_drawn);
    tcase_add_test(c, each_batch_has_a_panel);
    tcase_add_test(c, rows_at_other_counts_are_drawn);
    tcase_add_loop_test(c, the_knee_is_marked, 0, 2);
    tcase_add_test(c, strong_scaling_is_one_curve);
    tcase_add_test(c, nothing_is_cut_or_dropped_in_silence);
    tcase_add_test(c, measured_runs_are_a_curve);
    tcase_add_test(c, an_empty_forecast_is_refused);
    tcase_add_test(c, waterfall);
    tcase_add_test(c, losses_by_gpus);
    tcase_add_test(c, timeline);
    tcase_add_test(c, stragglers);
    tcase_add_test(c, collectives);
    tcase_add_test(c, plots_fit_the_input);
    tcase_add_test(c, settings_on_one_count_have_no_curve);
    tcase_add_test(c, one_configuration);
    tcase_add_test(c, ten_thousand_points);
    tcase_add_test(c, hostile_names_are_text);
    tcase_add_test(c, a_planted_link_is_not_followed);
}
