/* Plots of runs: losses from the ideal step to the measured one, and a step on every rank; see
 * plot.h. */
#include "reports/plot/plot.h"

#include "reports/chart/gnuplot.h"

#include "base/array.h"
#include "base/stats.h"
#include "base/units.h"
#include "base/words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Waterfall ---- */

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

static enum lk_status put_bars(struct lk_writer *w, const double *losses_s, int *out_bars)
{
    double step_s = 0, at_s = 0;
    int bars = 0;
    char label[48];

    for (int i = 0; i < LK_LOSS_COUNT; i++)
        step_s += losses_s[i];
    LK_PASS(lk_writer_printf(w, "#position,row,from_ms,to_ms,label,class\n"));
    for (int i = 0; i < LK_LOSS_COUNT; i++) {
        int class = i == LK_LOSS_IDEAL ? 0 : losses_s[i] >= 0 ? 1 : 2;

        snprintf(label, sizeof label, "%+.2f ms (%.1f %%)", 1e3 * losses_s[i],
                 100 * losses_s[i] / step_s);
        if (is_shown(losses_s, i, step_s))
            LK_PASS(put_bar(w, bars++, lk_loss_key((enum lk_loss)i), at_s, at_s + losses_s[i],
                            i == LK_LOSS_IDEAL ? label + 1 : label, class));
        else
            LK_PASS(lk_writer_printf(w, "# %s: %.9g ms\n", lk_loss_key((enum lk_loss)i),
                                     1e3 * losses_s[i]));
        at_s += losses_s[i];
    }
    snprintf(label, sizeof label, "%.2f ms", 1e3 * step_s);
    LK_PASS(put_bar(w, bars++, "step", 0, step_s, label, 3));
    *out_bars = bars;
    return LK_OK;
}

static enum lk_status put_waterfall(struct lk_gnuplot *g, const char *title, int bars)
{
    static const char *const colors[] = {LK_COLOR_GREEN, LK_COLOR_RED, LK_COLOR_SKY, LK_COLOR_BLUE};
    struct lk_writer *w = g->script;

    LK_PASS(lk_writer_printf(w,
                             "set datafile separator ','\nunset key\nset border 1\n"
                             "set yrange [%d.6:-0.6]\nset xlabel 'time of a step, ms'\n"
                             "set xrange [0:*]\nset offsets 0,graph 0.22,0,0\n"
                             "set xtics nomirror out\nset grid x lc rgb '#dddddd'\nset title ",
                             bars - 1));
    LK_PASS(lk_gnuplot_quote(w, title));
    LK_PASS(lk_writer_printf(w, "\nset ytics scale 0 nomirror\nplot "));
    for (size_t c = 0; c < LK_COUNT(colors); c++)
        LK_PASS(lk_writer_printf(w,
                                 "'%s.csv' using ($6==%zu?($3+$4)/2:NaN):1:3:4:($1-0.35):($1+0.35"
                                 "):ytic(2) with boxxyerror fs solid 0.9 noborder lc rgb '%s', ",
                                 g->name, c, colors[c]));
    return lk_writer_printf(w, "'%s.csv' using ($3>$4?$3:$4):1:(' '.strcol(5)) with labels left\n",
                            g->name);
}

enum lk_status lk_plot_waterfall(const char *dir, const char *name, const char *title,
                                 const double losses_s[LK_LOSS_COUNT])
{
    enum lk_status st = LK_OK;
    struct lk_gnuplot g = {0};
    int bars;

    LK_TRY(lk_gnuplot_init(&g, dir, name, 860, 420));
    LK_TRY(put_bars(g.data, losses_s, &bars));
    LK_TRY(put_waterfall(&g, title, bars));
    LK_TRY(lk_gnuplot_finish(&g));
out:
    lk_gnuplot_fini(&g);
    return st;
}

/* ---- Timeline ---- */

/* X(class, text, colour, lane: 0 above, 1 below): kinds of boxes. */
#define CLASS_LIST(X)                                                                              \
    X(CLASS_INPUT, "input wait", LK_COLOR_PINK, 0)                                                 \
    X(CLASS_FORWARD, "forward", LK_COLOR_SKY, 0)                                                   \
    X(CLASS_BACKWARD, "backward", LK_COLOR_BLUE, 0)                                                \
    X(CLASS_OPTIMIZER, "optimizer", LK_COLOR_GREEN, 0)                                             \
    X(CLASS_WAIT, "all-reduce: waiting for the last rank", LK_COLOR_GRAY, 1)                       \
    X(CLASS_WIRE, "all-reduce: moving bytes", LK_COLOR_RED, 1)

