/* Write the files that gnuplot draws a chart from; see gnuplot_script.h. Texts and places come
 * first. */
#include "reports/chart/gnuplot_script.h"

#include "base/array.h"
#include "base/csv.h"
#include "base/utf8.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes, of the type: the title's, the notes'; from a line to the next; a character's width. */
#define TITLE_SIZE 1.3
#define NOTE_SIZE  0.8
#define LINE       1.35
#define CHARACTER  0.6
/* The blocks of the table begin behind its header. */
enum { FIRST_BLOCK = 1 };

const struct lk_draw_options lk_draw_slide = {1600, 900, LK_CHART_LIGHT};

double lk_draw_type(const struct lk_draw_options *o)
{
    double by_width = o->width / lk_draw_slide.width, by_height = o->height / lk_draw_slide.height;

    return fmax(11, 20 * fmin(by_width, by_height));
}

/* ---- Text ---- */

static size_t characters(const char *text)
{
    size_t n = 0;
    uint32_t c;

    for (; *text; n++)
        text += lk_utf8_next(text, &c);
    return n;
}

/* Write n bytes of text in single quotes. format: gnuplot would read it as a format. */
static enum lk_status quote(struct lk_writer *w, const char *text, size_t n, bool format)
{
    const char *end = text + n;
    uint32_t c;

    LK_PASS(lk_writer_put(w, "'", 1));
    for (size_t size; text < end; text += size) {
        size = lk_utf8_next(text, &c);
        if (*text == '\'') /* doubled ones, as the manual has them, fail where four meet */
            LK_PASS(lk_writer_put(w, "'.\"'\".'", 7));
        else if (format && *text == '%')
            LK_PASS(lk_writer_put(w, "%%", 2));
        else if (*text == '\n')
            LK_PASS(lk_writer_put(w, "'.\"\\n\".'", 8));
        else if (lk_utf8_is_shown(c) && c != 0xfffd)
            LK_PASS(lk_writer_put(w, text, size));
        else
            LK_PASS(lk_writer_put(w, *text == '\t' ? " " : "?", 1));
    }
    return lk_writer_put(w, "'", 1);
}

enum lk_status lk_gnuplot_quote(struct lk_writer *w, const char *text)
{
    return quote(w, text, strlen(text), false);
}

/* Return the bytes of the first line of text within so many characters, and what to skip then. */
static size_t first_line(const char *text, size_t most, size_t *skip)
{
    size_t at = 0;
    uint32_t c;

    for (size_t n = 0; text[at] && n < most; n++)
        at += lk_utf8_next(text + at, &c);
    return lk_utf8_line(text, at, skip);
}

static size_t count_lines(const char *text, size_t most)
{
    size_t n = 0, skip;

    for (; *text; n++) {
        first_line(text, most, &skip);
        text += skip;
    }
    return n;
}

/* ---- The table ---- */

/* Write a text as a field of CSV, on one line. */
static enum lk_status put_field(struct lk_writer *w, const char *text)
{
    LK_PASS(lk_writer_put(w, ",", 1));
    return lk_csv_put_quoted(w, text ? text : "");
}

static enum lk_status put_number(struct lk_writer *w, const char *before, double v)
{
    return isfinite(v) ? lk_writer_printf(w, "%s%.12g", before, v)
                       : lk_writer_printf(w, "%s", before);
}

static enum lk_status put_row(struct lk_writer *w, const struct lk_chart_panel *p,
                              const struct lk_chart_layer *l, const struct lk_chart_mark *m)
{
    bool box = l->kind == LK_CHART_BOXES, band = l->kind == LK_CHART_BAND;
    bool reach = box || band || lk_chart_has_bar(l, m);

    LK_PASS(put_number(w, "", m->x));
    LK_PASS(put_number(w, ",", box ? m->x2 : NAN));
    LK_PASS(put_number(w, ",", box || band ? NAN : m->y));
    LK_PASS(put_number(w, ",", reach ? m->lo : NAN));
    LK_PASS(put_number(w, ",", reach ? m->hi : NAN));
    LK_PASS(put_number(w, ",", l->heat ? m->share : NAN));
    LK_PASS(put_field(w, p->title));
    LK_PASS(put_field(w, l->label));
    LK_PASS(put_field(w, m->text));
    return lk_writer_printf(w, "\n%s", l->kind == LK_CHART_LINE && isnan(m->y) ? "\n" : "");
}

