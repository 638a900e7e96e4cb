/*
 * A chart is what a picture shows, said without a drawing program: panels of two axes, each with
 * layers of marks. Plots (reports/plot/) make charts; reports/chart/gnuplot.h and svg.h draw them.
 *
 *     struct lk_chart c = {0};
 *     struct lk_chart_panel *p;
 *     struct lk_chart_layer *line;
 *
 *     LK_TRY(lk_chart_init(&c, "efficiency", "GPT-2 on dgx-h100"));
 *     LK_TRY(lk_chart_panel(&c, "", &p));
 *     LK_TRY(lk_chart_axis(&p->x, "GPUs", LK_CHART_LOG2, LK_DIM_COUNT));
 *     LK_TRY(lk_chart_axis(&p->y, "scaling efficiency", LK_CHART_LINEAR, LK_DIM_NONE));
 *     LK_TRY(lk_chart_layer(p, LK_CHART_LINE, LK_CHART_BLUE, "dgx-h100", &line));
 *     LK_TRY(lk_chart_mark(line, (struct lk_chart_mark){.x = 8, .y = 0.93}));
 *     LK_TRY(lk_chart_finish(&c));
 *
 * A drawing program computes nothing that a reader could take for data: ranges, ticks and their
 * labels are the chart's, so that all pictures of a chart say the same.
 */
#ifndef LK_REPORTS_CHART_CHART_H
#define LK_REPORTS_CHART_CHART_H

#include "base/status.h"
#include "base/units.h"

#include <stdbool.h>
#include <stddef.h>

/* X(color, name, light, dark): what a colour is in each theme. Safe for the colour-blind (Okabe and
 * Ito, 2008); those of the dark theme are lighter, with the same hues. */
#define LK_CHART_COLOR_LIST(X)                                                                     \
    X(LK_CHART_INK, "ink", 0x1a1a1a, 0xe8e8e8)                                                     \
    X(LK_CHART_PAPER, "paper", 0xffffff, 0x16181d)                                                 \
    X(LK_CHART_GRID, "grid", 0xdddddd, 0x3a3f47)                                                   \
    X(LK_CHART_GRAY, "gray", 0x8a8a8a, 0xa0a4ab)                                                   \
    X(LK_CHART_BLUE, "blue", 0x0072b2, 0x4fa8e0)                                                   \
    X(LK_CHART_ORANGE, "orange", 0xe69f00, 0xf0b840)                                               \
    X(LK_CHART_GREEN, "green", 0x009e73, 0x35c49b)                                                 \
    X(LK_CHART_PINK, "pink", 0xcc79a7, 0xdd9cc0)                                                   \
    X(LK_CHART_RED, "red", 0xd55e00, 0xf08040)                                                     \
    X(LK_CHART_SKY, "sky", 0x56b4e9, 0x8fd0f5)                                                     \
    X(LK_CHART_YELLOW, "yellow", 0xc9b900, 0xf0e442)                                               \
    X(LK_CHART_BROWN, "brown", 0x8c6d46, 0xc0a27c)

#define LK_CHART_COLOR_VALUE_(color, name, light, dark) color,
enum lk_chart_color { LK_CHART_COLOR_LIST(LK_CHART_COLOR_VALUE_) LK_CHART_COLORS };
#undef LK_CHART_COLOR_VALUE_
/* The colours of curves in their order, the first one first; a further curve begins again. */
enum { LK_CHART_CURVES = 8 };
extern const enum lk_chart_color lk_chart_curves[LK_CHART_CURVES];

enum lk_chart_theme { LK_CHART_LIGHT, LK_CHART_DARK, LK_CHART_THEMES };
/* Return a colour as 0xRRGGBB. */
unsigned lk_chart_rgb(enum lk_chart_color color, enum lk_chart_theme theme);
const char *lk_chart_color_name(enum lk_chart_color color);
/* Return the colour of a heat map's cell, 0xRRGGBB, from share 0 (low) to 1 (high): cividis, whose
 * lightness rises in all three kinds of colour blindness (Nunez, Anderton and Renslow, 2018). */
unsigned lk_chart_heat(double share);

enum lk_chart_scale {
    LK_CHART_LINEAR,
    LK_CHART_LOG2,
    LK_CHART_LOG10,
    LK_CHART_NAMES /* x or y is the number of a name, from 0; names run downwards on the y axis */
};

/* A tick; minor ones have no label. */
struct lk_chart_tick {
    double at;
    char *label;
};

struct lk_chart_axis {
    char *label; /* with the unit of its ticks */
    enum lk_chart_scale scale;
    enum lk_dimension dim; /* of the values: of the ticks' labels */
    bool percent;          /* values are ratios, ticks percent */
    double from, to;       /* the range; NaN: lk_chart_finish finds it from the marks */
    struct lk_chart_tick *ticks;
    size_t n_ticks, ticks_capacity;
};

