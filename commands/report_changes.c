/* The changes that bring most; see report_changes.h. */
#include "commands/report_changes.h"

#include "base/array.h"
#include "base/lines.h"
#include "base/units.h"
#include "facts/forecast_answer.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static double number(const struct lk_table *t, size_t row, const char *column)
{
    const struct lk_cell *c = lk_table_cell(t, row, column);

    return c && c->type == LK_CELL_NUMBER ? c->number : NAN;
}

static const char *text(const struct lk_table *t, size_t row, const char *column)
{
    const struct lk_cell *c = lk_table_cell(t, row, column);

    return c && c->type == LK_CELL_TEXT ? c->text : "";
}

/* ---- Runs ---- */

/* Return the row that comes behind row `last` when the numbers of a column fall, equal ones in
 * their order; last n_rows: the first. n_rows: there is none. */
static size_t next_row(const struct lk_table *t, const char *column, size_t last)
{
    double least = last < t->n_rows ? number(t, last, column) : INFINITY;
    size_t best = t->n_rows;

    for (size_t r = 0; r < t->n_rows; r++) {
        double v = number(t, r, column);
        bool behind = v < least || (v == least && last < t->n_rows && r > last);

        if (behind && (best == t->n_rows || v > number(t, best, column)))
            best = r;
    }
    return best;
}

static enum lk_status add_actions(const struct lk_table *t, struct report_changes *out)
{
    size_t r = t->n_rows;

    while (out->n < REPORT_CHANGES && (r = next_row(t, "gain", r)) < t->n_rows) {
        LK_PASS(lk_asprintf(&out->says[out->n],
                            "%s: %.2f times the throughput (%.2f to %.2f); lockstep whatif %s",
                            text(t, r, "action"), number(t, r, "gain"), number(t, r, "gain_lo"),
                            number(t, r, "gain_hi"), text(t, r, "option")));
        (void)lk_lines_capital(out->says[out->n++]);
    }
    return LK_OK;
}

static enum lk_status add_findings(const struct lk_table *t, struct report_changes *out)
{
    for (size_t r = 0; r < t->n_rows && out->n < REPORT_CHANGES; r++) {
        double runs = number(t, r, "runs");
        char worth[40], points[48] = "", where[48] = "";

        if (!*text(t, r, "next") || !(number(t, r, "cost_s") > 0))
            continue;
        if (!isnan(number(t, r, "points")))
            snprintf(points, sizeof points, ", %.1f points of efficiency", number(t, r, "points"));
        if (!isnan(runs))
            snprintf(where, sizeof where, "; found in %.0f run%s", runs, runs == 1 ? "" : "s");
        LK_PASS(
            lk_asprintf(&out->says[out->n], "%s (worth up to %s a step%s%s)", text(t, r, "next"),
                        lk_units_format(LK_DIM_TIME, number(t, r, "cost_s"), worth, sizeof worth),
                        points, where));
        (void)lk_lines_capital(out->says[out->n++]);
    }
    return LK_OK;
}

enum lk_status report_changes_of_runs(const struct lk_page *page, struct report_changes *out)
{
    const struct lk_page_table *actions = lk_page_find(page, "actions");
    const struct lk_page_table *findings = lk_page_find(page, "findings");

    if (actions)
        LK_PASS(add_actions(actions->table, out));
    return findings && !out->n ? add_findings(findings->table, out) : LK_OK;
}

/* ---- What-ifs ---- */

/* Return the point behind `last` (NULL: the first) in the order of gains, equal ones in their own,
 * of those on as many GPUs that surely gain; NULL: none is left. */
static const struct lk_forecast_point *next_point(const struct lk_forecast *f, int gpus,
                                                  const struct lk_forecast_point *last)
{
    const struct lk_forecast_point *best = NULL;

    for (const struct lk_forecast_point *p = f->points; p < f->points + f->n_points; p++) {
        bool behind = !last || p->gain.ratio < last->gain.ratio ||
                      (p->gain.ratio == last->gain.ratio && p > last);

        if (p->config.world_size == gpus && p->gain.known && p->gain.lo > 1 && behind &&
            (!best || p->gain.ratio > best->gain.ratio))
            best = p;
    }
    return best;
}

/* Return whether the batch of a step is another than that of the configuration without a gain. */
static bool is_other_batch(const struct lk_forecast *f, const struct lk_forecast_point *p)
{
    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_config *c = &f->points[i].config;

        if (c->world_size == p->config.world_size && f->points[i].gain.ratio == 1)
            return c->local_batch * c->accumulation !=
                   p->config.local_batch * p->config.accumulation;
    }
    return false;
}

enum lk_status report_changes_of_forecast(const struct lk_forecast *f, struct report_changes *out)
{
    const struct lk_forecast_point *p = NULL;
    int gpus = 0;

    for (size_t i = 0; i < f->n_points; i++)
        gpus = f->points[i].config.world_size > gpus ? f->points[i].config.world_size : gpus;
    while (out->n < REPORT_CHANGES && (p = next_point(f, gpus, p))) {
        char words[LK_ANSWER_WORDS];

        LK_PASS(lk_asprintf(&out->says[out->n],
                            "%s on %d GPUs: %.2f times the throughput (%.2f to %.2f), more with "
                            "probability %.0f %%%s",
                            lk_answer_config(f, p, words, sizeof words), gpus, p->gain.ratio,
                            p->gain.lo, p->gain.hi, 100 * p->gain.certainty,
                            is_other_batch(f, p) ? "; a step has another number of samples" : ""));
        (void)lk_lines_capital(out->says[out->n++]);
    }
    return LK_OK;
}

void report_changes_fini(struct report_changes *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->says[i]);
    *c = (struct report_changes){0};
}
