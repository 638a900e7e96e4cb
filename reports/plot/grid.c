/* Chart the settings of one forecast on as many GPUs; see grid.h. Axes first, then each chart. */
#include "reports/plot/grid.h"

#include "base/array.h"
#include "facts/forecast_answer.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most panels, values of an axis, and settings that are listed. */
enum { PANELS_MAX = 4, LISTS_MAX = 2, VALUES_MAX = 24, SETTINGS_MAX = 7 };

/* ---- Axes ---- */

enum axis { CAP, ACCUMULATION, BATCH, AXES };

static const struct {
    const char *label;
    enum lk_dimension dim;
} axes[AXES] = {
    [CAP] = {"bucket cap", LK_DIM_BYTES},
    [ACCUMULATION] = {"accumulation", LK_DIM_COUNT},
    [BATCH] = {"local batch", LK_DIM_COUNT},
};

static double value_on(enum axis a, const struct lk_forecast_point *p)
{
    return a == CAP            ? (double)p->config.cap_bytes
           : a == ACCUMULATION ? p->config.accumulation
                               : p->config.local_batch;
}

/* The different values of something over points, ascending. */
struct values {
    double v[VALUES_MAX];
    size_t n, left;
};

static void add_value(struct values *s, double v)
{
    size_t at = 0;

    while (at < s->n && s->v[at] < v)
        at++;
    if (at < s->n && s->v[at] == v)
        return;
    if (s->n == VALUES_MAX) {
        s->left++;
        return;
    }
    memmove(s->v + at + 1, s->v + at, (s->n - at) * sizeof *s->v);
    s->v[at] = v;
    s->n++;
}

static size_t index_of(const struct values *s, double v)
{
    size_t at = 0;

    while (at < s->n && s->v[at] != v)
        at++;
    return at;
}

static bool is_known(const struct lk_forecast_point *p, int gpus)
{
    return p->config.world_size == gpus && isfinite(p->throughput_per_s);
}

static struct values values_at(const struct lk_forecast *f, int gpus, enum axis a)
{
    struct values s = {0};

    for (size_t i = 0; i < f->n_points; i++)
        if (is_known(&f->points[i], gpus))
            add_value(&s, value_on(a, &f->points[i]));
    return s;
}

static void name_value(enum axis a, double v, char *out, size_t size)
{
    if (a == CAP && v == 0)
        snprintf(out, size, "not known");
    else if (a == CAP)
        lk_units_round(LK_DIM_BYTES, v, v, out, size);
    else
        snprintf(out, size, "%.0f", v);
}

/* ---- Counts of GPUs ---- */

/* List the counts of GPUs that have several settings. */
static struct values counts(const struct lk_forecast *f)
{
    struct values all = {0}, out = {0};

    for (size_t i = 0; i < f->n_points; i++)
        if (isfinite(f->points[i].throughput_per_s))
            add_value(&all, f->points[i].config.world_size);
    for (size_t k = 0; k < all.n; k++) {
        size_t n = 0;

        for (size_t i = 0; i < f->n_points; i++)
            n += is_known(&f->points[i], (int)all.v[k]);
        if (n > 1)
            add_value(&out, all.v[k]);
    }
    return out;
}

/* Return the point of most throughput among those that fit into memory. */
static const struct lk_forecast_point *best_at(const struct lk_forecast *f, int gpus)
{
    const struct lk_forecast_point *best = NULL;

    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_forecast_point *p = &f->points[i];

        if (!is_known(p, gpus) || (p->plan.known && !strcmp(p->plan.memory_fit, "no")))
            continue;
        if (p->gain.known && p->gain.verdict == LK_VERDICT_BEST)
            return p;
        if (!best || p->throughput_per_s > best->throughput_per_s)
            best = p;
    }
    return best;
}

typedef enum lk_status (*panel_fn)(struct lk_chart *c, const struct lk_forecast *f, int gpus);

