/*
 * lockstep compare: what differs between runs, clusters, forecasts or jobs, and whether by more
 * than their noise; and what a job does on one cluster and on another, whose forecasts are made
 * here. Divisions: answers, tables and values, running.
 */
#include "facts/compare.h"
#include "base/array.h"
#include "base/label.h"
#include "commands/axis_lists.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/compare_impl.h"
#include "commands/forecast_ask.h"
#include "commands/ledger.h"
#include "sim/cluster_compare.h"
#include "sim/forecast/contradiction.h"
#include "sim/forecast/paired.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *axes[LK_AXIS_COUNT]; /* those of LK_AXIS_RUN_LIST: of a job on clusters */
    const char *ledger;
    struct lk_page_options page;
    struct lk_gate_options gate;
    const char *log;
};

#define OPTION(...) ROW(struct options, __VA_ARGS__)

static const struct lk_option rows[] = {LK_AXIS_RUN_LIST(AXIS_ROW) OPTION(LEDGER_OPTION),
                                        PAGE_ROWS(OPTION),
                                        GATE_ROWS(OPTION, "ratio"),
                                        OPTION(LOG_OPTION),
                                        {0}};

/* Append the points of one side compared with A. */
static enum lk_status compare(const struct side *a, const struct side *b, char letter,
                              struct lk_run_comparison *out)
{
    size_t first = out->points.n;

    switch (a->kind) {
    case KIND_RUN:
        LK_PASS(lk_compare_runs(&a->of.runs, &b->of.runs, out));
        break;
    case KIND_CLUSTER:
        LK_PASS(lk_compare_clusters(&a->of.cluster, &b->of.cluster, &out->points));
        break;
    case KIND_FORECAST: {
        const struct lk_drawn_forecast x = {&a->of.forecast, a->drawn.draws_s, a->drawn.n_draws,
                                            FORECAST_JOB_SEED};
        const struct lk_drawn_forecast y = {&b->of.forecast, b->drawn.draws_s, b->drawn.n_draws,
                                            FORECAST_JOB_SEED};

        LK_PASS(lk_compare_drawn(&x, &y, &out->points));
        break;
    }
    case KIND_JOB:
        LK_PASS(lk_compare_jobs(&a->of.job, &b->of.job, &out->points));
        break;
    case KIND_COUNT:
        break;
    }
    for (size_t i = first; i < out->points.n; i++)
        out->points.rows[i].other = letter;
    return out->points.n > first
               ? LK_OK
               : lk_fail(LK_EEVIDENCE,
                         "%s and %s have no point in common: %zu are in the first "
                         "alone, %zu in the second",
                         a->name, b->name, out->points.only_a, out->points.only_b);
}

/* ---- Answers ---- */

/* Buckets of PyTorch's DDP have this size (torch/nn/parallel/distributed.py, bucket_cap_mb). */
static const double BUCKET_BYTES = 25 * 1048576.0;

/* Return how well a point stands for all: of collectives the nearest to a size, of other points
 * the one that differs most. More is better, those of fewer GPUs apart. */
static double fitness(const struct lk_compared *r, double bytes)
{
    return r->bytes > 0 ? -fabs(log(r->bytes / bytes)) : fabs(log(r->ratio.value));
}

/* Choose the point that an answer is about: of the most GPUs, an all-reduce if there is one. NULL:
 * the side has none that tells something of both. */
static const struct lk_compared *choose(const struct lk_comparison *c, char letter, double bytes)
{
    const struct lk_compared *best = NULL;

    for (size_t i = 0; i < c->n; i++) {
        const struct lk_compared *r = &c->rows[i];
        const bool other_collective =
            r->bytes > 0 && strncmp(r->what, lk_coll_name(LK_ALL_REDUCE), 10) != 0;

        if (r->other == letter && !r->one_number && !other_collective &&
            (!best || r->gpus > best->gpus ||
             (r->gpus == best->gpus && fitness(r, bytes) > fitness(best, bytes))))
            best = r;
    }
    for (size_t i = 0; i < c->n && !best; i++)
        if (c->rows[i].other == letter && !c->rows[i].one_number)
            best = &c->rows[i];
    return best;
}

