/* The table, scores and answer of back-tests. */
#include "sim/forecast/backtest.h"

#include "base/array.h"
#include "facts/score.h"

#include <math.h>
#include <stdlib.h>

static double percent(double predicted, double measured)
{
    return 100 * (predicted / measured - 1);
}

/* X(name, heading, dimension, digits, value): an item's row. */
#define COLUMNS(X)                                                                                 \
    X("held_out", "held out", LK_DIM_NONE, -1, b->what)                                            \
    X("nodes", "nodes", LK_DIM_NONE, -1, item->config.nodes)                                       \
    X("local_batch", "local batch", LK_DIM_NONE, -1,                                               \
      item->config.local_batch > 0 ? (double)item->config.local_batch : NAN)                       \
    X("accumulation", "accum.", LK_DIM_NONE, -1, item->config.accumulation)                        \
    X("measured_s", "measured", LK_DIM_TIME, -1, b->measured_s)                                    \
    X("predicted_s", "predicted", LK_DIM_TIME, -1, b->predicted_s)                                 \
    X("lo_s", "from", LK_DIM_TIME, -1, b->lo_s)                                                    \
    X("hi_s", "to", LK_DIM_TIME, -1, b->hi_s)                                                      \
    X("error_percent", "error, %", LK_DIM_NONE, 1, percent(b->predicted_s, b->measured_s))         \
    X("inside", "inside", LK_DIM_NONE, -1,                                                         \
      b->measured_s >= b->lo_s && b->measured_s <= b->hi_s ? "yes" : "no")                         \
    X("proportional_percent", "proportional", LK_DIM_NONE, 1, BASELINE_(PROPORTIONAL))             \
    X("line_percent", "line", LK_DIM_NONE, 1, BASELINE_(LINE))                                     \
    X("amdahl_percent", "Amdahl", LK_DIM_NONE, 1, BASELINE_(AMDAHL))                               \
    X("pollux_percent", "Pollux", LK_DIM_NONE, 1, BASELINE_(POLLUX))
#define BASELINE_(which) percent(item->baseline_s[LK_BASELINE_##which], b->measured_s)

/* The last column is left out where no item knows the law. */
static const struct lk_column columns[] = {
    COLUMNS(LK_TABLE_COLUMN){"law_percent", "law alone", LK_DIM_NONE, 1}};

static bool knows_law(const struct lk_backtests *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->items[i].law_s > 0)
            return true;
    return false;
}

static enum lk_status add_row(struct lk_table *t, const struct lk_backtest_item *item)
{
    enum lk_status st = LK_OK;
    const struct lk_backtest *b = &item->test;

    LK_TRY(lk_table_row(t));
    COLUMNS(LK_TABLE_CELL)
    if (item->law_s > 0)
        LK_TRY(lk_table_number(t, "law_percent", percent(item->law_s, b->measured_s)));
out:
    return st;
}

enum lk_status lk_backtest_baseline_errors(const struct lk_backtests *b, enum lk_baseline baseline,
                                           struct lk_score_errors *out)
{
    enum lk_status st = LK_OK;
    double *measured = NULL, *predicted = NULL;

    LK_TRY(lk_alloc(&measured, b->n, sizeof *measured));
    LK_TRY(lk_alloc(&predicted, b->n, sizeof *predicted));
    for (size_t i = 0; i < b->n; i++) {
        measured[i] = b->items[i].test.measured_s;
        predicted[i] = b->items[i].baseline_s[baseline];
    }
    LK_TRY(lk_score_errors_of(measured, predicted, b->n, out));
out:
    free(measured);
    free(predicted);
    return st;
}

enum lk_status lk_backtest_score(const struct lk_backtests *b, struct lk_score *out)
{
    enum lk_status st = LK_OK;
    struct lk_scored *v = NULL;

    LK_TRY(lk_alloc(&v, b->n, sizeof *v));
    for (size_t i = 0; i < b->n; i++) {
        const struct lk_backtest *test = &b->items[i].test;

        v[i] = (struct lk_scored){test->measured_s, test->predicted_s, test->lo_s, test->hi_s};
    }
    LK_TRY(lk_score_of(v, b->n, b->level, out));
out:
    free(v);
    return st;
}

static enum lk_status add_summary(struct lk_table *t, const struct lk_backtests *b)
{
    struct lk_score score;

    LK_PASS(lk_backtest_score(b, &score));
    LK_PASS(lk_score_note(&score, t));
    for (int k = 0; k < LK_BASELINE_COUNT; k++) {
        struct lk_score_errors e;

        LK_PASS(lk_backtest_baseline_errors(b, (enum lk_baseline)k, &e));
        if (e.n)
            LK_PASS(lk_table_note(t,
                                  "%s, error of %zu: mean %.2f %%, median %.2f %%, worst %.2f %%",
                                  lk_baseline_text((enum lk_baseline)k), e.n, 100 * e.mean,
                                  100 * e.median, 100 * e.worst));
    }
    return lk_table_note(t, "of a batch, cap or accumulation: proportional is the time a sample of "
                            "the nearest, line the one through the nearest two");
}

enum lk_status lk_backtest_table(const struct lk_backtests *b, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create("Runs that were held out and predicted from the others", columns,
                           LK_COUNT(columns) - !knows_law(b), &t));
    for (size_t i = 0; i < b->n; i++)
        LK_TRY(add_row(t, &b->items[i]));
    if (b->n)
        LK_TRY(add_summary(t, b));
    else
        LK_TRY(lk_table_note(t, "nothing could be held out: runs at two or more counts of GPUs, or "
                                "compute at three or more local batches, are needed"));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

/* ---- Answer ---- */

/* Append the mean error of each baseline that applies: "; baselines: proportional 4.3 %, ...". */
static enum lk_status append_baselines(const struct lk_backtests *b, char **text)
{
    bool any = false;

    for (int k = 0; k < LK_BASELINE_COUNT; k++) {
        struct lk_score_errors e;
        char *longer;

        LK_PASS(lk_backtest_baseline_errors(b, (enum lk_baseline)k, &e));
        if (!e.n)
            continue;
        LK_PASS(lk_asprintf(&longer, "%s%s %s %.1f %%", *text, any ? "," : "; simple baselines:",
                            lk_baseline_name((enum lk_baseline)k), 100 * e.mean));
        free(*text);
        *text = longer;
        any = true;
    }
    return LK_OK;
}

enum lk_status lk_backtest_answer(const struct lk_backtests *b, char **out)
{
    enum lk_status st = LK_OK;
    struct lk_score score;
    char *text = NULL, *longer;

    LK_TRY(lk_backtest_score(b, &score));
    LK_TRY(lk_asprintf(&text,
                       "%zu of %zu held-out runs lie%s inside the %.0f %% interval; mean error "
                       "%.1f %%, worst %.1f %%",
                       score.inside, score.n, score.n == 1 && score.inside == 1 ? "s" : "",
                       100 * b->level, 100 * score.errors.mean, 100 * score.errors.worst));
    LK_TRY(append_baselines(b, &text));
    LK_TRY(lk_asprintf(&longer, "%s.", text));
    *out = longer;
out:
    free(text);
    return st;
}