/* Make a chart with a panel for each count of GPUs. */
static enum lk_status make(struct lk_chart *out, const struct lk_forecast *f, const char *name,
                           const char *title, size_t most, panel_fn put)
{
    enum lk_status st = LK_OK;
    struct lk_chart c = {0};
    struct values gpus = counts(f);

    if (!gpus.n)
        return lk_fail(LK_EEVIDENCE, "%s: no count of GPUs has several settings", f->cluster);
    LK_TRY(lk_chart_init(&c, name, title));
    for (size_t i = gpus.n > most ? gpus.n - most : 0; i < gpus.n; i++)
        LK_TRY(put(&c, f, (int)gpus.v[i]));
    if (gpus.n > most)
        LK_TRY(lk_chart_note(&c, "%zu smaller counts of GPUs are not drawn",
                             gpus.n - most + gpus.left));
    c.columns = c.n_panels > 1 && most > LISTS_MAX ? 2 : 1;
    lk_chart_share_key(&c);
    LK_TRY(lk_chart_finish(&c));
    *out = c;
    c = (struct lk_chart){0};
out:
    lk_chart_fini(&c);
    return st;
}

static enum lk_status begin_panel(struct lk_chart *c, int gpus, struct lk_chart_panel **out)
{
    char title[48];

    snprintf(title, sizeof title, "%d GPU%s", gpus, gpus == 1 ? "" : "s");
    return lk_chart_panel(c, title, out);
}

/* ---- Gains ---- */

static int by_throughput(const void *a, const void *b)
{
    const struct lk_forecast_point *const *x = a, *const *y = b;

    return LK_ORDER((*y)->throughput_per_s, (*x)->throughput_per_s);
}

/* Draw a setting in the next row: its throughput with the interval, filled if it is the best. */
static enum lk_status put_setting(const struct lk_forecast *f, const struct lk_forecast_point *p,
                                  struct lk_chart_panel *panel, struct lk_chart_layer *bar,
                                  struct lk_chart_layer *points)
{
    double row = (double)panel->y.n_ticks, samples = p->throughput_per_s * p->step_s;
    char words[LK_ANSWER_WORDS], text[64];

    lk_answer_config(f, p, words, sizeof words);
    LK_PASS(lk_chart_tick(&panel->y, row, *words ? words : "as it is"));
    if (p->gain.known && isfinite(p->gain.ratio))
        snprintf(text, sizeof text, "%+.1f %% (%+.1f to %+.1f)", 100 * (p->gain.ratio - 1),
                 100 * (p->gain.lo - 1), 100 * (p->gain.hi - 1));
    else
        lk_answer_number(p->throughput_per_s, text, sizeof text);
    LK_PASS(lk_chart_mark(bar, (struct lk_chart_mark){.x = samples / p->step_hi_s,
                                                      .x2 = samples / p->step_lo_s,
                                                      .lo = row - 0.12,
                                                      .hi = row + 0.12,
                                                      .text = text}));
    panel->x.to = fmax(panel->x.to, 1.45 * samples / p->step_lo_s); /* room for the text */
    return lk_chart_mark(points, (struct lk_chart_mark){.x = p->throughput_per_s, .y = row});
}

static enum lk_status put_gains(struct lk_chart *c, const struct lk_forecast *f, int gpus)
{
    enum lk_status st = LK_OK;
    const struct lk_forecast_point **v = NULL, *best = best_at(f, gpus);
    struct lk_chart_panel *p;
    struct lk_chart_layer *bar, *other, *top;
    char interval[48];
    size_t n = 0;

