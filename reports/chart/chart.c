/* Charts: their parts, and the ranges and ticks of their axes; see chart.h. */
#include "reports/chart/chart.h"

#include "base/array.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Colours ---- */

static const struct {
    const char *name;
    unsigned rgb[LK_CHART_THEMES];
} colors[LK_CHART_COLORS] = {
#define COLOR_ROW_(color, name, light, dark) [color] = {name, {light, dark}},
    LK_CHART_COLOR_LIST(COLOR_ROW_)
#undef COLOR_ROW_
};

const enum lk_chart_color lk_chart_curves[LK_CHART_CURVES] = {
    LK_CHART_BLUE, LK_CHART_ORANGE, LK_CHART_GREEN, LK_CHART_PINK,
    LK_CHART_RED,  LK_CHART_SKY,    LK_CHART_BROWN, LK_CHART_GRAY};

unsigned lk_chart_rgb(enum lk_chart_color color, enum lk_chart_theme theme)
{
    return colors[color].rgb[theme];
}

const char *lk_chart_color_name(enum lk_chart_color color)
{
    return colors[color].name;
}

unsigned lk_chart_heat(double share)
{
    /* Cividis at nine equal steps; between them linear. */
    static const unsigned char map[][3] = {{0, 34, 78},     {18, 53, 112},   {59, 73, 108},
                                           {87, 93, 109},   {112, 113, 115}, {138, 134, 120},
                                           {165, 156, 116}, {195, 179, 105}, {254, 232, 56}};
    enum { LAST = LK_COUNT(map) - 1 };
    double at = share > 0 ? (share < 1 ? share : 1) * LAST : 0; /* NaN is low */
    int low = at < LAST ? (int)at : LAST - 1;
    unsigned rgb = 0;

    for (int c = 0; c < 3; c++)
        rgb =
            rgb << 8 | (unsigned)lround(map[low][c] + (at - low) * (map[low + 1][c] - map[low][c]));
    return rgb;
}

/* ---- Parts ---- */

enum lk_status lk_chart_init(struct lk_chart *out, const char *name, const char *title)
{
    enum lk_status st = LK_OK;
    struct lk_chart c = {.columns = 1};

    LK_TRY(lk_strdup(&c.name, name));
    LK_TRY(lk_strdup(&c.title, title));
    *out = c;
    return LK_OK;
out:
    lk_chart_fini(&c);
    return st;
}

static void axis_fini(struct lk_chart_axis *a)
{
    for (size_t i = 0; i < a->n_ticks; i++)
        free(a->ticks[i].label);
    free(a->ticks);
    free(a->label);
}

static void layer_free(struct lk_chart_layer *l)
{
    for (size_t i = 0; i < l->n_marks; i++)
        free(l->marks[i].text);
    free(l->marks);
    free(l->label);
    free(l);
}

static void panel_free(struct lk_chart_panel *p)
{
    for (size_t i = 0; i < p->n_layers; i++)
        layer_free(p->layers[i]);
    free(p->layers);
    axis_fini(&p->x);
    axis_fini(&p->y);
    free(p->title);
    free(p);
}

void lk_chart_fini(struct lk_chart *c)
{
    for (size_t i = 0; i < c->n_panels; i++)
        panel_free(c->panels[i]);
    free(c->panels);
    for (size_t i = 0; i < c->n_notes; i++)
        free(c->notes[i]);
    free(c->notes);
    free(c->name);
    free(c->title);
    free(c->says);
    *c = (struct lk_chart){0};
}

enum lk_status lk_chart_panel(struct lk_chart *c, const char *title, struct lk_chart_panel **out)
{
    enum lk_status st = LK_OK;
    struct lk_chart_panel *p = NULL;

    LK_TRY(lk_alloc(&p, 1, sizeof *p));
    p->key = true;
    if (title)
        LK_TRY(lk_strdup(&p->title, title));
    LK_TRY(lk_array_grow(&c->panels, &c->panels_capacity, c->n_panels + 1,
                         sizeof(struct lk_chart_panel *)));
    c->panels[c->n_panels++] = p;
    *out = p;
    return LK_OK;
out:
    if (p)
        panel_free(p);
    return st;
}

enum lk_status lk_chart_axis(struct lk_chart_axis *axis, const char *label,
                             enum lk_chart_scale scale, enum lk_dimension dim)
{
    LK_PASS(lk_strdup(&axis->label, label));
    axis->scale = scale;
    axis->dim = dim;
    axis->from = axis->to = NAN;
    return LK_OK;
}

