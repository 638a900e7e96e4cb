/*
 * Pages of forecasts; see the header.
 *
 * Divisions: values / answer / views / files.
 */
#include "commands/forecast_page.h"

#include "base/array.h"
#include "base/label.h"
#include "base/units.h"
#include "sim/forecast/contradiction.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Values ---- */

/* Name a point by labels: its counts, and its words on the axes of a what-if. */
static enum lk_status point_labels(const struct lk_forecast *f, const struct lk_forecast_point *p,
                                   char **out)
{
    LK_PASS(lk_label_add(out, "gpus", "%d", p->config.world_size));
    LK_PASS(lk_label_add(out, "local_batch", "%d", p->config.local_batch));
    LK_PASS(lk_label_add(out, "accumulation", "%d", p->config.accumulation));
    for (size_t i = 0; i < f->n_points; i++)
        if (f->points[i].config.cap_bytes != f->points[0].config.cap_bytes) {
            LK_PASS(lk_label_add(out, "bucket_cap_bytes", "%llu",
                                 (unsigned long long)p->config.cap_bytes));
            break;
        }
    for (size_t i = 0; i < f->n_axes; i++)
        if (*p->words[i])
            LK_PASS(lk_label_add(out, f->axes[i], "%s", p->words[i]));
    return LK_OK;
}

static enum lk_status add_values(const struct lk_forecast *f, const struct lk_forecast_point *p,
                                 struct lk_page *page)
{
    const struct {
        const char *name;
        enum lk_dimension dim;
        double value;
    } rows[] = {
        {"efficiency", LK_DIM_NONE, p->efficiency},
        {"efficiency_lo", LK_DIM_NONE, p->efficiency_lo},
        {"efficiency_hi", LK_DIM_NONE, p->efficiency_hi},
        {"step_s", LK_DIM_TIME, p->step_s},
        {"step_lo_s", LK_DIM_TIME, p->step_lo_s},
        {"step_hi_s", LK_DIM_TIME, p->step_hi_s},
        {"throughput_per_s", LK_DIM_NONE, p->throughput_per_s},
        {"gain", LK_DIM_NONE, p->gain.known ? p->gain.ratio - 1 : NAN},
        {"gain_lo", LK_DIM_NONE, p->gain.known ? p->gain.lo - 1 : NAN},
        {"gain_hi", LK_DIM_NONE, p->gain.known ? p->gain.hi - 1 : NAN},
        {"gain_certainty", LK_DIM_NONE, p->gain.known ? p->gain.certainty : NAN},
    };
    enum lk_status st = LK_OK;
    char *labels = NULL;

    LK_TRY(point_labels(f, p, &labels));
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        LK_TRY(lk_page_value(page, rows[i].name, labels, rows[i].dim, rows[i].value));
out:
    free(labels);
    return st;
}

/* ---- Answer ---- */

static enum lk_status note_assumed(const struct lk_forecast *f, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    char *line = NULL;

    for (size_t i = 0; i < f->n_assumed; i++)
        LK_TRY(lk_text_add(&line, "%s %s", i ? "," : "Assumed, not measured:", f->assumed[i]));
    if (line)
        LK_TRY(lk_page_note(page, "%s (--verbose says more).", line));
out:
    free(line);
    return st;
}

/* Say what the batches of ranks that gain most bring, and how they are run. Batches that no run had
 * cannot be called best: the run that measures them is named. */
static enum lk_status say_batches(const struct lk_forecast *f, struct lk_page *page)
{
    const struct lk_forecast_point *found = NULL;
    char list[LK_RANK_BATCHES_TEXT] = "", step[32];
    bool measured;

    for (const struct lk_forecast_point *p = f->points; p < f->points + f->n_points; p++)
        if (*p->config.batches && p->gain.known && p->gain.ratio > 1 &&
            (!found || p->gain.ratio > found->gain.ratio))
            found = p;
    if (found)
        lk_rank_batches_list(found->config.batches, list, sizeof list);
    if (!*list)
        return LK_OK;
    measured = !strstr(found->evidence_text, "local batch"); /* else it is extrapolated on it */
    return lk_page_say(
        page,
        "Local batches %s of %d GPUs: %s a step, %+.1f %% throughput (%+.1f to "
        "%+.1f) against now, %s lockstep run --local-batch=%s%s.",
        found->config.batches, found->config.world_size,
        lk_units_format(LK_DIM_TIME, found->step_s, step, sizeof step),
        100 * (found->gain.ratio - 1), 100 * (found->gain.lo - 1), 100 * (found->gain.hi - 1),
        measured ? "by" : "but such batches were not measured:", list, measured ? "" : " does");
}