    LK_TRY(lk_alloc(&v, f->n_points, sizeof(struct lk_forecast_point *)));
    for (size_t i = 0; i < f->n_points; i++)
        if (is_known(&f->points[i], gpus))
            v[n++] = &f->points[i];
    qsort(v, n, sizeof(struct lk_forecast_point *), by_throughput);
    LK_TRY(begin_panel(c, gpus, &p));
    LK_TRY(lk_chart_axis(&p->x, "throughput, samples/s", LK_CHART_LINEAR, LK_DIM_COUNT));
    LK_TRY(lk_chart_axis(&p->y, "", LK_CHART_NAMES, LK_DIM_NONE));
    p->x.from = p->x.to = 0;
    snprintf(interval, sizeof interval, "%.3g %% interval", 100 * f->level);
    LK_TRY(lk_chart_layer(p, LK_CHART_BOXES, LK_CHART_SKY, interval, &bar));
    LK_TRY(lk_chart_layer(p, LK_CHART_POINTS, LK_CHART_BLUE, "forecast", &other));
    LK_TRY(lk_chart_layer(p, LK_CHART_POINTS, LK_CHART_RED, "best", &top));
    other->style = LK_CHART_DASHED;
    bar->place = LK_CHART_RIGHT;
    for (size_t i = 1; i < n; i++) /* the best first, by whatever it was chosen */
        if (v[i] == best) {
            memmove(v + 1, v, i * sizeof(struct lk_forecast_point *));
            v[0] = best;
        }
    for (size_t i = 0; i < n && i < SETTINGS_MAX; i++)
        LK_TRY(put_setting(f, v[i], p, bar, v[i] == best ? top : other));
    if (n > SETTINGS_MAX)
        LK_TRY(lk_chart_note(
            c, "%d GPUs: of %zu settings the best and the %d of most throughput are listed", gpus,
            n, SETTINGS_MAX - 1));
out:
    free(v);
    return st;
}

enum lk_status lk_chart_gains(struct lk_chart *out, const struct lk_forecast *f)
{
    enum lk_status st = make(out, f, "settings", "Which setting is best", LISTS_MAX, put_gains);
    bool gains = false, one = true;

    LK_PASS(st);
    for (size_t i = 0; i < f->n_points; i++) {
        gains |= f->points[i].gain.known && isfinite(f->points[i].gain.ratio);
        one &= f->points[i].config.world_size == f->points[0].config.world_size;
    }
    if (one)
        st = lk_chart_note(out, "all settings have %d GPU%s: there is no curve of scaling",
                           f->points[0].config.world_size,
                           f->points[0].config.world_size == 1 ? "" : "s");
    if (st == LK_OK)
        st = gains ? lk_chart_note(out, "numbers: gain of throughput against the current setting")
                   : LK_OK;
    if (st != LK_OK)
        lk_chart_fini(out);
    return st;
}

/* ---- Heat map ---- */

/* Find two axes that vary; return false if there are none. */
static bool two_axes(const struct lk_forecast *f, int gpus, enum axis *x, enum axis *y)
{
    static const enum axis pairs[][2] = {{CAP, ACCUMULATION}, {CAP, BATCH}, {ACCUMULATION, BATCH}};

    for (size_t i = 0; i < LK_COUNT(pairs); i++) {
        *x = pairs[i][0];
        *y = pairs[i][1];
        if (values_at(f, gpus, *x).n > 1 && values_at(f, gpus, *y).n > 1)
            return true;
    }
    return false;
}

/* A cell: the best of the other axes. */
struct cell {
    const struct lk_forecast_point *p;
    size_t n;
};

static struct cell cell_at(const struct lk_forecast *f, int gpus, enum axis x, double vx,
                           enum axis y, double vy)
{
    struct cell c = {0};

    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_forecast_point *p = &f->points[i];

        if (!is_known(p, gpus) || value_on(x, p) != vx || value_on(y, p) != vy)
            continue;
        c.n++;
        if (!c.p || p->throughput_per_s > c.p->throughput_per_s)
            c.p = p;
    }
    return c;
}

static enum lk_status put_cell(struct lk_chart_layer *l, const struct lk_forecast_point *p,
                               double column, double row, double share, bool best)
{
    char text[64], number[32];

    if (p->gain.known && isfinite(p->gain.ratio))
        snprintf(number, sizeof number, "%+.1f %%", 100 * (p->gain.ratio - 1));
    else
        lk_answer_number(p->throughput_per_s, number, sizeof number);
    snprintf(text, sizeof text, "%s%s", best ? "\xe2\x98\x85 " : "", number); /* U+2605 */
    return lk_chart_mark(l, (struct lk_chart_mark){.x = column - 0.5,
                                                   .x2 = column + 0.5,
                                                   .lo = row - 0.5,
                                                   .hi = row + 0.5,
                                                   .share = share,
                                                   .text = text});
}