enum lk_status lk_chart_tick(struct lk_chart_axis *axis, double at, const char *label)
{
    LK_PASS(
        lk_array_grow(&axis->ticks, &axis->ticks_capacity, axis->n_ticks + 1, sizeof *axis->ticks));
    LK_PASS(lk_strdup(&axis->ticks[axis->n_ticks].label, label));
    axis->ticks[axis->n_ticks++].at = at;
    return LK_OK;
}

enum lk_status lk_chart_layer(struct lk_chart_panel *p, enum lk_chart_kind kind,
                              enum lk_chart_color color, const char *label,
                              struct lk_chart_layer **out)
{
    enum lk_status st = LK_OK;
    struct lk_chart_layer *l = NULL;

    LK_TRY(lk_alloc(&l, 1, sizeof *l));
    l->kind = kind;
    l->color = color;
    if (label)
        LK_TRY(lk_strdup(&l->label, label));
    LK_TRY(lk_array_grow(&p->layers, &p->layers_capacity, p->n_layers + 1,
                         sizeof(struct lk_chart_layer *)));
    p->layers[p->n_layers++] = l;
    *out = l;
    return LK_OK;
out:
    if (l)
        layer_free(l);
    return st;
}

static bool has_position(enum lk_chart_kind kind, const struct lk_chart_mark *m)
{
    switch (kind) {
    case LK_CHART_LINE:
        return isfinite(m->x);
    case LK_CHART_BAND:
        return isfinite(m->x) && isfinite(m->lo) && isfinite(m->hi);
    case LK_CHART_BOXES:
        return isfinite(m->x) && isfinite(m->x2) && isfinite(m->lo) && isfinite(m->hi);
    case LK_CHART_POINTS:
    case LK_CHART_TEXTS:
        break;
    }
    return isfinite(m->x) && isfinite(m->y);
}

enum lk_status lk_chart_mark(struct lk_chart_layer *l, struct lk_chart_mark mark)
{
    const char *text = mark.text;

    if (!has_position(l->kind, &mark))
        return LK_OK;
    LK_PASS(lk_array_grow(&l->marks, &l->marks_capacity, l->n_marks + 1, sizeof *l->marks));
    mark.text = NULL;
    if (text)
        LK_PASS(lk_strdup(&mark.text, text));
    l->marks[l->n_marks++] = mark;
    return LK_OK;
}

enum lk_status lk_chart_note(struct lk_chart *c, const char *fmt, ...)
{
    enum lk_status st;
    va_list ap;

    LK_PASS(lk_array_grow(&c->notes, &c->notes_capacity, c->n_notes + 1, sizeof(char *)));
    va_start(ap, fmt);
    st = lk_vasprintf(&c->notes[c->n_notes], fmt, ap);
    va_end(ap);
    c->n_notes += st == LK_OK;
    return st;
}

enum lk_status lk_chart_say(struct lk_chart *c, const char *fmt, ...)
{
    enum lk_status st;
    va_list ap;
    char *says = NULL;

    va_start(ap, fmt);
    st = lk_vasprintf(&says, fmt, ap);
    va_end(ap);
    if (st == LK_OK) {
        free(c->says);
        c->says = says;
    }
    return st;
}

/* Return the panel's next layer in the key from *at on, which is set behind it; NULL: none. */
static const struct lk_chart_layer *next_in_key(const struct lk_chart_panel *p, size_t *at)
{
    while (*at < p->n_layers)
        if (p->layers[(*at)++]->label)
            return p->layers[*at - 1];
    return NULL;
}

static bool same_key(const struct lk_chart_panel *a, const struct lk_chart_panel *b)
{
    const struct lk_chart_layer *x, *y;

    for (size_t i = 0, k = 0;;) {
        x = next_in_key(a, &i);
        y = next_in_key(b, &k);
        if (!x || !y)
            return x == y;
        if (strcmp(x->label, y->label) != 0 || x->kind != y->kind || x->color != y->color ||
            x->style != y->style)
            return false;
    }
}

void lk_chart_share_key(struct lk_chart *c)
{
    for (size_t i = 0; i + 1 < c->n_panels; i++)
        if (!same_key(c->panels[i], c->panels[c->n_panels - 1]))
            return;
    for (size_t i = 0; i + 1 < c->n_panels; i++)
        c->panels[i]->key = false;
}