enum lk_status forecast_page_answer(const struct lk_forecast *f, bool whatif, struct lk_page *page)
{
    size_t told = lk_contradictions_told(f);

    for (size_t i = 0; i < told; i++)
        LK_PASS(lk_page_contradict(page, f->answer[i]));
    for (size_t i = told; i < f->n_answer; i++)
        LK_PASS(lk_page_say(page, "%s", f->answer[i]));
    LK_PASS(say_batches(f, page));
    for (size_t i = 0; i < f->n_warnings; i++)
        LK_PASS(lk_page_note(page, "%s", f->warnings[i]));
    LK_PASS(note_assumed(f, page));
    for (size_t i = 0; i < f->n_points; i++)
        if (!whatif || f->points[i].gain.verdict == LK_VERDICT_BEST)
            LK_PASS(add_values(f, &f->points[i], page));
    return LK_OK;
}

enum lk_status forecast_verdict(const struct lk_forecast *f)
{
    return f->n_contradictions ? lk_fail(LK_ECONTRADICTED, "%s", f->answer[0]) : LK_OK;
}

/* ---- Views ---- */

/* The columns before and behind the axes of each kind of table; a table may lack some. */
static const struct lk_view_column keys[] = {LK_VIEW("gpus"),
                                             {.name = "local_batch", .setting = true},
                                             {.name = "accumulation", .setting = true},
                                             {.name = "bucket_cap_bytes", .setting = true},
                                             LK_VIEW(NULL)};
static const struct lk_view_column points[] = {
    LK_VIEW_RANGE("step_s", "step_lo_s", "step_hi_s"),
    LK_VIEW("throughput_per_s"),
    LK_VIEW_RANGE("efficiency", "efficiency_lo", "efficiency_hi"),
    LK_VIEW("grade"),
    {.name = "lost_to", .optional = true},
    {.name = "efficiency", .bar = true, .optional = true},
    LK_VIEW(NULL)};
static const struct lk_view_column best[] = {
    LK_VIEW_RANGE("gain_pct", "gain_lo_pct", "gain_hi_pct"),
    LK_VIEW("remark"),
    {.name = "throughput_per_s", .optional = true},
    {.name = "step_s", .optional = true},
    {.name = "grade", .optional = true},
    LK_VIEW(NULL)};
static const struct lk_view_column plan[] = {
    LK_VIEW_RANGE("memory_bytes", "memory_lo_bytes", "memory_hi_bytes"),
    LK_VIEW("memory_fit"),
    LK_VIEW("fits_with"),
    LK_VIEW("largest_batch"),
    LK_VIEW_RANGE("time_to_target_h", "time_to_target_lo_h", "time_to_target_hi_h"),
    LK_VIEW_RANGE("cost_to_target", "cost_to_target_lo", "cost_to_target_hi"),
    LK_VIEW("cost_per_million"),
    LK_VIEW("energy_per_million_kWh"),
    LK_VIEW("goodput"),
    LK_VIEW("checkpoint_period_s"),
    LK_VIEW("statistical_efficiency"),
    {.name = "cost_per_hour_saved", .optional = true},
    {.name = "rate_linear", .optional = true},
    {.name = "rate_sqrt", .optional = true},
    {.name = "rate_noise", .optional = true},
    LK_VIEW(NULL)};
static const struct lk_view_column *const of_views[] = {
    [FORECAST_POINTS] = points, [FORECAST_BEST] = best, [FORECAST_PLAN] = plan};

/* Show all columns, and the notes, which say what the table means. */
static enum lk_status show_whole(const char *name, struct lk_table **table, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_view_column *view = NULL;
    const struct lk_table *t = *table;

    LK_TRY(lk_alloc(&view, t->n_columns, sizeof *view));
    for (size_t i = 0; i < t->n_columns; i++)
        view[i].name = t->columns[i].name;
    for (size_t i = 0; i < t->n_notes; i++)
        LK_TRY(lk_page_note(page, "%s", t->notes[i]));
    LK_TRY(lk_page_table(page, name, LK_PAGE_MAIN, view, t->n_columns, table));
out:
    free(view);
    return st;
}