enum box_class { CLASS_LIST(LK_WORD_VALUE) CLASS_COUNT };

static const struct {
    const char *text, *color;
    int lane;
} classes[CLASS_COUNT] = {
#define CLASS_ROW_(class, text, color, lane) [class] = {text, color, lane},
    CLASS_LIST(CLASS_ROW_)
#undef CLASS_ROW_
};

struct box {
    enum box_class class;
    int rank;
    uint64_t start_ns, end_ns; /* rank 0's clock */
};

struct boxes {
    struct box *v;
    size_t n, capacity;
};

static enum lk_status add_box(struct boxes *b, enum box_class class, int rank, uint64_t start_ns,
                              uint64_t end_ns)
{
    if (end_ns <= start_ns)
        return LK_OK;
    LK_PASS(lk_array_grow(&b->v, &b->capacity, b->n + 1, sizeof *b->v));
    b->v[b->n++] = (struct box){class, rank, start_ns, end_ns};
    return LK_OK;
}

/* Return the latest arrival of any rank at collective seq, on rank 0's clock. */
static uint64_t last_arrival_ns(const struct lk_trace *traces, size_t n, uint32_t seq)
{
    uint64_t last = 0;

    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < traces[r].n_spans; i++) {
            const struct lk_span *s = &traces[r].spans[i].span;

            if (s->kind == LK_SPAN_COLLECTIVE && s->seq == seq) {
                uint64_t at = lk_clock_apply(&traces[r].clock, s->start_ns);

                last = at > last ? at : last;
            }
        }
    return last;
}

/* Return true for spans that prepare a later step whose number they carry. */
static bool is_ahead(const struct lk_trace *t, const struct lk_trace_span *s)
{
    return s->track < t->n_tracks && (t->tracks[s->track].kind == LK_TRACK_LOADER ||
                                      t->tracks[s->track].kind == LK_TRACK_COPY);
}

static enum lk_status add_span(struct boxes *b, const struct lk_trace *traces, size_t n, size_t r,
                               const struct lk_span *s)
{
    const struct lk_trace *t = &traces[r];
    uint64_t start = lk_clock_apply(&t->clock, s->start_ns);
    uint64_t end = lk_clock_apply(&t->clock, s->end_ns);

    switch (s->kind) {
    case LK_SPAN_INPUT:
        return add_box(b, CLASS_INPUT, t->info.rank, start, end);
    case LK_SPAN_FORWARD:
        return add_box(b, CLASS_FORWARD, t->info.rank, start, end);
    case LK_SPAN_BACKWARD:
        return add_box(b, CLASS_BACKWARD, t->info.rank, start, end);
    case LK_SPAN_OPTIMIZER:
        return add_box(b, CLASS_OPTIMIZER, t->info.rank, start, end);
    case LK_SPAN_COLLECTIVE: {
        uint64_t last = last_arrival_ns(traces, n, s->seq);

        last = last < start ? start : last > end ? end : last;
        LK_PASS(add_box(b, CLASS_WAIT, t->info.rank, start, last));
        LK_PASS(add_box(b, CLASS_WIRE, t->info.rank, last, end));
        break;
    }
    default:
        break;
    }
    return LK_OK;
}

static enum lk_status collect(const struct lk_trace *traces, size_t n, int64_t step,
                              struct boxes *b)
{
    enum lk_status st = LK_OK;

    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < traces[r].n_spans; i++)
            if (traces[r].spans[i].span.step == (uint32_t)step &&
                !is_ahead(&traces[r], &traces[r].spans[i]))
                LK_TRY(add_span(b, traces, n, r, &traces[r].spans[i].span));
    if (!b->n)
        st = lk_fail(LK_EEVIDENCE, "the traces have no step %lld", (long long)step);
out:
    return st;
}

struct step_length {
    double s;
    int64_t step;
};

static int by_length(const void *a, const void *b)
{
    const struct step_length *x = a, *y = b;

    return (x->s > y->s) - (x->s < y->s);
}

