/* The plot of collectives against size; see plot.h. */
#include "reports/plot/plot.h"

#include "reports/chart/gnuplot.h"

#include "base/array.h"

static const char *const colors[] = {LK_COLOR_BLUE, LK_COLOR_GREEN, LK_COLOR_ORANGE,
                                     LK_COLOR_PINK, LK_COLOR_RED,   LK_COLOR_SKY};

static enum lk_status put_data(struct lk_writer *w, const struct lk_plot_collective *curves,
                               size_t n)
{
    static const double GIGA = 1e-9;

    LK_PASS(lk_writer_printf(w, "#bytes,busbw_GBps,expected_GBps,expected_lo,expected_hi\n"));
    for (size_t i = 0; i < n; i++) {
        LK_PASS(lk_writer_printf(w, "%s# %s\n", i ? "\n\n" : "", curves[i].label));
        for (size_t k = 0; k < curves[i].n; k++) {
            const struct lk_plot_size *s = &curves[i].sizes[k];

            LK_PASS(lk_writer_printf(w, "%.17g,%.9g,%.9g,%.9g,%.9g\n", s->bytes, GIGA * s->busbw,
                                     GIGA * s->expected, GIGA * s->lo, GIGA * s->hi));
        }
    }
    return LK_OK;
}

static enum lk_status put_script(struct lk_writer *w, const char *name, const char *title,
                                 const struct lk_plot_collective *curves, size_t n)
{
    LK_PASS(lk_writer_printf(
        w, "set datafile separator ','\nset datafile missing 'nan'\n"
           "set logscale x 2\nset logscale y\nset format x '%%.0b%%BB'\nset format y '%%g'\n"
           "set xlabel 'size'\nset ylabel 'bus bandwidth, GB/s'\n"
           "set key top left\nset grid lc rgb '#dddddd'\nset border 3\n"
           "set tics nomirror out\nset title "));
    LK_PASS(lk_gnuplot_quote(w, title));
    LK_PASS(lk_writer_printf(w, "\nplot NaN notitle"));
    for (size_t i = 0; i < n; i++) {
        const char *color = colors[i % LK_COUNT(colors)];

        LK_PASS(lk_writer_printf(w,
                                 ", \\\n  '%s.csv' index %zu using 1:4:5 with filledcurves "
                                 "fs transparent solid 0.15 noborder lc rgb '%s' notitle"
                                 ", \\\n  '%s.csv' index %zu using 1:3 with lines lw 2 lc rgb "
                                 "'%s' notitle"
                                 ", \\\n  '%s.csv' index %zu using 1:2 with points pt 7 ps 0.8 "
                                 "lc rgb '%s' title ",
                                 name, i, color, name, i, color, name, i, color));
        LK_PASS(lk_gnuplot_quote(w, curves[i].label));
    }
    return lk_writer_put(w, "\n", 1);
}

enum lk_status lk_plot_collectives(const char *dir, const char *name, const char *title,
                                   const struct lk_plot_collective *curves, size_t n)
{
    enum lk_status st = LK_OK;
    struct lk_gnuplot g = {0};

    LK_TRY(lk_gnuplot_init(&g, dir, name, 800, 520));
    LK_TRY(put_data(g.data, curves, n));
    LK_TRY(put_script(g.script, name, title, curves, n));
    LK_TRY(lk_gnuplot_finish(&g));
out:
    lk_gnuplot_fini(&g);
    return st;
}
