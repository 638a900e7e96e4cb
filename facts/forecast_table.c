/* Convert a forecast to result tables. */
#include "facts/forecast.h"

#include "base/array.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return bytes as a cell; NaN, which is printed as "-": not known. */
static double known_bytes(uint64_t bytes)
{
    return bytes ? (double)bytes : NAN;
}

/* Columns as lists (base/table.h): their values are those of the point p, of the gain g or of the
 * back-test b. */
#define GPUS(X) X("gpus", "GPUs", LK_DIM_NONE, -1, p->config.world_size)
#define BATCH(X)                                                                                   \
    X("local_batch", "local batch", LK_DIM_NONE, -1, p->config.local_batch)                        \
    X("accumulation", "accum.", LK_DIM_NONE, -1, p->config.accumulation)                           \
    X("bucket_cap_bytes", "bucket cap", LK_DIM_BYTES, -1, known_bytes(p->config.cap_bytes))
#define STEP(X)       X("step_s", "step", LK_DIM_TIME, -1, p->step_s)
#define THROUGHPUT(X) X("throughput_per_s", "samples/s", LK_DIM_NONE, 1, p->throughput_per_s)

#define POINT_COLUMNS(X)                                                                           \
    GPUS(X)                                                                                        \
    X("nodes", "nodes", LK_DIM_NONE, -1, p->config.nodes)                                          \
    BATCH(X)                                                                                       \
    STEP(X)                                                                                        \
    X("step_lo_s", "from", LK_DIM_TIME, -1, p->step_lo_s)                                          \
    X("step_hi_s", "to", LK_DIM_TIME, -1, p->step_hi_s)                                            \
    THROUGHPUT(X)                                                                                  \
    X("throughput_lo_per_s", "from", LK_DIM_NONE, 1,                                               \
      p->throughput_per_s * p->step_s / p->step_hi_s)                                              \
    X("throughput_hi_per_s", "to", LK_DIM_NONE, 1, p->throughput_per_s * p->step_s / p->step_lo_s) \
    X("efficiency", "efficiency", LK_DIM_NONE, LK_TABLE_PERCENT, p->efficiency)                    \
    X("efficiency_lo", "from", LK_DIM_NONE, LK_TABLE_PERCENT, p->efficiency_lo)                    \
    X("efficiency_hi", "to", LK_DIM_NONE, LK_TABLE_PERCENT, p->efficiency_hi)                      \
    X("measured_step_s", "measured", LK_DIM_TIME, -1, p->measured_step_s)                          \
    X("evidence", "evidence", LK_DIM_NONE, -1,                                                     \
      *p->evidence_text ? p->evidence_text : lk_evidence_name(p->evidence))                        \
    X("grade", "evidence", LK_DIM_NONE, LK_TABLE_DATA, lk_evidence_name(p->evidence))              \
    X("lost_to", "lost to", LK_DIM_NONE, LK_TABLE_DATA, lost)                                      \
    X("global_batch", "global batch", LK_DIM_NONE, LK_TABLE_DATA, lk_config_samples(&p->config))
static const struct lk_column point_columns[] = {POINT_COLUMNS(LK_TABLE_COLUMN)};

#define GAIN_COLUMNS(X)                                                                            \
    X("gain_pct", "gain, %", LK_DIM_NONE, 1, 100 * (g->ratio - 1))                                 \
    X("gain_lo_pct", "from", LK_DIM_NONE, 1, 100 * (g->lo - 1))                                    \
    X("gain_hi_pct", "to", LK_DIM_NONE, 1, 100 * (g->hi - 1))                                      \
    X("verdict", "verdict", LK_DIM_NONE, -1, g->verdict ? lk_verdict_name(g->verdict) : NULL)      \
    X("remark", "verdict", LK_DIM_NONE, LK_TABLE_DATA, remark_of(g))
static const struct lk_column gain_columns[] = {GAIN_COLUMNS(LK_TABLE_COLUMN)};

#define BACKTEST_COLUMNS(X)                                                                        \
    X("what", "held out", LK_DIM_NONE, -1, b->what)                                                \
    X("measured_s", "measured", LK_DIM_TIME, -1, b->measured_s)                                    \
    X("predicted_s", "predicted", LK_DIM_TIME, -1, b->predicted_s)                                 \
    X("lo_s", "from", LK_DIM_TIME, -1, b->lo_s)                                                    \
    X("hi_s", "to", LK_DIM_TIME, -1, b->hi_s)                                                      \
    X("error_pct", "error, %", LK_DIM_NONE, 1, 100 * (b->predicted_s / b->measured_s - 1))         \
    X("inside", "inside", LK_DIM_NONE, -1, is_inside(b) ? "yes" : "no")