enum lk_chart_kind {
    LK_CHART_LINE,   /* through (x, y); a mark whose y is NaN parts it */
    LK_CHART_BAND,   /* between lo and hi over x */
    LK_CHART_POINTS, /* at (x, y), with a bar from lo to hi where lo < hi */
    LK_CHART_BOXES,  /* from (x, lo) to (x2, hi) */
    LK_CHART_TEXTS   /* text at (x, y) alone */
};

enum lk_chart_style {
    LK_CHART_SOLID,  /* measured, or forecast from what was measured; points are filled */
    LK_CHART_DASHED, /* assumed: a preset's; points are hollow */
    LK_CHART_DOTTED  /* an ideal, or a guide */
};

enum lk_chart_place { LK_CHART_ABOVE, LK_CHART_BELOW, LK_CHART_LEFT, LK_CHART_RIGHT, LK_CHART_ON };

struct lk_chart_mark {
    double x, y, x2, lo, hi; /* those that its layer's kind has */
    double share;            /* a box of a heat map: its colour, 0 to 1; else any */
    char *text;              /* beside it; NULL: none. Copied by lk_chart_mark */
};

struct lk_chart_layer {
    enum lk_chart_kind kind;
    enum lk_chart_color color;
    enum lk_chart_style style;
    enum lk_chart_place place; /* of its texts */
    bool heat;                 /* boxes have the colour of their share */
    char *label;               /* in the key; NULL: not there */
    struct lk_chart_mark *marks;
    size_t n_marks, marks_capacity;
};

struct lk_chart_panel {
    char *title; /* NULL: none */
    struct lk_chart_axis x, y;
    struct lk_chart_layer **layers; /* the first is drawn first */
    size_t n_layers, layers_capacity;
    bool key; /* false: no key, e.g. where texts say what the marks are */
};

struct lk_chart {
    char *name; /* of its files, and of the picture in a page */
    char *title;
    char *says;   /* the picture in a sentence, for those who do not see it; NULL: the title */
    char **notes; /* below the picture: what it leaves out and why, what a band is */
    size_t n_notes, notes_capacity;
    struct lk_chart_panel **panels; /* side by side, `columns` in a row */
    size_t n_panels, panels_capacity, columns;
};

/* Fill *out, which lk_chart_fini frees; the texts are copied. */
enum lk_status lk_chart_init(struct lk_chart *out, const char *name, const char *title);
void lk_chart_fini(struct lk_chart *c); /* zeroes it; safe on a zeroed one */

/* Append a panel; *out stays the chart's, and where it is. title NULL: none. */
enum lk_status lk_chart_panel(struct lk_chart *c, const char *title, struct lk_chart_panel **out);
/* Describe an axis, with its range open. */
enum lk_status lk_chart_axis(struct lk_chart_axis *axis, const char *label,
                             enum lk_chart_scale scale, enum lk_dimension dim);
/* Append a tick: a name of LK_CHART_NAMES, or a value that must be there. An axis that has ticks
 * gets no others. */
enum lk_status lk_chart_tick(struct lk_chart_axis *axis, double at, const char *label);
/* Append a layer; *out stays the panel's, and where it is. label NULL: not in the key. */
enum lk_status lk_chart_layer(struct lk_chart_panel *p, enum lk_chart_kind kind,
                              enum lk_chart_color color, const char *label,
                              struct lk_chart_layer **out);
/* Append a mark; its text is copied. A mark without a position, where a line is not parted by it,
 * is left out. */
enum lk_status lk_chart_mark(struct lk_chart_layer *l, struct lk_chart_mark mark);
/* Keep one key, the last panel's, where all panels have the same entries in the same colours. */
void lk_chart_share_key(struct lk_chart *c);
/* Return true for a point whose bar is known: lo lies below hi. */
static inline bool lk_chart_has_bar(const struct lk_chart_layer *l, const struct lk_chart_mark *m)
{
    return l->kind == LK_CHART_POINTS && m->lo < m->hi;
}
/* Append a note, or set the sentence (printf style). */
enum lk_status lk_chart_note(struct lk_chart *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
enum lk_status lk_chart_say(struct lk_chart *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Find the ranges and ticks that are open. A linear axis of boxes and bands begins at 0 where all
 * values are positive; a range that is empty is widened; a logarithmic axis leaves out marks that
 * are not positive, and notes how many. LK_EEVIDENCE for a panel without a mark.
 */
enum lk_status lk_chart_finish(struct lk_chart *c);
/* Return where a value lies on a finished axis, from 0 (from) to 1 (to); NaN: nowhere. */
double lk_chart_at(const struct lk_chart_axis *axis, double value);

#endif
