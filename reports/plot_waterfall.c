/* Plot the losses from the ideal step to the measured one; see plot.h. */
#include "reports/plot.h"

#include "reports/gnuplot.h"

#include "base/array.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* The picture omits a loss below this share of the step (the CSV has all rows). */
#define SHOWN_SHARE 0.001

static bool is_shown(const double *losses_s, int row, double step_s)
{
    return row == LK_LOSS_IDEAL || fabs(losses_s[row]) >= SHOWN_SHARE * step_s;
}

/* Rows: position, key, bottom and top of the bar in ms, label, colour class 0 ideal, 1 loss, 2
 * gain, 3 total. */
static enum lk_status put_bar(struct lk_writer *w, int at, const char *key, double from_s,
                              double to_s, const char *label, int class)
{
    return lk_writer_printf(w, "%d,%s,%.9g,%.9g,%s,%d\n", at, key, 1e3 * from_s, 1e3 * to_s, label,
                            class);
}

static enum lk_status put_data(struct lk_writer *w, const double *losses_s, int *out_bars)
{
    enum lk_status st = LK_OK;
    double step_s = 0, at_s = 0;
    int bars = 0;
    char label[48];

    for (int i = 0; i < LK_LOSS_COUNT; i++)
        step_s += losses_s[i];
    LK_TRY(lk_writer_printf(w, "#position,row,from_ms,to_ms,label,class\n"));
    for (int i = 0; i < LK_LOSS_COUNT; i++) {
        int class = i == LK_LOSS_IDEAL ? 0 : losses_s[i] >= 0 ? 1 : 2;

        snprintf(label, sizeof label, "%+.2f ms (%.1f %%)", 1e3 * losses_s[i],
                 100 * losses_s[i] / step_s);
        if (is_shown(losses_s, i, step_s))
            LK_TRY(put_bar(w, bars++, lk_loss_key((enum lk_loss)i), at_s, at_s + losses_s[i],
                           i == LK_LOSS_IDEAL ? label + 1 : label, class));
        else
            LK_TRY(lk_writer_printf(w, "# %s: %.9g ms\n", lk_loss_key((enum lk_loss)i),
                                    1e3 * losses_s[i]));
        at_s += losses_s[i];
    }
    snprintf(label, sizeof label, "%.2f ms", 1e3 * step_s);
    LK_TRY(put_bar(w, bars++, "step", 0, step_s, label, 3));
    *out_bars = bars;
out:
    return st;
}

static enum lk_status put_script(struct lk_gnuplot *g, const char *title, int bars)
{
    static const char *const colors[] = {LK_COLOR_GREEN, LK_COLOR_RED, LK_COLOR_SKY, LK_COLOR_BLUE};
    enum lk_status st = LK_OK;
    struct lk_writer *w = g->script;

    LK_TRY(lk_writer_printf(w,
                            "set datafile separator ','\nunset key\nset border 1\n"
                            "set yrange [%d.6:-0.6]\nset xlabel 'time of a step, ms'\n"
                            "set xrange [0:*]\nset offsets 0,graph 0.22,0,0\n"
                            "set xtics nomirror out\nset grid x lc rgb '#dddddd'\nset title ",
                            bars - 1));
    LK_TRY(lk_gnuplot_quote(w, title));
    LK_TRY(lk_writer_printf(w, "\nset ytics scale 0 nomirror\nplot "));
    for (size_t c = 0; c < LK_COUNT(colors); c++)
        LK_TRY(lk_writer_printf(w,
                                "'%s.csv' using ($6==%zu?($3+$4)/2:NaN):1:3:4:($1-0.35):($1+0.35"
                                "):ytic(2) with boxxyerror fs solid 0.9 noborder lc rgb '%s', ",
                                g->name, c, colors[c]));
    LK_TRY(lk_writer_printf(w, "'%s.csv' using ($3>$4?$3:$4):1:(' '.strcol(5)) with labels left\n",
                            g->name));
out:
    return st;
}

enum lk_status lk_plot_waterfall(const char *dir, const char *name, const char *title,
                                 const double losses_s[LK_LOSS_COUNT])
{
    enum lk_status st = LK_OK;
    struct lk_gnuplot g = {0};
    int bars;

    LK_TRY(lk_gnuplot_init(&g, dir, name, 860, 420));
    LK_TRY(put_data(g.data, losses_s, &bars));
    LK_TRY(put_script(&g, title, bars));
    LK_TRY(lk_gnuplot_finish(&g));
out:
    lk_gnuplot_fini(&g);
    return st;
}