static const struct lk_column backtest_columns[] = {BACKTEST_COLUMNS(LK_TABLE_COLUMN)};

#define LOSS_COLUMN(row, key, text, name) {key "_s", key, LK_DIM_TIME, -1},
static const struct lk_column loss_columns[] = {
    GPUS(LK_TABLE_COLUMN) BATCH(LK_TABLE_COLUMN) STEP(LK_TABLE_COLUMN) LK_LOSS_LIST(LOSS_COLUMN)};

/* ---- Plan ---- */

/* A member of struct lk_plan, a number or a text, as a column. */
struct plan_column {
    struct lk_column column;
    size_t offset;
    bool text;
};
#define NUMBER(field, heading, dim, digits)                                                        \
    {{#field, heading, dim, digits}, offsetof(struct lk_plan, field), false},
#define TEXT(field, heading)                                                                       \
    {{#field, heading, LK_DIM_NONE, -1}, offsetof(struct lk_plan, field), true},
static const struct plan_column resource_columns[] = {
    LK_PLAN_RESOURCE_LIST(NUMBER) TEXT(memory_fit, "fits") TEXT(fits_with, "would fit with")};
static const struct plan_column target_columns[] = {LK_PLAN_TARGET_LIST(NUMBER)};

enum { N_PLAN = LK_COUNT(resource_columns) + LK_COUNT(target_columns) };

static const struct {
    const char *title;
    const struct plan_column *columns;
    size_t n;
} parts[LK_PLAN_TABLES] = {
    {"Plan: memory and cost of a GPU's work", resource_columns, LK_COUNT(resource_columns)},
    {"Plan: time and cost to the target, learning rates", target_columns, LK_COUNT(target_columns)},
};

static const char *text_at(const struct plan_column *c, const struct lk_plan *p)
{
    return (const char *)p + c->offset;
}

static double number_at(const struct plan_column *c, const struct lk_plan *p)
{
    return *(const double *)(const void *)text_at(c, p);
}

static bool has_value(const struct plan_column *c, const struct lk_plan *p)
{
    return p->known && (c->text ? *text_at(c, p) != '\0' : !isnan(number_at(c, p)));
}

/* Append a part's columns that have a value in some point; return the new count. */
static size_t append_used(const struct lk_forecast *f, int part, struct lk_column *columns,
                          size_t n)
{
    for (size_t c = 0; c < parts[part].n; c++) {
        size_t i = 0;

        while (i < f->n_points && !has_value(&parts[part].columns[c], &f->points[i].plan))
            i++;
        if (i < f->n_points)
            columns[n++] = parts[part].columns[c].column;
    }
    return n;
}

/* Set the cells of a part in the last row. */
static enum lk_status plan_cells(struct lk_table *t, int part, const struct lk_plan *p)
{
    for (size_t i = 0; i < parts[part].n; i++) {
        const struct plan_column *c = &parts[part].columns[i];

        if (has_value(c, p))
            LK_PASS(c->text ? lk_table_word(t, c->column.name, text_at(c, p))
                            : lk_table_number(t, c->column.name, number_at(c, p)));
    }
    return LK_OK;
}

/* ---- Points ---- */

static size_t append(const struct lk_column *from, size_t n_from, struct lk_column *columns,
                     size_t n)
{
    memcpy(columns + n, from, n_from * sizeof *from);
    return n + n_from;
}

/* Append a column for each axis of a what-if; it borrows the axis's name. */
static size_t append_axes(const struct lk_forecast *f, struct lk_column *columns, size_t n)
{
    for (size_t i = 0; i < f->n_axes; i++)
        columns[n++] = (struct lk_column){f->axes[i], f->axes[i], LK_DIM_NONE, -1};
    return n;
}

static enum lk_status axis_cells(struct lk_table *t, const struct lk_forecast *f,
                                 const struct lk_forecast_point *p)
{
    for (size_t i = 0; i < f->n_axes; i++)
        if (*p->words[i])
            LK_PASS(lk_table_word(t, f->axes[i], p->words[i]));
    return LK_OK;
}

/* Return true for the current configuration: it alone is surely as fast as itself. */
static bool is_current(const struct lk_gain *g)
{
    return g->known && g->ratio == 1 && g->lo == 1 && g->hi == 1;
}

static bool has_gains(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (f->points[i].gain.known)
            return true;
    return false;
}

/* Return how a point of a what-if stands, and whether it is the current configuration. */
static const char *remark_of(const struct lk_gain *g)
{
    static const char *const others[LK_VERDICT_COUNT] = {
        [LK_VERDICT_BEST] = "best", [LK_VERDICT_TIE] = "tie"};
    static const char *const current[LK_VERDICT_COUNT] = {
        [LK_VERDICT_NONE] = "now", [LK_VERDICT_BEST] = "now, best", [LK_VERDICT_TIE] = "now, tie"};

    return (is_current(g) ? current : others)[g->verdict];
}

/* A loss below this share of the step is not worth a word. */
static const double LOSS_NAMED = 1e-3;

enum lk_loss lk_forecast_largest_loss(const struct lk_forecast_point *p)
{
    enum lk_loss worst = LK_LOSS_IDEAL;
    double most = LOSS_NAMED * p->step_s;

    for (int i = LK_LOSS_IDEAL + 1; i < LK_LOSS_COUNT && lk_losses_known(p->losses_s); i++)
        if (p->losses_s[i] > most) {
            most = p->losses_s[i];
            worst = (enum lk_loss)i;
        }
    return worst;
}

/* Write "blocking communication 8.0 %"; return NULL where no loss is known. */
static const char *describe_loss(const struct lk_forecast_point *p, char *buf, size_t size)
{
    enum lk_loss loss = lk_forecast_largest_loss(p);

    if (loss == LK_LOSS_IDEAL)
        return NULL;
    snprintf(buf, size, "%s %.1f %%", lk_loss_name(loss), 100 * p->losses_s[loss] / p->step_s);
    return buf;
}

static enum lk_status point_row(struct lk_table *t, const struct lk_forecast *f,
                                const struct lk_forecast_point *p)
{
    const struct lk_gain *g = &p->gain;
    enum lk_status st = LK_OK;
    char buf[64];
    const char *lost = describe_loss(p, buf, sizeof buf);

    LK_TRY(lk_table_row(t));
    POINT_COLUMNS(LK_TABLE_CELL)
    LK_TRY(axis_cells(t, f, p));
    if (g->known) {
        GAIN_COLUMNS(LK_TABLE_CELL)
    }
out:
    return st;
}

/* Make a table of n points, those of the numbers `at` or (NULL) the first; with_plan: with the
 * columns of all parts of the plan. */
static enum lk_status point_table(const struct lk_forecast *f, const char *title, const size_t *at,
                                  size_t n_points, bool with_plan, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_column
        columns[LK_COUNT(point_columns) + LK_FORECAST_AXES_MAX + LK_COUNT(gain_columns) + N_PLAN];
    int n_parts = with_plan ? LK_PLAN_TABLES : 0;
    struct lk_table *t = NULL;
    size_t n = append(point_columns, LK_COUNT(point_columns), columns, 0);

    n = append_axes(f, columns, n);
    if (has_gains(f))
        n = append(gain_columns, LK_COUNT(gain_columns), columns, n);
    for (int part = 0; part < n_parts; part++)
        n = append_used(f, part, columns, n);
    LK_TRY(lk_table_create(title, columns, n, &t));
    for (size_t i = 0; i < n_points; i++) {
        const struct lk_forecast_point *p = &f->points[at ? at[i] : i];

        LK_TRY(point_row(t, f, p));
        for (int part = 0; part < n_parts; part++)
            LK_TRY(plan_cells(t, part, &p->plan));
    }
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}

enum lk_status lk_forecast_csv_table(const struct lk_forecast *f, struct lk_table **out)
{
    return point_table(f, "Forecast", NULL, f->n_points, true, out);
}

enum lk_status lk_forecast_table(const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;
    char title[256];

    snprintf(title, sizeof title, "Forecast of %s on %s; efficiency against %s, %.0f %% interval",
             f->job, f->cluster, f->reference, 100 * f->level);
    LK_TRY(point_table(f, title, NULL, f->n_points, false, &t));
    for (size_t i = 0; i < f->n_notes; i++)
        LK_TRY(lk_table_note(t, "%s", f->notes[i]));
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}

/* Return the fastest point with as many GPUs that is not taken; current: the current configuration
 * alone. n_points: there is none. */
static size_t fastest(const struct lk_forecast *f, int world_size, const bool *taken, bool current)
{
    size_t best = f->n_points;

    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_forecast_point *p = &f->points[i];

        if (p->config.world_size == world_size && !taken[i] && (!current || is_current(&p->gain)) &&
            (best == f->n_points || p->throughput_per_s > f->points[best].throughput_per_s))
            best = i;
    }
    return best;
}

/* List the best points of each count; at has room for all points. */
static size_t list_best(const struct lk_forecast *f, size_t most, bool *taken, size_t *at)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n_points; i++) {
        int world_size = f->points[i].config.world_size;
        bool first = true;

        for (size_t k = 0; k < i && first; k++)
            first = f->points[k].config.world_size != world_size;
        for (size_t k = 0; first && k <= most; k++) {
            size_t next = fastest(f, world_size, taken, k == most);

            if (next == f->n_points)
                continue;
            taken[next] = true;
            at[n++] = next;
        }
    }
    return n;
}

enum lk_status lk_forecast_best_table(const struct lk_forecast *f, size_t most,
                                      struct lk_table **out)
{
    enum lk_status st = LK_OK;
    bool *taken = NULL;
    size_t *at = NULL;
    char title[256];

    snprintf(title, sizeof title, "Fastest configurations of %s on %s, %.0f %% interval", f->job,
             f->cluster, 100 * f->level);
    LK_TRY(lk_alloc(&taken, f->n_points, sizeof *taken));
    LK_TRY(lk_alloc(&at, f->n_points, sizeof *at));
    LK_TRY(point_table(f, title, at, list_best(f, most, taken, at), false, out));
out:
    free(at);
    free(taken);
    return st;
}

/* Points shown: all up to POINTS_SHOWN_MAX; of more, those of a what-if that are best or tie; if
 * these are too many as well, the best. */
enum { POINTS_SHOWN_MAX = 20 };
enum shown { ALL, GOOD, BEST };

static enum shown shown_of(const struct lk_forecast *f, bool all)
{
    size_t good = 0;

    for (size_t i = 0; i < f->n_points; i++)
        good += f->points[i].gain.verdict != LK_VERDICT_NONE;
    if (all || f->n_points <= POINTS_SHOWN_MAX || !good)
        return ALL;
    return good <= POINTS_SHOWN_MAX ? GOOD : BEST;
}

static bool is_shown(const struct lk_forecast_point *p, enum shown shown)
{
    return shown == ALL || p->gain.verdict == LK_VERDICT_BEST ||
           (shown == GOOD && p->gain.verdict == LK_VERDICT_TIE);
}

static enum lk_status part_row(struct lk_table *t, const struct lk_forecast *f, int part,
                               const struct lk_forecast_point *p)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    GPUS(LK_TABLE_CELL)
    BATCH(LK_TABLE_CELL)
    THROUGHPUT(LK_TABLE_CELL)
    LK_TRY(axis_cells(t, f, p));
    LK_TRY(plan_cells(t, part, &p->plan));
out:
    return st;
}

