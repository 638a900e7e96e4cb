/* Chart the ranks of one run; see ranks.h. */
#include "reports/plot/ranks.h"

#include "base/array.h"
#include "base/units.h"
#include "base/words.h"
#include "facts/run_facts.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Timeline: boxes ---- */

/* X(class, text, colour, lane: 0 above, 1 below): kinds of boxes. */
#define CLASS_LIST(X)                                                                              \
    X(CLASS_INPUT, "input wait", LK_CHART_PINK, 0)                                                 \
    X(CLASS_FORWARD, "forward", LK_CHART_SKY, 0)                                                   \
    X(CLASS_BACKWARD, "backward", LK_CHART_BLUE, 0)                                                \
    X(CLASS_OPTIMIZER, "optimizer", LK_CHART_GREEN, 0)                                             \
    X(CLASS_WAIT, "collective: waiting for the last rank", LK_CHART_GRAY, 1)                       \
    X(CLASS_WIRE, "collective: moving bytes", LK_CHART_RED, 1)

enum box_class { CLASS_LIST(LK_WORD_VALUE) CLASS_COUNT };

static const struct {
    const char *text;
    enum lk_chart_color color;
    int lane;
} classes[CLASS_COUNT] = {
#define CLASS_ROW_(class, text, color, lane) [class] = {text, color, lane},
    CLASS_LIST(CLASS_ROW_)
#undef CLASS_ROW_
};

/* The most ranks of a timeline: more lanes would be lines. */
enum { LANES_MAX = 40 };

struct box {
    enum box_class class;
    size_t lane;
    uint64_t start_ns, end_ns; /* rank 0's clock */
};

/* When the last rank arrived at a collective. */
struct arrival {
    uint32_t seq;
    uint64_t last_ns;
};

struct boxes {
    struct box *v;
    size_t n, capacity;
    struct arrival *arrivals; /* by seq */
    size_t n_arrivals, arrivals_capacity;
};

static enum lk_status add_box(struct boxes *b, enum box_class class, size_t lane, uint64_t start_ns,
                              uint64_t end_ns)
{
    if (end_ns <= start_ns)
        return LK_OK;
    LK_PASS(lk_array_grow(&b->v, &b->capacity, b->n + 1, sizeof *b->v));
    b->v[b->n++] = (struct box){class, lane, start_ns, end_ns};
    return LK_OK;
}

static int by_seq(const void *a, const void *b)
{
    const struct arrival *x = a, *y = b;
    int order = LK_ORDER(x->seq, y->seq);

    return order ? order : LK_ORDER(y->last_ns, x->last_ns);
}

/* List when the last of all ranks arrived at each collective of a step. */
static enum lk_status find_arrivals(const struct lk_trace *traces, size_t n, int64_t step,
                                    struct boxes *b)
{
    size_t kept = 0;

    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < traces[r].n_spans; i++) {
            const struct lk_span *s = &traces[r].spans[i].span;

            if (s->kind != LK_SPAN_COLLECTIVE || s->step != (uint32_t)step)
                continue;
            LK_PASS(lk_array_grow(&b->arrivals, &b->arrivals_capacity, b->n_arrivals + 1,
                                  sizeof *b->arrivals));
            b->arrivals[b->n_arrivals++] =
                (struct arrival){s->seq, lk_clock_apply(&traces[r].clock, s->start_ns)};
        }
    if (b->n_arrivals)
        qsort(b->arrivals, b->n_arrivals, sizeof *b->arrivals, by_seq);
    for (size_t i = 0; i < b->n_arrivals; i++)
        if (!kept || b->arrivals[kept - 1].seq != b->arrivals[i].seq)
            b->arrivals[kept++] = b->arrivals[i];
    b->n_arrivals = kept;
    return LK_OK;
}