enum lk_status lk_gnuplot_data(struct lk_writer *w, const struct lk_chart *c)
{
    LK_PASS(lk_writer_printf(w, "x,x2,y,lo,hi,share,panel,layer,text\n"));
    for (size_t i = 0; i < c->n_panels; i++)
        for (size_t k = 0; k < c->panels[i]->n_layers; k++) {
            const struct lk_chart_layer *l = c->panels[i]->layers[k];

            if (!l->n_marks)
                continue;
            LK_PASS(lk_writer_printf(w, "\n\n"));
            for (size_t m = 0; m < l->n_marks; m++)
                LK_PASS(put_row(w, c->panels[i], l, &l->marks[m]));
        }
    return LK_OK;
}

/* ---- The script: places ---- */

/* Texts of marks that are there already. */
enum { PLACES_MAX = 400 };
struct place {
    double x, y, wide, high;
};
struct places {
    struct place v[PLACES_MAX];
    size_t n;
};

/* About the part of a panel's height that is between its axes. */
#define UPWARDS 0.7

/* The picture's measures, and the block of the table that the next layer is. */
struct page {
    struct lk_writer *w;
    const struct lk_chart *c;
    const struct lk_draw_options *o;
    double type, width, height; /* pixels; of a panel */
    double across, upwards;     /* about, between its axes */
    size_t block;
    struct places texts;
};

static enum lk_status put_color(const struct page *g, const char *before, enum lk_chart_color color)
{
    return lk_writer_printf(g->w, "%s'#%06x'", before, lk_chart_rgb(color, g->o->theme));
}

/* Write lines of a text downwards from `top` pixels below the upper edge; return where they end. */
static enum lk_status put_lines(const struct page *g, const char *text, double size, double at,
                                const char *align, size_t most, double *top)
{
    size_t skip;

    for (; *text; text += skip) {
        size_t n = first_line(text, most, &skip);

        LK_PASS(lk_writer_printf(g->w, "set label "));
        LK_PASS(quote(g->w, text, n, false));
        LK_PASS(lk_writer_printf(g->w, " at screen %.5f,%.5f %s font sprintf(',%%g',%.4g*px)", at,
                                 1 - (*top + 0.5 * LINE * size) / g->o->height, align, size));
        LK_PASS(put_color(g, " tc rgb ", LK_CHART_INK));
        LK_PASS(lk_writer_printf(g->w, "\n"));
        *top += LINE * size;
    }
    return LK_OK;
}

static size_t line_length(const struct page *g, double size)
{
    double n = (g->o->width - 2 * g->type) / (CHARACTER * size);

    return n < 10 ? 10 : (size_t)n;
}

/* Write title and notes, and set *top and *bottom to where the panels may be, pixels from above. */
static enum lk_status put_frame(const struct page *g, double *top, double *bottom)
{
    double title = TITLE_SIZE * g->type, note = NOTE_SIZE * g->type, lines = 0;

    *top = 0.4 * g->type;
    LK_PASS(put_lines(g, g->c->title, title, 0.5, "center", line_length(g, title), top));
    for (size_t i = 0; i < g->c->n_notes; i++)
        lines += (double)count_lines(g->c->notes[i], line_length(g, note));
    *bottom = g->o->height - lines * LINE * note - 0.4 * g->type;
    for (double at = *bottom, i = 0; i < (double)g->c->n_notes; i++)
        LK_PASS(put_lines(g, g->c->notes[(size_t)i], note, g->type / g->o->width, "left",
                          line_length(g, note), &at));
    return LK_OK;
}

/* ---- The script: axes ---- */

/* Return the longest label of an axis, in pixels. */
static double label_width(const struct page *g, const struct lk_chart_axis *a)
{
    size_t most = 1;

    for (size_t i = 0; i < a->n_ticks; i++)
        if (a->ticks[i].label && characters(a->ticks[i].label) > most)
            most = characters(a->ticks[i].label);
    return CHARACTER * g->type * (double)most;
}

