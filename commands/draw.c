/* Draw charts into a folder; see draw.h. */
#include "commands/draw.h"

#include "reports/chart/gnuplot.h"

#include <stdio.h>
#include <string.h>

/* The least and the most pixels of a side. */
enum { SIDE_MIN = 240, SIDE_MAX = 8000 };

const char *const draw_themes[] = {"light", "dark", NULL};

/* Read "1600x900". */
static enum lk_status read_size(const char *text, struct lk_draw_options *out)
{
    int width = 0, height = 0, end = 0;

    if (strlen(text) > 16 || sscanf(text, "%5dx%5d%n", &width, &height, &end) != 2 || text[end] ||
        width < SIDE_MIN || width > SIDE_MAX || height < SIDE_MIN || height > SIDE_MAX)
        return lk_fail(
            LK_EUSAGE,
            "--size: '%.40s' is no size in pixels, such as 1600x900, from %d to %d a side", text,
            SIDE_MIN, SIDE_MAX);
    out->width = width;
    out->height = height;
    return LK_OK;
}

enum lk_status draw_charts(const struct lk_chart *charts, size_t n, const char *dir,
                           const struct draw_settings *s)
{
    enum lk_status st = LK_OK;
    struct lk_draw_options o = {.theme = (enum lk_chart_theme)s->theme};

    LK_PASS(read_size(s->size, &o));
    for (size_t i = 0; i < n; i++)
        LK_KEEP(lk_gnuplot_draw(&charts[i], dir, &o));
    return st;
}
