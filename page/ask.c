/*
 * The entry of the page's module: the same commands as the program's, over files in memory. A page
 * puts its job and cluster there, asks with the words of a command line, and reads what the command
 * has written:
 *
 *     text = alloc(size + 1); ... put("job.json", text, size); put("cluster.json", ...);
 *     ask("predict\0job.json\0cluster.json\0--gpus=8\0--format=json\0", size) -> exit code
 *     text("-"), size("-"), error()
 */
#include "base/array.h"
#include "base/file.h"
#include "commands/command.h"
#include "commands/start.h"
#include "facts/forecast.h"
#include "page/memory.h"
#include "reports/chart/svg.h"
#include "reports/plot/grid.h"
#include "reports/plot/plots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Declare and begin a function that the page calls; tools/page.mk lists their names. */
#define EXPORT(type, name, ...)                                                                    \
    type page_##name(__VA_ARGS__);                                                                 \
    type page_##name(__VA_ARGS__)

enum { WORDS_MAX = 256 };

extern const struct lk_command lk_command_predict, lk_command_whatif;

static const struct lk_command *const commands[] = {&lk_command_predict, &lk_command_whatif, NULL};

EXPORT(void *, alloc, size_t size)
{
    return malloc(size);
}

EXPORT(void, free, void *p)
{
    free(p);
}

/* Put a file; its text, with a NUL at its end, is the module's from now on. 0: done. */
EXPORT(int, put, const char *name, char *text, size_t size)
{
    return lk_status_exit_code(page_file_put(name, text, size));
}

EXPORT(void, remove, const char *name)
{
    page_file_remove(name);
}

EXPORT(const char *, text, const char *name)
{
    size_t size;

    return page_file_text(name, &size);
}

EXPORT(size_t, size, const char *name)
{
    size_t size;

    (void)page_file_text(name, &size);
    return size;
}

/* Return the text of the last failure. */
EXPORT(const char *, error, void)
{
    return lk_error_text();
}

static enum lk_status ask(char *words, size_t size)
{
    const struct lk_command *c = NULL;
    char *argv[WORDS_MAX];
    int n = 0;

    for (char *p = words; p < words + size; p += strlen(p) + 1) {
        if (n == WORDS_MAX)
            return lk_fail(LK_EUSAGE, "more than %d words", WORDS_MAX);
        argv[n++] = p;
    }
    if (!n)
        return lk_fail(LK_EUSAGE, "which command?");
    LK_PASS(lk_command_find(commands, argv[0], &c));
    return lk_command_start(c, n - 1, argv + 1);
}

/* Run a command: its words, each with a NUL at its end. Return the exit code. */
EXPORT(int, ask, char *words, size_t size)
{
    page_file_remove("-");
    return lk_status_exit_code(ask(words, size));
}

/* ---- Pictures ---- */

/* Draw a chart, which is freed, as the file "chart-I.svg". */
static enum lk_status draw_chart(struct lk_chart *c, int i)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;
    char name[32];

    snprintf(name, sizeof name, "chart-%d.svg", i);
    LK_TRY(lk_writer_open(name, false, &w));
    LK_TRY(lk_chart_svg(w, c, LK_SVG_WIDTH));
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    lk_chart_fini(c);
    return st;
}

/* A what-if has two configurations at each count: what was asked for, and behind it, where that
 * differs, the current one. Share the points out to two lists, which borrow them. */
static void part(const struct lk_forecast *f, struct lk_forecast_point *points,
                 struct lk_forecast parts[2])
{
    size_t n = 0;

    for (int now = 0; now < 2; now++) {
        parts[now] = *f;
        parts[now].points = points + n;
        parts[now].n_points = 0;
        for (size_t i = 0; i < f->n_points; i++) {
            bool again = i && f->points[i].config.world_size == f->points[i - 1].config.world_size;

            if (again == now)
                points[n++] = f->points[i];
        }
        parts[now].n_points = (size_t)(points + n - parts[now].points);
    }
    if (parts[1].n_points) {
        parts[0].cluster = "asked for";
        parts[1].cluster = "as it is now";
        parts[1].knee_gpus = 0; /* it is that of what was asked for */
    }
}

/* page.js asks to see one of these of a forecast: the curve and the losses of an answer; the heat
 * map of a grid; all plots that `report` makes of it. */
enum view { VIEW_ANSWER, VIEW_GRID, VIEW_ALL };

/* Draw a chart that was made; *n counts the pictures. Without evidence there is none. */
static enum lk_status draw_made(enum lk_status made, struct lk_chart *c, int *n)
{
    if (made == LK_EEVIDENCE)
        return LK_OK;
    LK_PASS(made);
    return draw_chart(c, (*n)++);
}

static enum lk_status draw_answer(const struct lk_forecast *f, int *n)
{
    enum lk_status st = LK_OK;
    struct lk_forecast parts[2];
    struct lk_forecast_point *points = NULL;
    struct lk_chart c = {0};

    LK_TRY(lk_alloc(&points, f->n_points, sizeof *points));
    part(f, points, parts);
    LK_TRY(draw_made(lk_chart_efficiency(&c, parts, parts[1].n_points ? 2 : 1), &c, n));
    LK_TRY(draw_made(lk_chart_losses(&c, parts, 1), &c, n));
out:
    free(points);
    return st;
}

static enum lk_status draw_all(const struct lk_forecast *f, int *n)
{
    const struct lk_report_input in = {.forecasts = f, .n_forecasts = 1, .step = -1};
    enum lk_status st = LK_OK;
    struct lk_chart_list list = {0};

    st = lk_plots_make(&in, &list);
    if (st == LK_EEVIDENCE)
        st = LK_OK;
    LK_TRY(st);
    for (size_t i = 0; i < list.n; i++)
        LK_TRY(draw_chart(&list.charts[i], (*n)++));
out:
    lk_chart_list_fini(&list);
    return st;
}

static enum lk_status draw(enum view view, int *n)
{
    enum lk_status st = LK_OK;
    struct lk_forecast f = {0};
    struct lk_chart c = {0};

    LK_TRY(lk_forecast_read("forecast.json", &f));
    if (view == VIEW_GRID)
        st = draw_made(lk_chart_heat_map(&c, &f), &c, n);
    else
        st = view == VIEW_ALL ? draw_all(&f, n) : draw_answer(&f, n);
out:
    lk_forecast_fini(&f);
    return st;
}

/* Draw the last forecast as "chart-0.svg" and so on. Return how many there are; -1: it failed. */
EXPORT(int, draw, int view)
{
    int n = 0;

    return draw((enum view)view, &n) == LK_OK ? n : -1;
}