/* Write what an axis shows, in smaller type where it is longer than `room`. */
static enum lk_status put_label(const struct page *g, char name, const char *label, double room)
{
    double wide = CHARACTER * g->type * (double)characters(label);

    LK_PASS(lk_writer_printf(g->w, "set %clabel ", name));
    LK_PASS(lk_gnuplot_quote(g->w, label));
    /* That of x towards the numbers, with a line below that keeps the key apart. */
    return lk_writer_printf(g->w, "%s font sprintf(',%%g',%.4g*px)",
                            name == 'x' ? ".\"\\n \" offset 0,0.35" : "",
                            g->type * fmin(1, room / fmax(1, wide)));
}

static enum lk_status put_axis(const struct page *g, char name, const struct lk_chart_axis *a,
                               double length)
{
    bool across = name == 'x', names = a->scale == LK_CHART_NAMES;
    double wide = label_width(g, a), slot = length / fmax(1, (double)a->n_ticks);
    bool turned = across && names && wide > slot;
    double need = across && !turned ? wide + g->type : LINE * g->type, last = -INFINITY;

    if (names && !across)
        LK_PASS(lk_writer_printf(g->w, "set %crange [%.12g:%.12g]\n", name, a->to, a->from));
    else
        LK_PASS(lk_writer_printf(g->w, "set %crange [%.12g:%.12g]\n", name, a->from, a->to));
    if (a->scale == LK_CHART_LOG2 || a->scale == LK_CHART_LOG10)
        LK_PASS(lk_writer_printf(g->w, "set logscale %c\n", name));
    LK_PASS(put_label(g, name, a->label, across ? g->width : g->height));
    LK_PASS(lk_writer_printf(g->w, "\nset %ctics nomirror %s %s (", name, names ? "scale 0" : "out",
                             turned ? "rotate by 30 right" : ""));
    for (size_t i = 0; i < a->n_ticks; i++) {
        double at = lk_chart_at(a, a->ticks[i].at) * length;
        bool shown = a->ticks[i].label && fabs(at - last) >= need;

        /* A label that would run into the last one is left out; its tick is not. */
        LK_PASS(lk_writer_printf(g->w, i ? ", " : ""));
        LK_PASS(quote(g->w, shown ? a->ticks[i].label : "", shown ? strlen(a->ticks[i].label) : 0,
                      true));
        LK_PASS(lk_writer_printf(g->w, " %.12g", a->ticks[i].at));
        last = shown ? at : last;
    }
    return lk_writer_printf(g->w, ")\n");
}

/* ---- The script: texts of marks ---- */

/* Take the place of a text in a panel, pixels around its middle; return false if one is there. */
static bool take_place(struct places *t, double x, double y, double wide, double high)
{
    for (size_t i = 0; i < t->n; i++)
        if (fabs(x - t->v[i].x) < 0.5 * (wide + t->v[i].wide) &&
            fabs(y - t->v[i].y) < 0.5 * (high + t->v[i].high))
            return false;
    if (t->n == PLACES_MAX)
        return false;
    t->v[t->n++] = (struct place){x, y, wide, high};
    return true;
}

/* Return true if a text at (x, y) in pixels, placed as its layer says, covers no other one. */
static bool has_room(struct page *g, const struct lk_chart_layer *l, const char *text, double x,
                     double y)
{
    double size = NOTE_SIZE * g->type, high = 0, wide = 0;

    for (size_t skip; *text; text += skip, high += LINE * size) {
        size_t n = first_line(text, SIZE_MAX, &skip);

        wide = fmax(wide, CHARACTER * size * (double)n);
    }
    x += l->place == LK_CHART_RIGHT ? 0.5 * wide : l->place == LK_CHART_LEFT ? -0.5 * wide : 0;
    y += l->place == LK_CHART_ABOVE ? size : l->place == LK_CHART_BELOW ? -size : 0;
    return take_place(&g->texts, x, y, wide, high);
}