/* Say that a mark stands for several settings, where one does. */
static enum lk_status note_joined(struct lk_chart *c, int gpus, const char *mark, size_t joined)
{
    if (joined < 2)
        return LK_OK;
    return lk_chart_note(c, "%d GPUs: a %s shows the fastest of up to %zu settings of other axes",
                         gpus, mark, joined);
}

static enum lk_status put_axis(struct lk_chart_axis *to, enum axis a, const struct values *v)
{
    char name[40];

    LK_PASS(lk_chart_axis(to, axes[a].label, LK_CHART_NAMES, axes[a].dim));
    for (size_t i = 0; i < v->n; i++) {
        name_value(a, v->v[i], name, sizeof name);
        LK_PASS(lk_chart_tick(to, (double)i, name));
    }
    return LK_OK;
}

static enum lk_status put_heat(struct lk_chart *c, const struct lk_forecast *f, int gpus)
{
    const struct lk_forecast_point *best = best_at(f, gpus);
    double least = INFINITY, most = 0;
    struct lk_chart_panel *p;
    struct lk_chart_layer *l;
    struct values vx, vy;
    enum axis x, y;
    size_t joined = 0;

    if (!two_axes(f, gpus, &x, &y))
        return LK_OK;
    vx = values_at(f, gpus, x);
    vy = values_at(f, gpus, y);
    LK_PASS(begin_panel(c, gpus, &p));
    p->key = false;
    LK_PASS(put_axis(&p->x, x, &vx));
    LK_PASS(put_axis(&p->y, y, &vy));
    LK_PASS(lk_chart_layer(p, LK_CHART_BOXES, LK_CHART_BLUE, NULL, &l));
    l->heat = true;
    l->place = LK_CHART_ON;
    for (size_t k = 0; k < vx.n * vy.n; k++) {
        struct cell cell = cell_at(f, gpus, x, vx.v[k % vx.n], y, vy.v[k / vx.n]);

        joined = cell.n > joined ? cell.n : joined;
        least = cell.p ? fmin(least, cell.p->throughput_per_s) : least;
        most = cell.p ? fmax(most, cell.p->throughput_per_s) : most;
    }
    for (size_t k = 0; k < vx.n * vy.n; k++) {
        struct cell cell = cell_at(f, gpus, x, vx.v[k % vx.n], y, vy.v[k / vx.n]);
        double room = most - least;

        if (cell.p)
            LK_PASS(put_cell(l, cell.p, (double)(k % vx.n), (double)(k / vx.n),
                             room > 0 ? (cell.p->throughput_per_s - least) / room : 0.5,
                             best && value_on(x, best) == vx.v[k % vx.n] &&
                                 value_on(y, best) == vy.v[k / vx.n]));
    }
    LK_PASS(note_joined(c, gpus, "cell", joined));
    if (vx.left + vy.left)
        LK_PASS(lk_chart_note(c, "%d GPUs: more than %d values of an axis are not drawn", gpus,
                              VALUES_MAX));
    return LK_OK;
}

enum lk_status lk_chart_heat_map(struct lk_chart *out, const struct lk_forecast *f)
{
    return make(out, f, "grid", "Throughput by two settings: bright is fast, \xe2\x98\x85 is best",
                PANELS_MAX, put_heat);
}

/* ---- Lines ---- */

static enum axis first_axis(const struct lk_forecast *f, int gpus)
{
    enum axis a = 0;

    while (a < AXES && values_at(f, gpus, a).n < 2)
        a++;
    return a;
}

/* Return true if what is known on so many GPUs is of a preset. */
static bool is_preset(const struct lk_forecast *f, int gpus)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (is_known(&f->points[i], gpus))
            return f->points[i].evidence == LK_EVIDENCE_PRESET;
    return false;
}

/* Draw throughput over an axis for one value of the second; AXES: for the fastest of all. Count in
 * *joined the most settings that a point stands for. */
static enum lk_status put_curve(struct lk_chart_panel *p, const struct lk_forecast *f, int gpus,
                                enum axis x, enum axis y, double vy, size_t number, size_t *joined)
{
    struct values vx = values_at(f, gpus, x);
    struct lk_chart_layer *line, *points;
    char label[96] = "forecast", name[40];