static enum lk_status part_table(const struct lk_forecast *f, int part, bool all,
                                 struct lk_table **out)
{
    static const struct lk_column key_columns[] = {GPUS(LK_TABLE_COLUMN) BATCH(LK_TABLE_COLUMN)
                                                       THROUGHPUT(LK_TABLE_COLUMN)};
    enum lk_status st = LK_OK;
    struct lk_column columns[LK_COUNT(key_columns) + LK_FORECAST_AXES_MAX + N_PLAN];
    struct lk_table *t = NULL;
    enum shown shown = shown_of(f, all);
    size_t n = append(key_columns, LK_COUNT(key_columns), columns, 0), keys;
    char title[128];

    keys = append_axes(f, columns, n);
    n = append_used(f, part, columns, keys);
    *out = NULL;
    if (n == keys)
        return LK_OK;
    snprintf(title, sizeof title, "%s%s%.20s", parts[part].title,
             lk_forecast_has_currency(f) ? "; money in " : "",
             lk_forecast_has_currency(f) ? f->currency : "");
    LK_TRY(lk_table_create(title, columns, n, &t));
    for (size_t i = 0; i < f->n_points; i++)
        if (is_shown(&f->points[i], shown))
            LK_TRY(part_row(t, f, part, &f->points[i]));
    if (shown != ALL)
        LK_TRY(lk_table_note(t, "%zu of %zu points: the best%s; --csv and --out have all",
                             t->n_rows, f->n_points,
                             shown == GOOD ? " and those that tie with them" : ""));
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}