/* Return the colour of a text on a box: on a dark one white, on a bright one black. */
static unsigned over(unsigned rgb)
{
    double light = 0.3 * (rgb >> 16) + 0.59 * (rgb >> 8 & 0xFF) + 0.11 * (rgb & 0xFF);

    return light > 130 ? 0x000000 : 0xffffff;
}

/* Return true if a text has room on its box. */
static bool fits_box(const struct page *g, const struct lk_chart_panel *p,
                     const struct lk_chart_mark *m)
{
    double wide = g->across * fabs(lk_chart_at(&p->x, m->x2) - lk_chart_at(&p->x, m->x));
    double high = g->upwards * fabs(lk_chart_at(&p->y, m->hi) - lk_chart_at(&p->y, m->lo));

    return CHARACTER * NOTE_SIZE * g->type * (double)characters(m->text) <= wide &&
           NOTE_SIZE * g->type <= high;
}

static enum lk_status put_text(struct page *g, const struct lk_chart_panel *p,
                               const struct lk_chart_layer *l, const struct lk_chart_mark *m)
{
    static const char *const places[] = {
        [LK_CHART_ABOVE] = "center offset 0,0.8",
        [LK_CHART_BELOW] = "center offset 0,-0.8",
        [LK_CHART_LEFT] = "right offset -0.8,0",
        [LK_CHART_RIGHT] = "left offset 0.8,0",
        [LK_CHART_ON] = "center",
    };
    bool box = l->kind == LK_CHART_BOXES, band = l->kind == LK_CHART_BAND;
    bool beside = box && (l->place == LK_CHART_RIGHT || l->place == LK_CHART_LEFT);
    double x = !box ? m->x : l->place == LK_CHART_RIGHT ? fmax(m->x, m->x2) : fmin(m->x, m->x2);
    double y = box || band ? 0.5 * (m->lo + m->hi) : m->y;
    unsigned rgb = lk_chart_rgb(LK_CHART_INK, g->o->theme);

    if (box && !beside)
        x = 0.5 * (m->x + m->x2);
    if (box && l->place == LK_CHART_ABOVE)
        y = fmax(m->lo, m->hi);
    if (box && l->place == LK_CHART_BELOW)
        y = fmin(m->lo, m->hi);
    if (box && l->place == LK_CHART_ON)
        rgb = over(l->heat ? lk_chart_heat(m->share) : lk_chart_rgb(l->color, g->o->theme));
    if (!m->text || !isfinite(x) || !isfinite(y) ||
        (box && l->place == LK_CHART_ON && !fits_box(g, p, m)) ||
        !has_room(g, l, m->text, g->across * lk_chart_at(&p->x, x),
                  g->upwards * lk_chart_at(&p->y, y)))
        return LK_OK;
    LK_PASS(lk_writer_printf(g->w, "set label "));
    LK_PASS(lk_gnuplot_quote(g->w, m->text));
    return lk_writer_printf(g->w,
                            " at %.12g,%.12g %s front font sprintf(',%%g',%.4g*px) tc rgb "
                            "'#%06x'\n",
                            x, y, places[l->place], NOTE_SIZE * g->type, rgb);
}

/* Write the texts of a panel; of those that would cover each other the first one: the top layer's
 * last mark, which is where a curve ends, then its others from the left. */
static enum lk_status put_texts(struct page *g, const struct lk_chart_panel *p)
{
    g->texts.n = 0;
    for (size_t i = p->n_layers; i-- > 0;) {
        const struct lk_chart_layer *l = p->layers[i];

        for (size_t m = 0; m < l->n_marks; m++)
            LK_PASS(put_text(g, p, l, &l->marks[m ? m - 1 : l->n_marks - 1]));
    }
    return LK_OK;
}

/* ---- The script: layers ---- */

static enum lk_status put_title(const struct page *g, const struct lk_chart_layer *l)
{
    size_t skip, most = (size_t)(g->width / (CHARACTER * g->type));