/* Return what a side is called in sentences: its letter, or its cluster as the user named it. */
static const char *called(const struct sides *s, char letter)
{
    static const char *const letters[SIDES_MAX] = {"A", "B", "C", "D", "E", "F", "G", "H",
                                                   "I", "J", "K", "L", "M", "N", "O", "P"};

    return s->job ? s->v[letter - 'A'].name : letters[letter - 'A'];
}

/* Say how two sides differ at a point. */
static enum lk_status say_point(const struct lk_compared *r, const struct sides *s,
                                struct lk_page *page)
{
    const struct lk_estimate *v = &r->ratio;
    const char *x = called(s, 'A'), *y = called(s, r->other);
    char a[32], b[32];

    lk_units_format(r->dim, r->a.value, a, sizeof a);
    lk_units_format(r->dim, r->b.value, b, sizeof b);
    if (r->verdict == LK_DIFFERENCE_UNKNOWN)
        return lk_page_say(page,
                           "%s: %s has %.2f times %s's speed: %s against %s; without "
                           "intervals, chance is not told apart.",
                           r->what, y, v->value, x, b, a);
    if (r->verdict == LK_DIFFERENCE_NOISE)
        return lk_page_say(page,
                           "%s: %s does not differ from %s beyond %s: %s against %s, %.2f "
                           "times the speed (%.2f to %.2f).",
                           r->what, y, x,
                           s->v[0].kind == KIND_FORECAST ? "their intervals" : "the noise", b, a,
                           v->value, v->lo, v->hi);
    if (v->value <= 0.5)
        return lk_page_say(page,
                           "%s: %s takes %.2f times as long as %s (%.2f to %.2f): %s against "
                           "%s.",
                           r->what, y, 1 / v->value, x, 1 / v->hi, 1 / v->lo, b, a);
    if (v->value >= 2)
        return lk_page_say(page, "%s: %s has %.2f times %s's speed (%.2f to %.2f): %s against %s.",
                           r->what, y, v->value, x, v->lo, v->hi, b, a);
    if (v->value < 1)
        return lk_page_say(page, "%s: %s is %.1f %% slower than %s (%.1f to %.1f): %s against %s.",
                           r->what, y, 100 / v->value - 100, x, 100 / v->hi - 100,
                           100 / v->lo - 100, b, a);
    return lk_page_say(page, "%s: %s is %.1f %% faster than %s (%.1f to %.1f): %s against %s.",
                       r->what, y, 100 * v->value - 100, x, 100 * v->lo - 100, 100 * v->hi - 100, b,
                       a);
}

/* Say which part of a run's step differs most, if the steps differ. */
static enum lk_status say_part(const struct lk_run_comparison *c, const struct lk_compared *r,
                               struct lk_page *page)
{
    const struct lk_run_pair *pair = &c->pairs[r - c->points.rows];
    double most = 0, sign = r->b.value > r->a.value ? 1 : -1;
    int part = -1;
    char text[32];

    for (int p = 0; p < LK_RUN_PART_COUNT; p++) {
        double d = sign * (pair->b_s[p] - pair->a_s[p]);

        if (d > most) {
            most = d;
            part = p;
        }
    }
    if (part < 0 || r->verdict == LK_DIFFERENCE_NOISE)
        return LK_OK;
    lk_units_format(LK_DIM_TIME, most, text, sizeof text);
    return lk_page_say(page, "Most of the difference is in %s: %s%s a step.",
                       lk_run_part_words.names[part], sign > 0 ? "+" : "-", text);
}

/* Say on how many points two sides agree. */
static enum lk_status say_counts(const struct lk_comparison *c, const struct sides *s, char letter,
                                 struct lk_page *page)
{
    size_t of[LK_DIFFERENCE_COUNT] = {0}, n = 0;
    char unknown[64] = "", none[64] = "";