enum lk_status lk_forecast_plan_tables(const struct lk_forecast *f, bool all,
                                       struct lk_table *out[LK_PLAN_TABLES])
{
    enum lk_status st = LK_OK;
    struct lk_table *t[LK_PLAN_TABLES] = {NULL};

    for (int i = 0; i < LK_PLAN_TABLES; i++)
        LK_TRY(part_table(f, i, all, &t[i]));
    memcpy(out, t, sizeof t);
    return LK_OK;
out:
    for (int i = 0; i < LK_PLAN_TABLES; i++)
        lk_table_destroy(t[i]);
    return st;
}

/* ---- Back-tests and losses ---- */

static bool is_inside(const struct lk_backtest *b)
{
    return b->measured_s >= b->lo_s && b->measured_s <= b->hi_s;
}

#define CONTRADICTION_COLUMNS(X)                                                                   \
    X("contradiction", "contradiction", LK_DIM_NONE, -1, lk_contradiction_name(c->kind))           \
    X("refuted", "refuted", LK_DIM_NONE, -1, c->refuted)                                           \
    X("by", "by", LK_DIM_NONE, -1, c->by)                                                          \
    X("found", "found", LK_DIM_NONE, -1, c->found)                                                 \
    X("allowed", "allowed", LK_DIM_NONE, -1, c->allowed)                                           \
    X("says", "says", LK_DIM_NONE, -1, c->says)