/* Find the counted step of the first trace whose length is the median. */
static enum lk_status median_step(const struct lk_trace *t, int64_t *out)
{
    enum lk_status st = LK_OK;
    struct step_length *v = NULL;
    size_t n = 0, capacity = 0;

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        if (s->kind != LK_SPAN_STEP || s->step < t->info.warmup_steps)
            continue;
        LK_TRY(lk_array_grow(&v, &capacity, n + 1, sizeof *v));
        v[n++] = (struct step_length){lk_s_from_ns(s->end_ns - s->start_ns), s->step};
    }
    if (!n)
        LK_TRY(lk_fail(LK_EEVIDENCE, "the trace of rank %d has no counted step", t->info.rank));
    qsort(v, n, sizeof *v, by_length);
    *out = v[n / 2].step;
out:
    free(v);
    return st;
}

static enum lk_status put_boxes(struct lk_writer *w, const struct boxes *b)
{
    uint64_t zero = UINT64_MAX;

    for (size_t i = 0; i < b->n; i++)
        zero = b->v[i].start_ns < zero ? b->v[i].start_ns : zero;
    LK_PASS(lk_writer_printf(w, "#rank,start_ms,end_ms,y_from,y_to,class\n"));
    for (int c = 0; c < CLASS_COUNT; c++) {
        LK_PASS(lk_writer_printf(w, "%s# %s\n", c ? "\n\n" : "", classes[c].text));
        /* A zero-size box outside the picture keeps the numbering of the blocks. */
        LK_PASS(lk_writer_printf(w, "-9,0,0,-9,-9,%d\n", c));
        for (size_t i = 0; i < b->n; i++) {
            const struct box *x = &b->v[i];
            double top = x->rank - 0.38 + (classes[c].lane ? 0.40 : 0.0);

            if ((int)x->class == c)
                LK_PASS(lk_writer_printf(w, "%d,%.6f,%.6f,%.2f,%.2f,%d\n", x->rank,
                                         1e3 * lk_s_from_ns(x->start_ns - zero),
                                         1e3 * lk_s_from_ns(x->end_ns - zero), top, top + 0.36, c));
        }
    }
    return LK_OK;
}

static enum lk_status put_timeline(struct lk_gnuplot *g, const char *title, size_t ranks)
{
    struct lk_writer *w = g->script;

    LK_PASS(lk_writer_printf(w,
                             "set datafile separator ','\nset border 1\nset yrange [%zu.5:-0.5]\n"
                             "set xlabel 'ms from the start of the step'\nset xrange [0:*]\n"
                             "set ytics 1 scale 0 format 'rank %%g'\nset xtics nomirror out\n"
                             "set key outside bottom center horizontal\n"
                             "set grid x lc rgb '#dddddd'\nset title ",
                             ranks - 1));
    LK_PASS(lk_gnuplot_quote(w, title));
    LK_PASS(lk_writer_printf(w, "\nplot "));
    for (int c = 0; c < CLASS_COUNT; c++)
        LK_PASS(lk_writer_printf(w,
                                 "%s'%s.csv' index %d using (($2+$3)/2):(($4+$5)/2):2:3:4:5 with "
                                 "boxxyerror fs solid 0.9 noborder lc rgb '%s' title '%s'",
                                 c ? ", \\\n  " : "", g->name, c, classes[c].color,
                                 classes[c].text));
    return lk_writer_put(w, "\n", 1);
}

enum lk_status lk_plot_timeline(const char *dir, const char *name, const char *title,
                                const struct lk_trace *traces, size_t n, int64_t step)
{
    enum lk_status st = LK_OK;
    struct lk_gnuplot g = {0};
    struct boxes boxes = {0};

    if (!n)
        return lk_fail(LK_EEVIDENCE, "no traces to draw");
    if (step < 0)
        LK_TRY(median_step(&traces[0], &step));
    LK_TRY(collect(traces, n, step, &boxes));
    LK_TRY(lk_gnuplot_init(&g, dir, name, 1100, 170 + 90 * (double)n));
    LK_TRY(put_boxes(g.data, &boxes));
    LK_TRY(put_timeline(&g, title, n));
    LK_TRY(lk_gnuplot_finish(&g));
out:
    lk_gnuplot_fini(&g);
    free(boxes.v);
    return st;
}