static uint64_t last_arrival_ns(const struct boxes *b, uint32_t seq)
{
    size_t at;

    LK_BISECT(at, b->n_arrivals, b->arrivals[at].seq < seq);
    return at < b->n_arrivals && b->arrivals[at].seq == seq ? b->arrivals[at].last_ns : 0;
}

/* Return true for spans that prepare a later step whose number they carry. */
static bool is_ahead(const struct lk_trace *t, const struct lk_trace_span *s)
{
    return s->track < t->n_tracks && (t->tracks[s->track].kind == LK_TRACK_LOADER ||
                                      t->tracks[s->track].kind == LK_TRACK_COPY);
}

static enum lk_status add_span(struct boxes *b, const struct lk_trace *t, size_t lane,
                               const struct lk_span *s)
{
    uint64_t start = lk_clock_apply(&t->clock, s->start_ns);
    uint64_t end = lk_clock_apply(&t->clock, s->end_ns), last;

    switch (s->kind) {
    case LK_SPAN_INPUT:
        return add_box(b, CLASS_INPUT, lane, start, end);
    case LK_SPAN_FORWARD:
        return add_box(b, CLASS_FORWARD, lane, start, end);
    case LK_SPAN_BACKWARD:
        return add_box(b, CLASS_BACKWARD, lane, start, end);
    case LK_SPAN_OPTIMIZER:
        return add_box(b, CLASS_OPTIMIZER, lane, start, end);
    case LK_SPAN_COLLECTIVE:
        last = last_arrival_ns(b, s->seq);
        last = last < start ? start : last > end ? end : last;
        LK_PASS(add_box(b, CLASS_WAIT, lane, start, last));
        return add_box(b, CLASS_WIRE, lane, last, end);
    default:
        return LK_OK;
    }
}

static enum lk_status collect(const struct lk_trace *traces, size_t n, size_t lanes, int64_t step,
                              struct boxes *b)
{
    LK_PASS(find_arrivals(traces, n, step, b));
    for (size_t r = 0; r < lanes; r++)
        for (size_t i = 0; i < traces[r].n_spans; i++)
            if (traces[r].spans[i].span.step == (uint32_t)step &&
                !is_ahead(&traces[r], &traces[r].spans[i]))
                LK_PASS(add_span(b, &traces[r], r, &traces[r].spans[i].span));
    return b->n ? LK_OK : lk_fail(LK_EEVIDENCE, "the traces have no step %lld", (long long)step);
}

/* ---- Timeline: the step of median length ---- */

struct step_length {
    double s;
    int64_t step;
};

