/* lockstep import, of training programs' logs: makes a table of throughputs (CSV). */
#include "base/array.h"
#include "base/file.h"
#include "base/stats.h"
#include "commands/import_impl.h"
#include "commands/output.h"
#include "profiler/import/training_log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first lines are of warming up: one in so many is left out, and at least one. */
enum { WARM_UP_SHARE = 4 };

/* A row of the table. */
struct job {
    const char *file, *format, *unit;
    int gpus, nodes; /* nodes 0: not known */
    size_t steps;
    double rate, lo, hi; /* units a second, of all GPUs; median, 5 % and 95 % of the lines */
};

/* clang-format off */
#define ROWS(X)                                                                                    \
    X("log",        "log",         LK_DIM_NONE, -1, r->file)                                       \
    X("program",    "program",     LK_DIM_NONE, -1, r->format)                                     \
    X("gpus",       "GPUs",        LK_DIM_NONE, -1, (double)r->gpus)                               \
    X("nodes",      "nodes",       LK_DIM_NONE, -1, r->nodes ? (double)r->nodes : NAN)             \
    X("lines",      "lines used",  LK_DIM_NONE, -1, (double)r->steps)                              \
    X("throughput", "units/s",     LK_DIM_NONE, 1,  r->rate)                                       \
    X("p5",         "p5",          LK_DIM_NONE, 1,  r->lo)                                         \
    X("p95",        "p95",         LK_DIM_NONE, 1,  r->hi)

static const struct lk_column columns[] = {ROWS(LK_TABLE_COLUMN)};
/* clang-format on */

static enum lk_status read_job(const struct import_options *o, const char *file, int i,
                               struct job *out)
{
    struct lk_training_log l = {0};
    enum lk_status st = LK_OK;
    size_t skip;

    LK_TRY(lk_training_log_read(file, &l));
    skip = l.n > 1 ? l.n / WARM_UP_SHARE + (l.n < WARM_UP_SHARE) : 0;
    *out = (struct job){.file = file, .format = l.format, .unit = l.unit, .steps = l.n - skip};
    out->gpus = import_item_of(&o->gpus, i) ? import_item_of(&o->gpus, i) : l.gpus;
    if (l.gpus && l.gpus != out->gpus)
        LK_TRY(lk_fail(LK_EUSAGE, "%s: says that it ran on %d GPUs, --gpus says %d", file, l.gpus,
                       out->gpus));
    out->nodes = import_item_of(&o->nodes, i);
    if (!out->gpus)
        LK_TRY(lk_fail(LK_EUSAGE,
                       "%s: does not say on how many GPUs it ran: --gpus, one number a log", file));
    for (size_t k = skip; k < l.n && l.per_gpu; k++)
        l.rates[k] *= out->gpus;
    out->rate = lk_stats_median(l.rates + skip, out->steps);
    out->lo = lk_stats_quantile(l.rates + skip, out->steps, 0.05);
    out->hi = lk_stats_quantile(l.rates + skip, out->steps, 0.95);
out:
    lk_training_log_fini(&l);
    return st;
}

static enum lk_status write_csv(const struct import_options *o, const struct job *jobs, int n)
{
    struct lk_writer *w = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_writer_open(o->out, false, &w));
    LK_TRY(lk_writer_printf(w, "gpus%s,throughput%s\n", jobs[0].nodes ? ",nodes" : "",
                            o->local_batch ? ",local_batch" : ""));
    for (int i = 0; i < n; i++) {
        LK_TRY(lk_writer_printf(w, "%d", jobs[i].gpus));
        if (jobs[0].nodes)
            LK_TRY(lk_writer_printf(w, ",%d", jobs[i].nodes));
        LK_TRY(lk_writer_printf(w, ",%.6g", jobs[i].rate));
        if (o->local_batch)
            LK_TRY(lk_writer_printf(w, ",%lld", (long long)o->local_batch));
        LK_TRY(lk_writer_printf(w, "\n"));
    }
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    return st;
}

static enum lk_status fill(const struct job *jobs, int n, struct lk_table *t)
{
    enum lk_status st = LK_OK;

    for (const struct job *r = jobs; r < jobs + n; r++) {
        LK_TRY(lk_table_row(t));
        ROWS(LK_TABLE_CELL)
    }
out:
    return st;
}

/* Say what the log of the most GPUs has, and how that compares with the one of the fewest. */
static enum lk_status say(const struct job *jobs, int n, struct lk_page *page)
{
    const struct job *most = jobs, *least = jobs;
    char efficiency[96] = "", labels[32];

    for (const struct job *j = jobs; j < jobs + n; j++) {
        most = j->gpus > most->gpus ? j : most;
        least = j->gpus < least->gpus ? j : least;
    }
    if (most->gpus > least->gpus)
        snprintf(efficiency, sizeof efficiency, ", %.0f %% of linear scaling against %d",
                 100 * most->rate / most->gpus / (least->rate / least->gpus), least->gpus);
    for (const struct job *j = jobs; j < jobs + n; j++) {
        snprintf(labels, sizeof labels, "gpus=\"%d\"", j->gpus);
        LK_PASS(lk_page_value(page, "throughput_per_s", labels, LK_DIM_NONE, j->rate));
    }
    return lk_page_say(page, "Read %d log%s: %d GPU%s make %.6g %ss/s%s.", n, n == 1 ? "" : "s",
                       most->gpus, most->gpus == 1 ? "" : "s", most->rate, most->unit, efficiency);
}

enum lk_status import_throughput(const struct import_options *o, const char **files, int n,
                                 struct lk_page *page)
{
    static const struct lk_view_column view[] = {
        LK_VIEW("gpus"),  LK_VIEW("nodes"),   LK_VIEW_RANGE("throughput", "p5", "p95"),
        LK_VIEW("lines"), LK_VIEW("program"), LK_VIEW("log")};
    enum lk_status st = LK_OK;
    struct lk_table *table = NULL;
    struct job *jobs = NULL;

    LK_TRY(import_check_items("gpus", (int)o->gpus.n, n));
    LK_TRY(import_check_items("nodes", (int)o->nodes.n, n));
    LK_TRY(lk_alloc(&jobs, (size_t)n, sizeof *jobs));
    for (int i = 0; i < n; i++) {
        LK_TRY(read_job(o, files[i], i, &jobs[i]));
        if (strcmp(jobs[i].unit, jobs[0].unit))
            LK_TRY(lk_fail(LK_EUSAGE, "%s counts %ss, %s %ss: import them apart", files[i],
                           jobs[i].unit, files[0], jobs[0].unit));
    }
    LK_TRY(lk_table_create("Throughputs", columns, LK_COUNT(columns), &table));
    LK_TRY(fill(jobs, n, table));
    LK_TRY(lk_table_note(table,
                         "a unit is a %s; the median of each log's lines but for the first "
                         "quarter, which are of warming up",
                         jobs[0].unit));
    LK_TRY(write_csv(o, jobs, n));
    LK_TRY(say(jobs, n, page));
    LK_TRY(lk_page_table(page, "throughputs", LK_PAGE_MAIN, view, LK_COUNT(view), &table));
    LK_TRY(lk_page_rest(page, "table: %s", o->out));
    LK_TRY(lk_page_rest(page, "next: lockstep predict --throughput %s --gpus ...", o->out));
out:
    lk_table_destroy(table);
    free(jobs);
    return st;
}