    for (size_t i = 0; i < c->n; i++)
        if (c->rows[i].other == letter) {
            of[c->rows[i].verdict]++;
            n++;
        }
    if (n < 2 || of[LK_DIFFERENCE_UNKNOWN] == n)
        return LK_OK;
    if (of[LK_DIFFERENCE_UNKNOWN])
        snprintf(unknown, sizeof unknown, "; %zu %s no interval", of[LK_DIFFERENCE_UNKNOWN],
                 of[LK_DIFFERENCE_UNKNOWN] == 1 ? "has" : "have");
    if (of[LK_DIFFERENCE_NONE])
        snprintf(none, sizeof none, "; %zu %s the same number of one source",
                 of[LK_DIFFERENCE_NONE], of[LK_DIFFERENCE_NONE] == 1 ? "is" : "are");
    return lk_page_say(page,
                       "Of %zu points %s is faster at %zu, slower at %zu, and within the "
                       "noise at %zu%s%s.",
                       n, called(s, letter), of[LK_DIFFERENCE_FASTER], of[LK_DIFFERENCE_SLOWER],
                       of[LK_DIFFERENCE_NOISE], unknown, none);
}

/* Return what a forecast's efficiency refers to, "1 GPU"; *n is its length. */
static const char *reference_of(const struct side *s, int *n)
{
    const char *reference = s->of.forecast.reference ? s->of.forecast.reference : "";

    *n = (int)strcspn(reference, ",");
    return reference;
}

/* Say what contradicts the forecasts; *any is set if something does. */
static enum lk_status say_contradictions(const struct sides *s, bool *any, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    char *text = NULL;

    for (int i = 0; i < s->n && s->v[0].kind == KIND_FORECAST; i++) {
        const struct lk_forecast *f = &s->v[i].of.forecast;
        size_t told = lk_contradictions_told(f);

        for (size_t k = 0; k < told; k++) {
            free(text);
            text = NULL;
            LK_TRY(lk_asprintf(&text, "%s: %s", s->v[i].name, f->answer[k]));
            LK_TRY(lk_page_contradict(page, text));
        }
        *any |= f->n_contradictions > 0;
    }
out:
    free(text);
    return st;
}

/* Say what a million samples cost on the clusters at a point, where the prices are known. */
static enum lk_status say_cost(const struct sides *s, int side, const struct lk_compared *r,
                               struct lk_page *page)
{
    double cost[2] = {NAN, NAN};
    const char *money[2] = {"", ""};
    const int of[2] = {0, side};

    for (int k = 0; k < 2; k++) {
        const struct lk_forecast *f = &s->v[of[k]].of.forecast;

        money[k] = lk_forecast_has_currency(f) ? f->currency : "";
        for (size_t i = 0; i < f->n_points; i++)
            if (f->points[i].config.world_size == r->gpus && f->points[i].plan.known &&
                f->points[i].step_s == (k ? r->b.value : r->a.value))
                cost[k] = f->points[i].plan.cost_per_million;
    }
    if (isnan(cost[0]) || isnan(cost[1]))
        return LK_OK;
    return lk_page_say(page, "A million samples cost %.2f%s%s on %s and %.2f%s%s on %s.", cost[1],
                       *money[1] ? " " : "", money[1], called(s, (char)('A' + side)), cost[0],
                       *money[0] ? " " : "", money[0], called(s, 'A'));
}

static enum lk_status say(const struct lk_run_comparison *c, const struct sides *s, int side,
                          struct lk_page *page)
{
    const enum kind kind = s->v[0].kind;
    const char letter = (char)('A' + side);
    int n_a, n_b;
    const struct lk_compared *r = choose(&c->points, letter, BUCKET_BYTES);
    const struct lk_compared *small = choose(&c->points, letter, 1);