    if (!l->label)
        return lk_writer_printf(g->w, " notitle");
    LK_PASS(lk_writer_printf(g->w, " title ''"));
    most = most < 12 ? 6 : most - 6;
    for (const char *text = l->label; *text; text += skip) { /* on one line */
        size_t n = first_line(text, most, &skip), used = characters(text) - characters(text + n);

        LK_PASS(lk_writer_printf(g->w, text == l->label ? "." : ".' '."));
        LK_PASS(quote(g->w, text, n, false));
        if (text[skip] && (used + 1 >= most || text[n] != '\n'))
            return lk_writer_printf(g->w, ".'…'");
        most -= used + 1;
    }
    return LK_OK;
}

static bool has_bars(const struct lk_chart_layer *l)
{
    for (size_t i = 0; i < l->n_marks; i++)
        if (lk_chart_has_bar(l, &l->marks[i]))
            return true;
    return false;
}

/* Write one layer of a plot command, from a block of the table. */
static enum lk_status put_layer(const struct page *g, const struct lk_chart_layer *l, size_t block)
{
    static const int dashes[] = {
        [LK_CHART_SOLID] = 1, [LK_CHART_DASHED] = 2, [LK_CHART_DOTTED] = 3};
    double line = g->type / 20;
    bool hollow = l->style != LK_CHART_SOLID;

    LK_PASS(lk_writer_printf(g->w, ", \\\n  '%s.csv' index %zu using ", g->c->name, block));
    switch (l->kind) {
    case LK_CHART_LINE:
        LK_PASS(lk_writer_printf(g->w, "1:3 with lines lw %.3g dt %d", 3 * line, dashes[l->style]));
        break;
    case LK_CHART_BAND:
        LK_PASS(
            lk_writer_printf(g->w, "1:4:5 with filledcurves fs transparent solid 0.2 noborder"));
        break;
    case LK_CHART_POINTS:
        if (has_bars(l)) {
            LK_PASS(lk_writer_printf(g->w, "1:3:4:5 with yerrorbars pt -1 lw %.3g", 2 * line));
            LK_PASS(put_color(g, " lc rgb ", l->color));
            LK_PASS(lk_writer_printf(g->w, " notitle, \\\n  '%s.csv' index %zu using ", g->c->name,
                                     block));
        }
        LK_PASS(lk_writer_printf(g->w, "1:3 with points pt %d ps %.3g lw %.3g", hollow ? 6 : 7,
                                 1.5 * line, 2 * line));
        break;
    case LK_CHART_BOXES:
        LK_PASS(lk_writer_printf(g->w, "1:4:1:2:4:5%s with boxxyerror fs solid %.2g noborder",
                                 l->heat ? ":6" : "", hollow ? 0.35 : 1));
        break;
    case LK_CHART_TEXTS:
        LK_PASS(lk_writer_printf(g->w, "1:3 with dots"));
        break;
    }
    if (l->heat)
        LK_PASS(lk_writer_printf(g->w, " lc palette"));
    else
        LK_PASS(put_color(g, " lc rgb ", l->color));
    return put_title(g, l);
}

/* A key in columns as wide as its longest entry. */
struct key {
    size_t columns, rows; /* rows 0: there is none */
};

static struct key key_of(const struct page *g, const struct lk_chart_panel *p)
{
    size_t n = 0, most = 1, columns;

    for (size_t i = 0; i < p->n_layers; i++)
        if (p->layers[i]->label) {
            n++;
            most = characters(p->layers[i]->label) > most ? characters(p->layers[i]->label) : most;
        }
    columns = (size_t)(g->width / (g->type * (CHARACTER * (double)most + 4)));
    columns = columns ? columns : 1;
    return (struct key){columns, p->key ? (n + columns - 1) / columns : 0};
}

static enum lk_status put_key(const struct page *g, const struct lk_chart_panel *p)
{
    struct key key = key_of(g, p);

    if (!key.rows)
        return lk_writer_printf(g->w, "unset key\n");
    LK_PASS(lk_writer_printf(g->w, "set key below center horizontal Left reverse maxcols %zu\n",
                             key.columns));
    return put_color(g, "set key tc rgb ", LK_CHART_INK);
}

