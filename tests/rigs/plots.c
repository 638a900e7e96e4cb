/* Charts of small forecasts, and how tests read and draw them; see plots.h. */
#include "tests/rigs/plots.h"

#include "base/array.h"
#include "base/file.h"
#include "reports/chart/gnuplot.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char plot_dir[64];

void plot_make_dir(void)
{
    strcpy(plot_dir, "/tmp/lockstep-plot-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(plot_dir));
}

void plot_remove_dir(void)
{
    char **names;
    size_t n;

    ck_assert_int_eq(lk_dir_list(plot_dir, "", &names, &n), LK_OK);
    for (size_t i = 0; i < n; i++) {
        char *path;

        ck_assert_int_eq(lk_path_join(&path, plot_dir, names[i]), LK_OK);
        unlink(path);
        free(path);
    }
    lk_names_free(names, n);
    ck_assert_int_eq(rmdir(plot_dir), 0);
}

/* Reads DIR/name.suffix; the caller frees it. */
char *plot_read(const char *name, const char *suffix, size_t *out_size)
{
    char *path, *text;

    ck_assert_int_eq(lk_asprintf(&path, "%s/%s.%s", plot_dir, name, suffix), LK_OK);
    ck_assert_msg(lk_file_read(path, &text, out_size) == LK_OK, "%s", path);
    free(path);
    return text;
}

/* Draw a chart, and check its five files; an empty picture has less than 2 kB. */
void plot_draw(const struct lk_chart *c)
{
    const char *name = c->name;
    size_t size;
    char *text;

    ck_assert_msg(lk_gnuplot_draw(c, plot_dir, &lk_draw_slide) == LK_OK, "%s", lk_error_text());
    text = plot_read(name, "png", &size);

    ck_assert_mem_eq(text, "\x89PNG", 4);
    ck_assert_uint_gt(size, 2000);
    free(text);
    text = plot_read(name, "svg", &size);
    ck_assert_ptr_nonnull(strstr(text, "</svg>"));
    free(text);
    text = plot_read(name, "pdf", &size);
    ck_assert_mem_eq(text, "%PDF", 4);
    free(text);
    free(plot_read(name, "csv", &size));
    free(plot_read(name, "gp", &size));
}

struct lk_forecast_point plot_point(int world_size, double step_s, double measured_s)
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

/* Return a panel's layer of a kind with a label (NULL: without), the nth such. */
const struct lk_chart_layer *plot_layer(const struct lk_chart_panel *p, enum lk_chart_kind kind,
                                        const char *label, size_t nth)
{
    for (size_t i = 0; i < p->n_layers; i++) {
        const struct lk_chart_layer *l = p->layers[i];

        if (l->kind == kind && (label ? l->label && !strcmp(l->label, label) : !l->label) && !nth--)
            return l;
    }
    ck_abort_msg("no layer %s", label ? label : "without a label");
    return NULL;
}

/* Return true if some note has the text. */
bool plot_noted(const struct lk_chart *c, const char *text)
{
    for (size_t i = 0; i < c->n_notes; i++)
        if (strstr(c->notes[i], text))
            return true;
    return false;
}

struct lk_forecast plot_forecast(const char *cluster, struct lk_forecast_point *points, size_t n)
{
    static char job[] = "gpt", unit[] = "sequence";

    return (struct lk_forecast){.job = job,
                                .cluster = (char *)cluster,
                                .sample_unit = unit,
                                .level = 0.9,
                                .points = points,
                                .n_points = n};
}

/* Fill a grid of bucket caps and accumulations on 8 GPUs: 4 x 4, the last one is fastest. */
struct lk_forecast plot_grid(struct lk_forecast_point *points, const char *name)
{
    for (int i = 0; i < PLOT_SIDE * PLOT_SIDE; i++) {
        points[i] = plot_point(8, 0.020 - 0.0005 * i, NAN);
        points[i].config.cap_bytes = (uint64_t)(1 + i % PLOT_SIDE) << 20;
        points[i].config.accumulation = 1 << i / PLOT_SIDE;
        points[i].gain = (struct lk_gain){.known = true,
                                          .ratio = 1 + 0.01 * i,
                                          .lo = 1 + 0.005 * i,
                                          .hi = 1 + 0.02 * i,
                                          .verdict = i == 13 ? LK_VERDICT_BEST : LK_VERDICT_NONE};
        points[i].plan = lk_plan_none;
    }
    return plot_forecast(name, points, PLOT_SIDE * PLOT_SIDE);
}