static const struct lk_column contradiction_columns[] = {CONTRADICTION_COLUMNS(LK_TABLE_COLUMN)};

enum lk_status lk_forecast_contradiction_table(const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    if (f->n_contradictions)
        LK_TRY(lk_table_create("What contradicts the forecast", contradiction_columns,
                               LK_COUNT(contradiction_columns), &t));
    for (size_t i = 0; i < f->n_contradictions; i++) {
        const struct lk_contradiction *c = &f->contradictions[i];

        LK_TRY(lk_table_row(t));
        CONTRADICTION_COLUMNS(LK_TABLE_CELL)
    }
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}

enum lk_status lk_forecast_backtest_table(const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;
    double sum = 0;
    size_t inside = 0;

    LK_TRY(lk_table_create("Back-test: runs that were held out and predicted from the others",
                           backtest_columns, LK_COUNT(backtest_columns), &t));
    for (size_t i = 0; i < f->n_backtests; i++) {
        const struct lk_backtest *b = &f->backtests[i];

        LK_TRY(lk_table_row(t));
        BACKTEST_COLUMNS(LK_TABLE_CELL)
        sum += fabs(b->predicted_s / b->measured_s - 1);
        inside += is_inside(b);
    }
    if (f->n_backtests)
        LK_TRY(lk_table_note(t, "mean absolute error %.1f %%, %zu of %zu inside the interval",
                             100 * sum / (double)f->n_backtests, inside, f->n_backtests));
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}

/* A loss below this share of the step is rounding error of the mean over draws: 0. */
#define LOSS_RESOLUTION 1e-6

static double shown_loss(const struct lk_forecast_point *p, enum lk_loss row)
{
    return fabs(p->losses_s[row]) <= LOSS_RESOLUTION * p->step_s ? 0.0 : p->losses_s[row];
}

enum lk_status lk_forecast_loss_table(const struct lk_forecast *f, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create("Where the forecast step goes, mean over ranks", loss_columns,
                           LK_COUNT(loss_columns), &t));
    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_forecast_point *p = &f->points[i];

        LK_TRY(lk_table_row(t));
        GPUS(LK_TABLE_CELL)
        BATCH(LK_TABLE_CELL)
        STEP(LK_TABLE_CELL)
        for (int row = 0; row < LK_LOSS_COUNT; row++)
            LK_TRY(lk_table_number(
                t, loss_columns[LK_COUNT(loss_columns) - LK_LOSS_COUNT + (size_t)row].name,
                shown_loss(p, (enum lk_loss)row)));
    }
    LK_TRY(lk_table_note(
        t,
        "the losses are those that lockstep analyze measures, beyond the reference's; ideal over "
        "step is the efficiency; rest is what the model does not explain of the nearest run"));
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}