enum { VIEW_MAX = LK_COUNT(keys) + LK_FORECAST_AXES_MAX + LK_COUNT(plan) };

static const char *find_column(const struct lk_table *t, const char *name)
{
    for (size_t i = 0; name && i < t->n_columns; i++)
        if (!strcmp(t->columns[i].name, name))
            return t->columns[i].name;
    return NULL;
}

/* Append those columns of a list that the table has, without the interval that it has not; return
 * the new count. */
static size_t append(const struct lk_table *t, const struct lk_view_column *from,
                     struct lk_view_column *view, size_t n)
{
    for (; from->name; from++) {
        if (!find_column(t, from->name))
            continue;
        view[n] = *from;
        if (!find_column(t, from->lo) || !find_column(t, from->hi))
            view[n].lo = view[n].hi = NULL;
        n++;
    }
    return n;
}

enum lk_status forecast_page_table(const struct lk_forecast *f, const char *name,
                                   enum lk_page_place place, enum forecast_view kind,
                                   struct lk_table **table, struct lk_page *page)
{
    struct lk_view_column view[VIEW_MAX];
    size_t n;

    if (*table && kind == FORECAST_WHOLE)
        return show_whole(name, table, page);
    if (!*table || kind == FORECAST_DETAIL)
        return lk_page_table(page, name, place, NULL, 0, table);
    n = append(*table, keys, view, 0);
    for (size_t i = 0; i < f->n_axes; i++)
        view[n++] =
            (struct lk_view_column){.name = find_column(*table, f->axes[i]), .setting = true};
    n = append(*table, of_views[kind], view, n);
    return lk_page_table(page, name, place, view, n, table);
}

/* ---- Files ---- */

enum lk_status forecast_page_files(const char *out, const char *csv, struct lk_page *page)
{
    if (out || csv)
        LK_PASS(lk_page_next(page, "Written: %s%s%s.", out ? out : "", out && csv ? ", " : "",
                             csv ? csv : ""));
    return out ? lk_page_next(page, "Plot it: lockstep report %s", out) : LK_OK;
}

bool forecast_has_target(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (f->points[i].plan.known && !isnan(f->points[i].plan.time_to_target_h))
            return true;
    return false;
}

/* ---- A whole page ---- */

/* Return whether a forecast is a what-if's. */
static bool is_whatif(const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points; i++)
        if (f->points[i].gain.known)
            return true;
    return false;
}

enum lk_status forecast_page(const struct lk_forecast *f, struct lk_page *page)
{
    enum { POINTS, BEST, PLANS, BACKTESTS = PLANS + LK_PLAN_TABLES, LOSSES, CONTRADICTIONS, COUNT };
    static const char *const names[COUNT] = {"points",   "best",   "plan",          "target",
                                             "backtest", "losses", "contradictions"};
    enum lk_status st = LK_OK;
    struct lk_table *tables[COUNT] = {NULL};
    const bool whatif = is_whatif(f);
    const enum lk_page_place where = forecast_has_target(f) ? LK_PAGE_MAIN : LK_PAGE_DETAIL;

    LK_TRY(forecast_page_answer(f, whatif, page));
    LK_TRY(lk_forecast_table(f, &tables[POINTS]));
    if (whatif)
        LK_TRY(lk_forecast_best_table(f, 10, &tables[BEST]));
    LK_TRY(lk_forecast_plan_tables(f, true, &tables[PLANS]));
    if (f->n_backtests)
        LK_TRY(lk_forecast_backtest_table(f, &tables[BACKTESTS]));
    LK_TRY(lk_forecast_loss_table(f, &tables[LOSSES]));
    LK_TRY(lk_forecast_contradiction_table(f, &tables[CONTRADICTIONS]));
    for (int i = 0; i < COUNT; i++) {
        const bool is_plan = i >= PLANS && i < BACKTESTS;

        LK_TRY(forecast_page_table(f, names[i],
                                   is_plan                                 ? where
                                   : i == BEST || (i == POINTS && !whatif) ? LK_PAGE_MAIN
                                                                           : LK_PAGE_DETAIL,
                                   is_plan                  ? FORECAST_PLAN
                                   : i == BEST              ? FORECAST_BEST
                                   : i == POINTS && !whatif ? FORECAST_POINTS
                                                            : FORECAST_DETAIL,
                                   &tables[i], page));
    }
out:
    for (int i = 0; i < COUNT; i++)
        lk_table_destroy(tables[i]);
    return st;
}