static enum lk_status put_panel(struct page *g, const struct lk_chart_panel *p)
{
    LK_PASS(lk_writer_printf(g->w, "unset logscale\n"));
    g->across = fmax(0.2 * g->width, g->width - label_width(g, &p->y) - 5 * g->type);
    g->upwards = UPWARDS * g->height;
    LK_PASS(put_axis(g, 'x', &p->x, g->across));
    LK_PASS(put_axis(g, 'y', &p->y, g->upwards));
    LK_PASS(put_key(g, p));
    LK_PASS(lk_writer_printf(g->w, "\nset title "));
    LK_PASS(lk_gnuplot_quote(g->w, p->title ? p->title : ""));
    LK_PASS(lk_writer_printf(g->w, "\n"));
    LK_PASS(put_texts(g, p));
    LK_PASS(lk_writer_printf(g->w, "plot NaN notitle"));
    for (size_t i = 0; i < p->n_layers; i++)
        if (p->layers[i]->n_marks)
            LK_PASS(put_layer(g, p->layers[i], g->block++));
    return lk_writer_printf(g->w, "\nunset label\n");
}

static enum lk_status put_settings(const struct page *g)
{
    LK_PASS(lk_writer_printf(g->w,
                             "# Redraw: gnuplot -d -e \"set terminal pngcairo noenhanced size "
                             "%g,%g font ',%g'\" %s.gp > %s.png\n"
                             "if (!exists('px')) px = %g\n"
                             "set datafile separator ','\nset palette defined (",
                             g->o->width, g->o->height, 0.75 * g->type, g->c->name, g->c->name,
                             0.75));
    for (int i = 0; i <= 8; i++)
        LK_PASS(lk_writer_printf(g->w, "%s%d '#%06x'", i ? ", " : "", i, lk_chart_heat(i / 8.0)));
    LK_PASS(lk_writer_printf(g->w, ")\nset cbrange [0:1]\nunset colorbox\nset border 3"));
    LK_PASS(put_color(g, " lc rgb ", LK_CHART_INK));
    LK_PASS(put_color(g, "\nset grid lt 1 lc rgb ", LK_CHART_GRID));
    LK_PASS(put_color(g, "\nset xtics tc rgb ", LK_CHART_INK));
    LK_PASS(put_color(g, "\nset ytics tc rgb ", LK_CHART_INK));
    LK_PASS(put_color(g, "\nset xlabel tc rgb ", LK_CHART_INK));
    LK_PASS(put_color(g, "\nset ylabel tc rgb ", LK_CHART_INK));
    LK_PASS(put_color(g, "\nset title tc rgb ", LK_CHART_INK));
    return lk_writer_printf(g->w, "\nset multiplot\n");
}

/* Return the height of the key that the last panel has for all, so that their plots are as high as
 * its own; 0: there is none such. */
static double shared_key(const struct page *g)
{
    const struct lk_chart *c = g->c;

    if (c->n_panels < 2 || c->panels[0]->key)
        return 0;
    return LINE * g->type * (double)key_of(g, c->panels[c->n_panels - 1]).rows;
}

enum lk_status lk_gnuplot_script(struct lk_writer *w, const struct lk_chart *c,
                                 const struct lk_draw_options *o)
{
    struct page g = {.w = w, .c = c, .o = o, .type = lk_draw_type(o), .block = FIRST_BLOCK};
    size_t columns = c->columns ? c->columns : 1, rows;
    double top, bottom, below;

    columns = columns < c->n_panels ? columns : c->n_panels;
    rows = (c->n_panels + columns - 1) / columns;
    LK_PASS(put_settings(&g));
    LK_PASS(put_frame(&g, &top, &bottom));
    g.width = o->width / (double)columns;
    below = shared_key(&g);
    g.height = (bottom - top - below) / (double)rows;
    for (size_t i = 0; i < c->n_panels; i++) {
        double end = top + g.height * (double)(i / columns + 1);
        double key = i + 1 == c->n_panels ? below : 0;

        LK_PASS(lk_writer_printf(w, "set origin %.6f,%.6f\nset size %.6f,%.6f\n",
                                 (double)(i % columns) / (double)columns,
                                 1 - (end + key) / o->height, 1 / (double)columns,
                                 (g.height + key) / o->height));
        LK_PASS(put_panel(&g, c->panels[i]));
    }
    return lk_writer_printf(w, "unset multiplot\n");
}
