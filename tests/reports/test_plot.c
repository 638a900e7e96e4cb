/* Plots: gnuplot accepts every script, the pictures exist, and the CSV has the numbers. */
#include "base/array.h"
#include "base/file.h"
#include "reports/plot/plot.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64];

static void make_dir(void)
{
    strcpy(dir, "/tmp/lockstep-plot-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
    char **names;
    size_t n;

    ck_assert_int_eq(lk_dir_list(dir, "", &names, &n), LK_OK);
    for (size_t i = 0; i < n; i++) {
        char *path;

        ck_assert_int_eq(lk_path_join(&path, dir, names[i]), LK_OK);
        unlink(path);
        free(path);
    }
    lk_names_free(names, n);
    ck_assert_int_eq(rmdir(dir), 0);
}

/* Reads DIR/name.suffix; the caller frees it. */
static char *read_part(const char *name, const char *suffix, size_t *out_size)
{
    char *path, *text;

    ck_assert_int_eq(lk_asprintf(&path, "%s/%s.%s", dir, name, suffix), LK_OK);
    ck_assert_msg(lk_file_read(path, &text, out_size) == LK_OK, "%s", path);
    free(path);
    return text;
}

/* Check the four files of a plot; an empty picture has less than 2 kB. */
static void check_files(const char *name)
{
    size_t size;
    char *text = read_part(name, "png", &size);

    ck_assert_mem_eq(text, "\x89PNG", 4);
    ck_assert_uint_gt(size, 2000);
    free(text);
    text = read_part(name, "svg", &size);
    ck_assert_ptr_nonnull(strstr(text, "</svg>"));
    free(text);
    free(read_part(name, "gp", &size));
}

static struct lk_forecast_point point(int world_size, double step_s, double measured_s)
{
    struct lk_forecast_point p = {.config.world_size = world_size,
                                  .config.nodes = 1,
                                  .config.local_batch = 4,
                                  .config.accumulation = 1,
                                  .config.cap_bytes = 1 << 20,
                                  .step_s = step_s,
                                  .step_lo_s = 0.95 * step_s,
                                  .step_hi_s = 1.07 * step_s,
                                  .throughput_per_s = 4 * world_size / step_s,
                                  .efficiency = 0.010 / step_s,
                                  .efficiency_lo = 0.010 / (1.07 * step_s),
                                  .efficiency_hi = 0.010 / (0.95 * step_s),
                                  .measured_step_s = measured_s,
                                  .measured_lo_s = 0.98 * measured_s,
                                  .measured_hi_s = 1.02 * measured_s};

    return p;
}

START_TEST(efficiency)
{
    struct lk_forecast_point here[] = {point(1, 0.010, 0.0101), point(2, 0.0115, 0.0118),
                                       point(4, 0.0135, NAN)};
    struct lk_forecast_point there[] = {point(1, 0.010, NAN), point(16, 0.018, NAN),
                                        point(64, 0.021, NAN)};
    struct lk_forecast a = {.cluster = (char[]){"this machine"},
                            .sample_unit = (char[]){"sequence"},
                            .points = here,
                            .n_points = LK_COUNT(here)};
    struct lk_forecast b = {.cluster = (char[]){"25 Gb Ethernet"},
                            .sample_unit = (char[]){"sequence"},
                            .points = there,
                            .n_points = LK_COUNT(there)};
    const struct lk_forecast both[] = {a, b};
    size_t size;
    char *csv;

    ck_assert_msg(
        lk_plot_efficiency(dir, "efficiency", "gpt-nano's `title`\nof two lines", both, 2) == LK_OK,
        "%s", lk_error_text());
    check_files("efficiency");
    csv = read_part("efficiency", "csv", &size);
    ck_assert_ptr_nonnull(strstr(csv, "\n4,1185.18519,"));
    free(csv);
}
END_TEST

START_TEST(an_empty_forecast_is_refused)
{
    struct lk_forecast a = {.cluster = (char[]){"this machine"}};

    ck_assert_int_eq(lk_plot_efficiency(dir, "efficiency", "t", &a, 1), LK_EEVIDENCE);
}
END_TEST

START_TEST(waterfall)
{
    double losses[LK_LOSS_COUNT] = {[LK_LOSS_IDEAL] = 0.010,
                                    [LK_LOSS_OVERLAP] = 0.0012,
                                    [LK_LOSS_STRAGGLER] = 0.002,
                                    [LK_LOSS_WIRE] = 0.003,
                                    [LK_LOSS_REST] = -0.0001};
    size_t size;
    char *csv;

    ck_assert_msg(lk_plot_waterfall(dir, "waterfall", "2 ranks:\ngpt_nano", losses) == LK_OK, "%s",
                  lk_error_text());
    check_files("waterfall");
    csv = read_part("waterfall", "csv", &size);
    ck_assert_ptr_nonnull(strstr(csv, "wire,13.2,16.2,"));
    ck_assert_ptr_nonnull(strstr(csv, "step,0,16.1,"));
    free(csv);
}
END_TEST

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
    size_t size;
    char *csv;

    fill_trace(&traces[0], spans[0], 0, 8 * LK_NS_PER_MS);
    fill_trace(&traces[1], spans[1], 1, 10 * LK_NS_PER_MS);
    ck_assert_msg(lk_plot_timeline(dir, "timeline", "a step", traces, 2, -1) == LK_OK, "%s",
                  lk_error_text());
    check_files("timeline");
    csv = read_part("timeline", "csv", &size);
    /* Rank 0 arrives at 7 ms from the start and waits for rank 1 until 9; the wire takes 2 more. */
    ck_assert_ptr_nonnull(strstr(csv, "\n0,7.000000,9.000000,0.02,0.38,4\n"));
    ck_assert_ptr_nonnull(strstr(csv, "\n1,9.000000,11.000000,1.02,1.38,5\n"));
    free(csv);
    ck_assert_int_eq(lk_plot_timeline(dir, "timeline", "a step", traces, 2, 7), LK_EEVIDENCE);
}
END_TEST

SUITE(plot, c)
{
    tcase_add_checked_fixture(c, make_dir, remove_dir);
    tcase_add_test(c, efficiency);
    tcase_add_test(c, an_empty_forecast_is_refused);
    tcase_add_test(c, waterfall);
    tcase_add_test(c, timeline);
}
