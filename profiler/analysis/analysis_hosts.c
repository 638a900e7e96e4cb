/* The table of a run's hosts: what their ranks do, mean over the ranks, beside the other hosts. */
#include "profiler/analysis/analysis_impl.h"
#include "profiler/analysis/host_load.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sums over the ranks of a host. */
struct host {
    double s[LK_PART_COUNT], late_n, late_s, own_s;
};

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define HOSTS(X)                                                                                   \
    X("host",        "host",             LK_DIM_NONE, -1, (const char *)is->name)                  \
    X("ranks",       "ranks",            LK_DIM_NONE, -1, n)                                       \
    X("compute_s",   "compute",          LK_DIM_TIME, 0,                                           \
      known ? (h.s[LK_PART_FORWARD] + h.s[LK_PART_BACKWARD]) / n : NAN)                            \
    X("input_s",     "input",            LK_DIM_TIME, 0,  h.s[LK_PART_INPUT] / n)                  \
    X("gap_s",       "host gaps",        LK_DIM_TIME, 0,  h.s[LK_PART_GAP] / n)                    \
    X("straggler_s", "waits for others", LK_DIM_TIME, 0,                                           \
      waits ? h.s[LK_PART_STRAGGLER] / n : NAN)                                                    \
    X("wire_s",      "blocking",         LK_DIM_TIME, 0,  h.s[LK_PART_WIRE] / n)                   \
    X("late_n",      "times last",       LK_DIM_NONE, -1, waits ? h.late_n : NAN)                  \
    X("late_by_s",   "by",               LK_DIM_TIME, 0,                                           \
      waits && h.late_n > 0 ? h.late_s / h.late_n : NAN)                                           \
    X("own_late_s",  "of it own",        LK_DIM_TIME, 0,                                           \
      waits && h.late_n > 0 ? h.own_s / h.late_n : NAN)                                            \
    X("others",      "other work, processors", LK_DIM_NONE, 2, use ? is->use.others : NAN)         \
    X("waited",      "waits for one",    LK_DIM_NONE, LK_TABLE_PERCENT,                            \
      use ? is->use.waited_s / is->use.window_s / (double)is->use.n_ranks : NAN)

static const struct lk_column columns[] = {HOSTS(LK_TABLE_COLUMN)};
/* clang-format on */

static struct host sum_host(const struct lk_analysis *a, const char *name)
{
    struct host h = {.late_n = 0};

    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_analysis_rank *r = &a->ranks[k];

        if (strcmp(a->run->traces[k].info.host, name) != 0)
            continue;
        for (int part = 0; part < LK_PART_COUNT; part++)
            h.s[part] += r->split.s[part];
        h.late_n += (double)r->n_late;
        h.late_s += (double)r->n_late * r->late_by_s;
        h.own_s += (double)r->n_late * r->own_late_s;
    }
    return h;
}

static enum lk_status add_host(const struct lk_analysis *a, const struct lk_run_host *is,
                               struct lk_table *t)
{
    bool known = lk_run_has_compute(a->run), waits = lk_knows_waits_(a), use = is->use.n_ranks > 0;
    const struct host h = sum_host(a, is->name);
    double n = (double)is->n;
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    HOSTS(LK_TABLE_CELL)
out:
    return st;
}

enum lk_status lk_analysis_hosts_(const struct lk_analysis *a, struct lk_table **out)
{
    struct lk_run_host *hosts = NULL;
    struct lk_table *t = NULL;
    enum lk_status st = LK_OK;
    size_t n = 0;

    LK_TRY(lk_run_hosts(a->run, &hosts, &n));
    if (n > 1) {
        LK_TRY(lk_analysis_create_(a, "Hosts", columns, LK_COUNT(columns), &t));
        for (size_t i = 0; i < n; i++)
            LK_TRY(add_host(a, &hosts[i], t));
        LK_TRY(lk_table_note(t,
                             "times of a step, mean over the host's ranks; waits for one: of its "
                             "threads, ready to run, for a processor"));
    }
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    free(hosts);
    return st;
}