    if (y < AXES) {
        name_value(y, vy, name, sizeof name);
        snprintf(label, sizeof label, "%s %s", axes[y].label, name);
    }
    LK_PASS(
        lk_chart_layer(p, LK_CHART_LINE, lk_chart_curves[number % LK_CHART_CURVES], label, &line));
    LK_PASS(lk_chart_layer(p, LK_CHART_POINTS, line->color, NULL, &points));
    line->style = points->style = is_preset(f, gpus) ? LK_CHART_DASHED : LK_CHART_SOLID;
    for (size_t i = 0; i < vx.n; i++) {
        double at = (double)i + 0.05 * (double)number; /* so that bars do not cover each other */

        struct cell cell = cell_at(f, gpus, x, vx.v[i], y < AXES ? y : x, y < AXES ? vy : vx.v[i]);
        double samples;

        if (!cell.p)
            continue;
        *joined = cell.n > *joined ? cell.n : *joined;
        samples = cell.p->throughput_per_s * cell.p->step_s;
        LK_PASS(
            lk_chart_mark(line, (struct lk_chart_mark){.x = at, .y = cell.p->throughput_per_s}));
        LK_PASS(lk_chart_mark(points, (struct lk_chart_mark){.x = at,
                                                             .y = cell.p->throughput_per_s,
                                                             .lo = samples / cell.p->step_hi_s,
                                                             .hi = samples / cell.p->step_lo_s}));
    }
    return LK_OK;
}

static enum lk_status put_lines(struct lk_chart *c, const struct lk_forecast *f, int gpus)
{
    enum axis x = first_axis(f, gpus), y = AXES, a, b;
    const struct lk_forecast_point *best = best_at(f, gpus);
    struct lk_chart_panel *p;
    struct lk_chart_layer *top;
    struct values vx, vy = {.n = 1};
    size_t joined = 0;

    if (x == AXES)
        return LK_OK;
    if (two_axes(f, gpus, &a, &b)) {
        x = a;
        y = b;
        vy = values_at(f, gpus, y);
    }
    vx = values_at(f, gpus, x);
    LK_PASS(begin_panel(c, gpus, &p));
    LK_PASS(put_axis(&p->x, x, &vx));
    LK_PASS(lk_chart_axis(&p->y, "samples/s", LK_CHART_LINEAR, LK_DIM_COUNT));
    for (size_t k = 0; k < vy.n && k < LK_CHART_CURVES; k++)
        LK_PASS(put_curve(p, f, gpus, x, y, vy.v[k], k, &joined));
    LK_PASS(note_joined(c, gpus, "point", joined));
    if (vy.n > LK_CHART_CURVES)
        LK_PASS(lk_chart_note(c, "%d GPUs: %zu further values of %s are not drawn", gpus,
                              vy.n - LK_CHART_CURVES, axes[y].label));
    if (!best)
        return LK_OK;
    LK_PASS(lk_chart_layer(p, LK_CHART_POINTS, LK_CHART_INK, NULL, &top));
    return lk_chart_mark(top,
                         (struct lk_chart_mark){
                             .x = (double)index_of(&vx, value_on(x, best)) +
                                  (y < AXES ? 0.05 * (double)index_of(&vy, value_on(y, best)) : 0),
                             .y = best->throughput_per_s,
                             .text = (char[]){"best"}});
}

enum lk_status lk_chart_whatif(struct lk_chart *out, const struct lk_forecast *f)
{
    enum lk_status st = make(out, f, "whatif", "Throughput by setting", PANELS_MAX, put_lines);
    bool preset = false, chosen = false;

    LK_PASS(st);
    for (size_t i = 0; i < f->n_points; i++) {
        preset |= f->points[i].evidence == LK_EVIDENCE_PRESET;
        chosen |= f->points[i].gain.known && f->points[i].gain.verdict == LK_VERDICT_BEST;
    }
    if (chosen)
        st = lk_chart_note(out, "best: the current setting, or one that is surely better");
    if (st == LK_OK)
        st = preset
                 ? lk_chart_note(out, "dashed and hollow: of a preset, nothing of it was measured")
                 : LK_OK;
    if (st != LK_OK)
        lk_chart_fini(out);
    return st;
}

/* ---- Local batch ---- */