    if (!r)
        return lk_page_say(page,
                           "%c has the same numbers as A, from the same sources: nothing "
                           "here tells them apart.",
                           letter);
    LK_PASS(say_point(r, s, page));
    if (kind == KIND_RUN)
        LK_PASS(say_part(c, r, page));
    if (kind == KIND_CLUSTER && small != r)
        LK_PASS(say_point(small, s, page));
    if (r->efficiency_a > 0 && r->efficiency_b > 0) {
        const char *of_a = reference_of(&s->v[0], &n_a), *of_b = reference_of(&s->v[side], &n_b);

        LK_PASS(lk_page_say(page,
                            "There %s reaches %.0f %% of linear scaling from %.*s, %s %.0f %% from "
                            "%.*s.",
                            called(s, letter), 100 * r->efficiency_b, n_b, of_b, called(s, 'A'),
                            100 * r->efficiency_a, n_a, of_a));
    }
    if (s->job)
        LK_PASS(say_cost(s, side, r, page));
    return say_counts(&c->points, s, letter, page);
}

/* ---- Tables, values and notes ---- */

static enum lk_status put_tables(const struct lk_run_comparison *c, enum kind kind, bool several,
                                 struct lk_page *page)
{
    static const struct lk_view_column view[] = {LK_VIEW("other"),
                                                 LK_VIEW("what"),
                                                 LK_VIEW("a"),
                                                 LK_VIEW("b"),
                                                 LK_VIEW_RANGE("ratio", "ratio_lo", "ratio_hi"),
                                                 {.name = "verdict", .optional = true}};
    const struct lk_view_column *columns = several ? view : view + 1;
    const size_t n = LK_COUNT(view) - !several;
    enum lk_status st = LK_OK;
    struct lk_table *times = NULL, *rates = NULL, *parts = NULL;

    LK_TRY(lk_compare_table(&c->points, LK_DIM_TIME,
                            several ? "Times; B is the other side" : "Times", &times));
    LK_TRY(lk_compare_table(&c->points, LK_DIM_RATE,
                            several ? "Rates; B is the other side" : "Rates", &rates));
    if (kind == KIND_RUN)
        LK_TRY(lk_run_parts_table(c, &parts));
    LK_TRY(lk_page_table(page, "times", LK_PAGE_MAIN, columns, n, &times));
    LK_TRY(lk_page_table(page, "rates", LK_PAGE_MAIN, columns, n, &rates));
    LK_TRY(lk_page_table(page, "parts", LK_PAGE_DETAIL, NULL, 0, &parts));
out:
    lk_table_destroy(times);
    lk_table_destroy(rates);
    lk_table_destroy(parts);
    return st;
}

static enum lk_status put_values(const struct lk_comparison *c, struct lk_page *page)
{
    for (size_t i = 0; i < c->n; i++) {
        struct lk_compared *r = &c->rows[i];

        if (r->one_number) /* a gate has nothing to judge */
            continue;
        LK_PASS(lk_label_add(&r->labels, "other", "%c", r->other));
        LK_PASS(lk_page_value(page, "ratio", r->labels, LK_DIM_NONE, r->ratio.value));
        LK_PASS(lk_page_value(page, "ratio_lo", r->labels, LK_DIM_NONE, r->ratio.lo));
        LK_PASS(lk_page_value(page, "ratio_hi", r->labels, LK_DIM_NONE, r->ratio.hi));
    }
    return LK_OK;
}

static enum lk_status put_notes(const struct sides *s, const struct lk_run_comparison *c,
                                struct lk_page *page)
{
    const bool clusters = s->v[0].kind == KIND_CLUSTER;
    bool single = false;