static int by_length(const void *a, const void *b)
{
    const struct step_length *x = a, *y = b;

    return LK_ORDER(x->s, y->s);
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

/* ---- Timeline: the chart ---- */

static enum lk_status put_boxes(struct lk_chart_panel *p, const struct boxes *b)
{
    uint64_t zero = UINT64_MAX;

    for (size_t i = 0; i < b->n; i++)
        zero = b->v[i].start_ns < zero ? b->v[i].start_ns : zero;
    for (int c = 0; c < CLASS_COUNT; c++) {
        struct lk_chart_layer *l = NULL;

        for (size_t i = 0; i < b->n; i++) {
            const struct box *x = &b->v[i];
            double top = (double)x->lane - 0.40 + (classes[c].lane ? 0.41 : 0.0);

            if ((int)x->class != c)
                continue;
            if (!l)
                LK_PASS(lk_chart_layer(p, LK_CHART_BOXES, classes[c].color, classes[c].text, &l));
            LK_PASS(lk_chart_mark(l, (struct lk_chart_mark){.x = lk_s_from_ns(x->start_ns - zero),
                                                            .x2 = lk_s_from_ns(x->end_ns - zero),
                                                            .lo = top,
                                                            .hi = top + 0.39}));
        }
    }
    return LK_OK;
}

static enum lk_status name_lanes(struct lk_chart_panel *p, const struct lk_trace *traces, size_t n)
{
    bool hosts = false;

    for (size_t r = 1; r < n; r++)
        hosts |= traces[r].info.host && traces[0].info.host &&
                 strcmp(traces[r].info.host, traces[0].info.host) != 0;
    for (size_t r = 0; r < n; r++) {
        char name[96];

        if (hosts)
            snprintf(name, sizeof name, "rank %d, %.60s", traces[r].info.rank, traces[r].info.host);
        else
            snprintf(name, sizeof name, "rank %d", traces[r].info.rank);
        LK_PASS(lk_chart_tick(&p->y, (double)r, name));
    }
    return LK_OK;
}

enum lk_status lk_chart_timeline(struct lk_chart *out, const struct lk_trace *traces, size_t n,
                                 int64_t step)
{
    enum lk_status st = LK_OK;
    struct lk_chart c = {0};
    struct lk_chart_panel *p;
    struct boxes boxes = {0};
    size_t lanes = n < LANES_MAX ? n : LANES_MAX;
    char title[64];

    if (!n)
        return lk_fail(LK_EEVIDENCE, "no traces to draw");
    if (step < 0)
        LK_TRY(median_step(&traces[0], &step));
    LK_TRY(collect(traces, n, lanes, step, &boxes));
    snprintf(title, sizeof title, "Step %lld of every rank", (long long)step);
    LK_TRY(lk_chart_init(&c, "timeline", title));
    LK_TRY(lk_chart_panel(&c, NULL, &p));
    LK_TRY(lk_chart_axis(&p->x, "time from the start of the step", LK_CHART_LINEAR, LK_DIM_TIME));
    LK_TRY(lk_chart_axis(&p->y, "", LK_CHART_NAMES, LK_DIM_NONE));
    p->x.from = 0;
    LK_TRY(name_lanes(p, traces, lanes));
    LK_TRY(put_boxes(p, &boxes));
    if (lanes < n)
        LK_TRY(lk_chart_note(&c, "the first %zu of %zu ranks are drawn", lanes, n));
    LK_TRY(lk_chart_say(&c, "step %lld on %zu ranks", (long long)step, n));
    LK_TRY(lk_chart_finish(&c));
    *out = c;
    c = (struct lk_chart){0};
out:
    lk_chart_fini(&c);
    free(boxes.arrivals);
    free(boxes.v);
    return st;
}

/* ---- Stragglers ---- */

/* The most rows and columns of the heat map. */
enum { ROWS_MAX = 128, COLUMNS_MAX = 200 };

/* The map: each cell joins `tall` ranks and `wide` steps. */
struct map {
    const struct lk_step_times *r;
    size_t tall, wide, rows, columns;
    double least, most;
};

/* Return the most of a cell; NaN: not known. */
static double cell(const struct map *m, size_t row, size_t column)
{
    double most = NAN;

    for (size_t k = row * m->tall; k < (row + 1) * m->tall && k < m->r->n_ranks; k++)
        for (size_t i = column * m->wide; i < (column + 1) * m->wide && i < m->r->n_steps; i++)
            most = fmax(most, m->r->own_s[k * m->r->n_steps + i]);
    return most;
}

/* Write "rank 8 to 15, node-1": the ranks of a row, and their host where it is one. */
static void row_name(const struct map *m, size_t row, char *out, size_t size)
{
    size_t first = row * m->tall, last = first + m->tall - 1;
    char to[16] = "";

    last = last < m->r->n_ranks ? last : m->r->n_ranks - 1;
    if (last > first)
        snprintf(to, sizeof to, " to %d", m->r->ranks[last]);
    if (strcmp(m->r->hosts[first], LK_HOST_UNKNOWN) != 0 &&
        !strcmp(m->r->hosts[first], m->r->hosts[last]))
        snprintf(out, size, "rank %d%s, %.60s", m->r->ranks[first], to, m->r->hosts[first]);
    else
        snprintf(out, size, "rank %d%s", m->r->ranks[first], to);
}

static enum lk_status put_cells(struct map *m, struct lk_chart_panel *p)
{
    struct lk_chart_layer *l;

    LK_PASS(lk_chart_layer(p, LK_CHART_BOXES, LK_CHART_BLUE, NULL, &l));
    l->heat = true;
    for (size_t row = 0; row < m->rows; row++)
        for (size_t column = 0; column < m->columns; column++) {
            double s = cell(m, row, column), room = m->most - m->least;
            double from = (double)m->r->steps[column * m->wide];
            size_t next = (column + 1) * m->wide;
            double to = next < m->r->n_steps ? m->r->steps[next]
                                             : (double)m->r->steps[m->r->n_steps - 1] + 1;

            if (!isnan(s))
                LK_PASS(lk_chart_mark(
                    l, (struct lk_chart_mark){.x = from - 0.5,
                                              .x2 = to - 0.5,
                                              .lo = (double)row - 0.5,
                                              .hi = (double)row + 0.5,
                                              .share = room > 0 ? (s - m->least) / room : 0}));
        }
    return LK_OK;
}

static enum lk_status put_map(struct lk_chart *c, struct map *m)
{
    struct lk_chart_panel *p;
    char name[96], least[32], most[32];

    LK_PASS(lk_chart_panel(c, NULL, &p));
    p->key = false;
    LK_PASS(lk_chart_axis(&p->x, "step", LK_CHART_LINEAR, LK_DIM_NONE));
    LK_PASS(lk_chart_axis(&p->y, "", LK_CHART_NAMES, LK_DIM_NONE));
    p->x.from = (double)m->r->steps[0] - 0.5;
    p->x.to = (double)m->r->steps[m->r->n_steps - 1] + 0.5;
    for (size_t row = 0; row < m->rows; row++) {
        row_name(m, row, name, sizeof name);
        LK_PASS(lk_chart_tick(&p->y, (double)row, name));
    }
    LK_PASS(put_cells(m, p));
    LK_PASS(lk_chart_note(c, "dark: %s, bright: %s of a rank's own work, input and gaps in a step",
                          lk_units_format(LK_DIM_TIME, m->least, least, sizeof least),
                          lk_units_format(LK_DIM_TIME, m->most, most, sizeof most)));
    if (m->tall > 1 || m->wide > 1)
        LK_PASS(lk_chart_note(c, "a cell shows the most of %zu rank%s and %zu step%s", m->tall,
                              m->tall > 1 ? "s" : "", m->wide, m->wide > 1 ? "s" : ""));
    return LK_OK;
}

enum lk_status lk_chart_stragglers(struct lk_chart *out, const struct lk_step_times *r)
{
    enum lk_status st = LK_OK;
    struct lk_chart c = {0};
    struct map m = {.r = r, .least = INFINITY, .most = -INFINITY};

    m.tall = (r->n_ranks + ROWS_MAX - 1) / ROWS_MAX;
    m.wide = (r->n_steps + COLUMNS_MAX - 1) / COLUMNS_MAX;
    m.rows = m.tall ? (r->n_ranks + m.tall - 1) / m.tall : 0;
    m.columns = m.wide ? (r->n_steps + m.wide - 1) / m.wide : 0;
    for (size_t row = 0; row < m.rows; row++)
        for (size_t column = 0; column < m.columns; column++) {
            m.least = fmin(m.least, cell(&m, row, column));
            m.most = fmax(m.most, cell(&m, row, column));
        }
    if (!(m.least <= m.most))
        return lk_fail(LK_EEVIDENCE, "no rank's own time in a step is known");
    LK_TRY(lk_chart_init(&c, "stragglers", "How long each rank works in each step"));
    LK_TRY(put_map(&c, &m));
    LK_TRY(lk_chart_finish(&c));
    *out = c;
    c = (struct lk_chart){0};
out:
    lk_chart_fini(&c);
    return st;
}
