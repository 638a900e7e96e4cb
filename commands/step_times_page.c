/* The answer about a table of ranks' times in steps; see step_times_page.h. */
#include "commands/step_times_page.h"

#include "base/array.h"
#include "facts/forecast_answer.h"
#include "facts/run_facts.h"
#include "profiler/analysis/rank_list.h"
#include "profiler/analysis/step_turns.h"
#include "profiler/import/step_times.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What makes a step so much shorter is said of its ranks, as a loss of a waterfall is. */
static const double worth_saying = 0.03;
enum { SHOWN = 10 }; /* ranks, without --verbose */

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define RANKS(X)                                                                                   \
    X("rank",      "rank",             LK_DIM_NONE, -1, x->ranks[r->at])                           \
    X("host",      "host",             LK_DIM_NONE, -1, x->hosts[r->at])                           \
    X("own_s",     "own time",  LK_DIM_TIME,  0, r->mean_s)                                 \
    X("of_median", "of median",  LK_DIM_NONE,  2, r->mean_s / u->median_s)                   \
    X("slowest",   "slowest in", LK_DIM_NONE, -1, (double)r->last)                           \
    X("cost_s",    "costs a step", LK_DIM_TIME, 0, r->cost_s)
/* clang-format on */
static const struct lk_column columns[] = {RANKS(LK_TABLE_COLUMN)};

/* Add a table of the first ranks: all, or the slowest. */
static enum lk_status add_table(const struct lk_step_times *x, const struct lk_turns *u, size_t n,
                                const char *name, enum lk_page_place place, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create(n < u->n_ranks ? "The slowest ranks, by their own work"
                                          : "All ranks, by their own work without collectives",
                           columns, LK_COUNT(columns), &t));
    for (size_t i = 0; i < n; i++) {
        const struct lk_turns_rank *r = &u->ranks[i];

        LK_TRY(lk_table_row(t));
        RANKS(LK_TABLE_CELL)
    }
    if (u->n_steps < x->n_steps)
        LK_TRY(lk_table_note(t, "%zu of %zu steps lack the time of some rank: left out",
                             x->n_steps - u->n_steps, x->n_steps));
    LK_TRY(lk_page_table(page, name, place, NULL, 0, &t));
out:
    lk_table_destroy(t);
    return st;
}

/* Add the ranks; of many the slowest apart. */
static enum lk_status add_tables(const struct lk_step_times *x, const struct lk_turns *u,
                                 struct lk_page *page)
{
    bool many = u->n_ranks > SHOWN;

    if (many)
        LK_PASS(add_table(x, u, SHOWN, "slowest", LK_PAGE_MAIN, page));
    return add_table(x, u, u->n_ranks, "ranks", many ? LK_PAGE_DETAIL : LK_PAGE_MAIN, page);
}

/* Return the host of which the persistently slow ranks are all there are, two or more; or NULL. */
static const char *slow_host(const struct lk_step_times *t, const struct lk_turns *u)
{
    const char *host = t->hosts[u->ranks[0].at];
    size_t there = 0;

    for (size_t i = 0; i < u->n_persistent; i++)
        if (strcmp(t->hosts[u->ranks[i].at], host) != 0)
            return NULL;
    for (size_t k = 0; k < t->n_ranks; k++)
        there += !strcmp(t->hosts[k], host);
    return strcmp(host, LK_HOST_UNKNOWN) != 0 && there == u->n_persistent && there > 1 ? host
                                                                                       : NULL;
}

static int ascending(const void *a, const void *b)
{
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

/* Name the persistently slow ranks: "Rank 7 (host a) is", "Ranks 8-15, all of host b, are". */
static enum lk_status name_slow(const struct lk_step_times *t, const struct lk_turns *u, char *buf,
                                size_t size)
{
    const char *host = t->hosts[u->ranks[0].at], *whole = slow_host(t, u);
    int *ranks = NULL;
    char list[128];

    LK_PASS(lk_alloc(&ranks, u->n_persistent, sizeof *ranks));
    for (size_t i = 0; i < u->n_persistent; i++)
        ranks[i] = t->ranks[u->ranks[i].at];
    qsort(ranks, u->n_persistent, sizeof *ranks, ascending);
    lk_rank_list_text(ranks, u->n_persistent, list, sizeof list);
    free(ranks);
    if (u->n_persistent == 1 && !strcmp(host, LK_HOST_UNKNOWN))
        snprintf(buf, size, "Rank %s is", list);
    else if (u->n_persistent == 1)
        snprintf(buf, size, "Rank %s (host %.64s) is", list, host);
    else
        snprintf(buf, size, "%zu ranks (%s)%s%.64s%s are", u->n_persistent, list,
                 whole ? ", all of host " : "", whole ? whole : "", whole ? "," : "");
    return LK_OK;
}

static enum lk_status say_slow(const struct lk_step_times *t, const struct lk_turns *u,
                               struct lk_page *page)
{
    double gain = u->step_s > 0 ? 1 - u->without_s / u->step_s : 0;
    size_t last = 0;
    char who[320], without[40], steps[32];

    for (size_t i = 0; i < u->n_persistent; i++)
        last += u->ranks[i].last;
    if (!u->n_persistent || gain < worth_saying)
        return lk_page_say(page,
                           "It is not always the same rank: none is slowest so often that "
                           "steps without it would be %.0f %% shorter.",
                           100 * worth_saying);
    LK_PASS(name_slow(t, u, who, sizeof who));
    return lk_page_say(
        page,
        "%s slowest in %s of them: without %s a step's work would take %s, "
        "%.0f %% less.",
        who, last == u->n_steps ? "all" : lk_answer_number((double)last, steps, sizeof steps),
        u->n_persistent == 1 ? "it" : "them",
        lk_units_format(LK_DIM_TIME, u->without_s, without, sizeof without), 100 * gain);
}

enum lk_status step_times_page(const struct lk_step_times *t, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_turns u = {0};
    double waiting;
    char ranks[32], steps[32], most[40], mean[40];

    LK_TRY(lk_turns_of(t, &u));
    waiting = u.step_s > 0 ? 1 - u.mean_s / u.step_s : 0;
    LK_TRY(lk_page_value(page, "work_s", "", LK_DIM_TIME, u.step_s));
    LK_TRY(lk_page_value(page, "waiting", "", LK_DIM_NONE, waiting));
    LK_TRY(lk_page_value(page, "without_slow_s", "", LK_DIM_TIME, u.without_s));
    LK_TRY(lk_page_say(
        page,
        "%s ranks in %s step%s: the slowest of a step works %s, a rank %s on average: "
        "%.1f %% of the time is waiting.",
        lk_answer_number((double)t->n_ranks, ranks, sizeof ranks),
        lk_answer_number((double)u.n_steps, steps, sizeof steps), u.n_steps == 1 ? "" : "s",
        lk_units_format(LK_DIM_TIME, u.step_s, most, sizeof most),
        lk_units_format(LK_DIM_TIME, u.mean_s, mean, sizeof mean), 100 * waiting));
    LK_TRY(say_slow(t, &u, page));
    st = add_tables(t, &u, page);
out:
    lk_turns_fini(&u);
    return st;
}

enum lk_status step_times_analyze(const char *path, struct lk_page *page)
{
    struct lk_step_times t = {0};
    enum lk_status st = lk_step_times_read(path, &t);

    if (st == LK_OK)
        st = step_times_page(&t, page);
    lk_step_times_fini(&t);
    return st;
}