    for (int i = 0; i < s->n; i++)
        LK_PASS(lk_page_note(page, "%c: %s%s%s", 'A' + i, s->job ? s->job : "",
                             s->job ? " on " : "", s->v[i].name));
    if (c->points.only_a || c->points.only_b)
        LK_PASS(lk_page_note(page,
                             "not compared, since the other side lacks them%s: %zu points of "
                             "A, %zu of the others",
                             clusters ? " and cannot predict them" : "", c->points.only_a,
                             c->points.only_b));
    if (clusters)
        LK_PASS(lk_page_note(page, "times of collectives are what each side predicts at the sizes "
                                   "and GPUs that either was measured with; a node's bandwidth is "
                                   "that of all its network cards"));
    for (size_t i = 0; s->v[0].kind == KIND_RUN && i < c->points.n; i++)
        single |= c->pairs[i].n_a < 2 || c->pairs[i].n_b < 2;
    if (single)
        LK_PASS(lk_page_note(page, "a side has one repetition: intervals are from its steps alone, "
                                   "and how much repetitions differ is not known (--repetitions "
                                   "3)"));
    if (s->job)
        LK_PASS(lk_page_note(page,
                             "the forecasts are those of lockstep predict; what is not known "
                             "of the job is the same on all clusters, and cancels in a ratio; "
                             "so does what is not known of networks of one kind"));
    else if (s->v[0].kind == KIND_FORECAST)
        LK_PASS(lk_page_note(page, "both intervals are taken as independent: errors that the "
                                   "forecasts share make the ratio surer than shown"));
    return LK_OK;
}

/* ---- Running ---- */

/* Fail where a gate would judge a side by numbers that it took over from the other. */
static enum lk_status check_gate(const struct options *o, const struct sides *s,
                                 const struct lk_comparison *c)
{
    for (int i = 1; i < s->n; i++) {
        const bool judged = o->gate.fail_below > 0 || o->gate.fail_if;

        if (judged && !choose(c, (char)('A' + i), BUCKET_BYTES))
            return lk_fail(LK_EEVIDENCE,
                           "%s has no number of its own beside %s: all %zu that both have are of "
                           "the same sources, so a condition on their ratio would judge nothing. "
                           "Measure it (lockstep calibrate, or import of its collectives)",
                           s->v[i].name, s->v[0].name, lk_compare_count(c, LK_DIFFERENCE_NONE));
    }
    return LK_OK;
}

extern const struct lk_command lk_command_compare;

static enum lk_status run(void *options, const char **names, int n, struct lk_page *page)
{
    const struct options *o = options;
    const struct forecast_question question = {.command = &lk_command_compare,
                                               .options = o,
                                               .operands = names,
                                               .n_operands = n,
                                               .ledger = o->ledger};
    enum lk_status st = LK_OK;
    struct sides sides = {0};
    struct lk_run_comparison c = {0};
    bool contradicted = false;

    LK_TRY(compare_sides_open(&question, o->axes, &sides, page));
    LK_TRY(say_contradictions(&sides, &contradicted, page));
    for (int i = 1; i < sides.n; i++) {
        st = compare(&sides.v[0], &sides.v[i], (char)('A' + i), &c);
        /* A contradicted forecast has no numbers to compare: its contradiction is the answer. */
        if (st != LK_OK && !(st == LK_EEVIDENCE && contradicted))
            goto out;
    }
    if (contradicted && !c.points.n) {
        st = lk_fail(LK_ECONTRADICTED, "%s", page->answer[0]);
        goto out;
    }
    LK_TRY(check_gate(o, &sides, &c.points));
    for (int i = 1; i < sides.n; i++)
        LK_TRY(say(&c, &sides, i, page));
    LK_TRY(put_tables(&c, sides.v[0].kind, sides.n > 2, page));
    LK_TRY(put_values(&c.points, page));
    LK_TRY(put_notes(&sides, &c, page));
    if (contradicted)
        st = lk_fail(LK_ECONTRADICTED, "%s", page->answer[0]);
out:
    lk_run_comparison_fini(&c);
    compare_sides_fini(&sides);
    return st;
}

const struct lk_command lk_command_compare = {
    .name = "compare",
    .usage = "A B [C...] | JOB CLUSTER CLUSTER...",
    .help = "show what differs between runs, clusters, forecasts, jobs, or a job on clusters",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = SIDES_MAX,
    .no_operand = "which two? e.g. lockstep compare before/ after/",
    .main_value = "ratio",
    .tables = TABLES("times", "rates", "parts"),
    .run = run,
};