/* Draw time or memory over the local batch on so many GPUs. */
static enum lk_status put_batch(struct lk_chart_panel *p, const struct lk_forecast *f, int gpus,
                                bool memory, size_t number)
{
    struct values v = values_at(f, gpus, BATCH);
    enum lk_chart_color color = lk_chart_curves[number % LK_CHART_CURVES];
    struct lk_chart_layer *line, *fits, *not ;
    char label[48];

    snprintf(label, sizeof label, "%d GPU%s", gpus, gpus == 1 ? "" : "s");
    LK_PASS(lk_chart_layer(p, LK_CHART_LINE, color, label, &line));
    LK_PASS(lk_chart_layer(p, LK_CHART_POINTS, color, NULL, &fits));
    LK_PASS(lk_chart_layer(p, LK_CHART_POINTS, color, NULL, &not ));
    not ->style = LK_CHART_DASHED;
    for (size_t i = 0; i < v.n; i++) {
        struct cell cell = cell_at(f, gpus, BATCH, v.v[i], BATCH, v.v[i]);
        const struct lk_plan *q = &cell.p->plan;
        struct lk_chart_mark mark = {.x = v.v[i],
                                     .y = memory ? q->memory_bytes : cell.p->step_s,
                                     .lo = memory ? q->memory_lo_bytes : cell.p->step_lo_s,
                                     .hi = memory ? q->memory_hi_bytes : cell.p->step_hi_s};

        if (isnan(mark.y) || (memory && !q->known))
            continue;
        LK_PASS(lk_chart_mark(line, mark));
        LK_PASS(lk_chart_mark(q->known && !strcmp(q->memory_fit, "no") ? not : fits, mark));
    }
    return LK_OK;
}

static bool has_memory(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (f->points[i].plan.known && isfinite(f->points[i].plan.memory_bytes))
            return true;
    return false;
}

static enum lk_status put_batches(struct lk_chart *c, const struct lk_forecast *f)
{
    struct values gpus = counts(f);
    bool memory = has_memory(f);

    for (int m = 0; m < (memory ? 2 : 1); m++) {
        struct lk_chart_panel *p;
        size_t n = 0;

        LK_PASS(lk_chart_panel(c, NULL, &p));
        LK_PASS(lk_chart_axis(&p->x, "local batch", LK_CHART_LOG2, LK_DIM_COUNT));
        LK_PASS(lk_chart_axis(&p->y, m ? "memory of a GPU" : "time of a step", LK_CHART_LINEAR,
                              m ? LK_DIM_BYTES : LK_DIM_TIME));
        p->y.from = 0;
        for (size_t i = 0; i < gpus.n; i++)
            if (values_at(f, (int)gpus.v[i], BATCH).n > 1 && n < LK_CHART_CURVES)
                LK_PASS(put_batch(p, f, (int)gpus.v[i], m, n++));
    }
    if (!memory)
        LK_PASS(lk_chart_note(c, "the memory is not known"));
    else
        LK_PASS(lk_chart_note(c, "hollow: does not fit into the GPU's memory"));
    if (gpus.n > LK_CHART_CURVES)
        LK_PASS(lk_chart_note(c, "%zu further counts of GPUs are not drawn",
                              gpus.n - LK_CHART_CURVES + gpus.left));
    c->columns = memory ? 2 : 1;
    return LK_OK;
}

enum lk_status lk_chart_batch(struct lk_chart *out, const struct lk_forecast *f)
{
    enum lk_status st = LK_OK;
    struct values gpus = counts(f);
    struct lk_chart c = {0};
    size_t varied = 0;

    for (size_t i = 0; i < gpus.n; i++)
        varied += values_at(f, (int)gpus.v[i], BATCH).n > 1;
    if (!varied)
        return lk_fail(LK_EEVIDENCE, "%s: the local batch is the same everywhere", f->cluster);
    LK_TRY(lk_chart_init(&c, "batch", "Time and memory by local batch"));
    LK_TRY(put_batches(&c, f));
    LK_TRY(lk_chart_finish(&c));
    *out = c;
    c = (struct lk_chart){0};
out:
    lk_chart_fini(&c);
    return st;
}
