/* lockstep import, of training programs' logs: makes a table of throughputs (CSV). Divisions: the
 * batch, a log, the table. */
#include "base/array.h"
#include "base/file.h"
#include "base/stats.h"
#include "commands/import_impl.h"
#include "commands/ledger_score.h"
#include "commands/output.h"
#include "facts/bounds.h"
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
    int local_batch, accumulation;
    bool assumed; /* the log says neither the accumulation nor the global batch */
    int tokens;   /* of a sample; 0: not known, and in a log that counts tokens a sample is one */
    size_t steps;
    double rate, lo, hi; /* units a second, of all GPUs; median, 5 % and 95 % of the lines */
};

/* clang-format off */
#define ROWS(X)                                                                                    \
    X("log",        "log",         LK_DIM_NONE, -1, r->file)                                       \
    X("program",    "program",     LK_DIM_NONE, -1, r->format)                                     \
    X("gpus",       "GPUs",        LK_DIM_NONE, -1, (double)r->gpus)                               \
    X("nodes",      "nodes",       LK_DIM_NONE, -1, r->nodes ? (double)r->nodes : NAN)             \
    X("local_batch", "local batch", LK_DIM_NONE, -1, (double)r->local_batch)                       \
    X("accumulation", "accumulation", LK_DIM_NONE, -1, (double)r->accumulation)                    \
    X("lines",      "lines used",  LK_DIM_NONE, -1, (double)r->steps)                              \
    X("throughput", "units/s",     LK_DIM_NONE, 1,  r->rate)                                       \
    X("p5",         "p5",          LK_DIM_NONE, 1,  r->lo)                                         \
    X("p95",        "p95",         LK_DIM_NONE, 1,  r->hi)

static const struct lk_column columns[] = {ROWS(LK_TABLE_COLUMN)};
/* clang-format on */

/* ---- The batch ---- */

/* Return what both say, or the one that does; LK_EUSAGE if they differ. */
static enum lk_status agree(const char *file, const char *option, int given,
                            const struct lk_training_log *l, enum lk_training_setting setting,
                            int *out)
{
    int said = l->settings[setting];

    if (given && said && given != said)
        return lk_fail(LK_EUSAGE, "%s: says %d %s, --%s says %d", file, said,
                       lk_training_setting_name(setting), option, given);
    *out = given ? given : said;
    return LK_OK;
}

/*
 * Find the micro-batch of a GPU and how many of them are in a step. A log gives some of the five
 * numbers in: global batch = micro-batch x accumulation x ranks. All that it gives must agree.
 */
static enum lk_status find_batch(const struct import_options *o, const char *file,
                                 const struct lk_training_log *l, struct job *j)
{
    int ranks = l->settings[LK_TRAINING_RANKS];
    int64_t global = l->settings[LK_TRAINING_GLOBAL_BATCH], of_all;

    LK_PASS(
        agree(file, "local-batch", o->local_batch, l, LK_TRAINING_MICRO_BATCH, &j->local_batch));
    if (!j->local_batch)
        return lk_fail(LK_EUSAGE,
                       "%s: does not say how many %ss a micro-batch has on a GPU: --local-batch",
                       file, j->unit);
    j->accumulation = l->settings[LK_TRAINING_ACCUMULATION];
    if (!ranks && global && j->accumulation &&
        global % ((int64_t)j->local_batch * j->accumulation) == 0)
        ranks = (int)(global / ((int64_t)j->local_batch * j->accumulation));
    if (ranks > j->gpus)
        return lk_fail(LK_EUSAGE, "%s: says %d data-parallel ranks, which do not fit %d GPUs", file,
                       ranks, j->gpus);
    if (ranks && ranks != j->gpus)
        return lk_fail(LK_EUSAGE,
                       "%s: its %d GPUs are %d data-parallel rank%s (tensor, pipeline or context "
                       "parallelism): a row is of GPUs that each have a whole model",
                       file, j->gpus, ranks, ranks == 1 ? "" : "s");
    of_all = (int64_t)j->local_batch * j->gpus;
    j->assumed = !j->accumulation && !global;
    if (!j->accumulation)
        j->accumulation =
            global >= of_all && global / of_all <= LK_ACCUMULATION_MAX ? (int)(global / of_all) : 1;
    if (global && global != of_all * j->accumulation)
        return lk_fail(LK_EUSAGE,
                       "%s: says %lld samples a step, which is not %d GPUs x %d samples x %d "
                       "micro-batches",
                       file, (long long)global, j->gpus, j->local_batch, j->accumulation);
    return LK_OK;
}

/* ---- A log ---- */

static enum lk_status read_job(const struct import_options *o, const char *file, int i,
                               struct job *out)
{
    struct lk_training_log l = {0};
    enum lk_status st = LK_OK;
    double units = 1; /* of a line's unit, all GPUs, in one of the row's */
    size_t skip;

    LK_TRY(lk_training_log_read(file, &l));
    skip = l.n > 1 ? l.n / WARM_UP_SHARE + (l.n < WARM_UP_SHARE) : 0;
    *out = (struct job){.file = file, .format = l.format, .unit = l.unit, .steps = l.n - skip};
    out->nodes = bench_item_of(&o->bench.nodes, i);
    LK_TRY(agree(file, "gpus", bench_item_of(&o->bench.gpus, i), &l, LK_TRAINING_GPUS, &out->gpus));
    if (!out->gpus)
        LK_TRY(lk_fail(LK_EUSAGE,
                       "%s: does not say on how many GPUs it ran: --gpus, one number a log", file));
    if (l.per_gpu) {
        out->tokens = l.settings[LK_TRAINING_TOKENS];
        units = (double)out->gpus / (out->tokens ? out->tokens : 1);
        out->unit = out->tokens ? "sample" : l.unit;
    }
    LK_TRY(find_batch(o, file, &l, out));
    for (size_t k = skip; k < l.n; k++)
        l.rates[k] *= units;
    out->rate = lk_stats_median(l.rates + skip, out->steps);
    out->lo = lk_stats_quantile(l.rates + skip, out->steps, 0.05);
    out->hi = lk_stats_quantile(l.rates + skip, out->steps, 0.95);
out:
    lk_training_log_fini(&l);
    return st;
}

/* Refuse logs whose rates are of different things. */
static enum lk_status check_units(const struct job *j, const struct job *first)
{
    if (strcmp(j->unit, first->unit))
        return lk_fail(LK_EUSAGE, "%s counts %ss, %s %ss: import them apart", j->file, j->unit,
                       first->file, first->unit);
    if (j->tokens != first->tokens)
        return lk_fail(LK_EUSAGE, "%s has samples of %d tokens, %s of %d: import them apart",
                       j->file, j->tokens, first->file, first->tokens);
    return LK_OK;
}

/* ---- The table ---- */

static enum lk_status write_csv(const struct import_options *o, const struct job *jobs, int n)
{
    struct lk_writer *w = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_writer_open(o->out, false, &w));
    LK_TRY(lk_writer_printf(w, "gpus%s,throughput,local_batch,accumulation\n",
                            jobs[0].nodes ? ",nodes" : ""));
    for (int i = 0; i < n; i++) {
        LK_TRY(lk_writer_printf(w, "%d", jobs[i].gpus));
        if (jobs[0].nodes)
            LK_TRY(lk_writer_printf(w, ",%d", jobs[i].nodes));
        LK_TRY(lk_writer_printf(w, ",%.6g,%d,%d\n", jobs[i].rate, jobs[i].local_batch,
                                jobs[i].accumulation));
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

/* Score the forecasts that were made from the table when it lacked these rows. */
static enum lk_status score(const struct job *jobs, int n, const char *out, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    const char *slash = strrchr(out, '/');
    struct lk_job table = {.name = (char *)(uintptr_t)(slash ? slash + 1 : out)};
    double *steps = NULL;

    LK_TRY(lk_alloc(&table.runs, (size_t)n, sizeof *table.runs));
    LK_TRY(lk_alloc(&steps, (size_t)n, sizeof *steps));
    for (const struct job *j = jobs; j < jobs + n; j++) {
        struct lk_job_run *r = &table.runs[table.n_runs];

        r->source = (char *)(uintptr_t)j->file;
        r->config = (struct lk_config){.world_size = j->gpus,
                                       .nodes = j->nodes,
                                       .local_batch = j->local_batch,
                                       .accumulation = j->accumulation,
                                       .reduce = LK_REDUCTION_LAST};
        steps[table.n_runs] = lk_config_samples(&r->config) / j->rate;
        r->step_s = &steps[table.n_runs++];
        r->n_steps = 1;
    }
    LK_TRY(ledger_score(out, &table, NULL, NULL, page));
out:
    free(steps);
    free(table.runs);
    return st;
}

enum lk_status import_throughput(const struct import_options *o, const char **files, int n,
                                 struct lk_page *page)
{
    static const struct lk_view_column view[] = {
        LK_VIEW("gpus"),        LK_VIEW("nodes"),        LK_VIEW_RANGE("throughput", "p5", "p95"),
        LK_VIEW("local_batch"), LK_VIEW("accumulation"), LK_VIEW("lines"),
        LK_VIEW("program"),     LK_VIEW("log")};
    enum lk_status st = LK_OK;
    struct lk_table *table = NULL;
    struct job *jobs = NULL;
    char tokens[32] = "";

    LK_TRY(bench_check_items("gpus", (int)o->bench.gpus.n, n));
    LK_TRY(bench_check_items("nodes", (int)o->bench.nodes.n, n));
    LK_TRY(lk_alloc(&jobs, (size_t)n, sizeof *jobs));
    for (int i = 0; i < n; i++) {
        LK_TRY(read_job(o, files[i], i, &jobs[i]));
        LK_TRY(check_units(&jobs[i], &jobs[0]));
    }
    if (jobs[0].tokens)
        snprintf(tokens, sizeof tokens, " of %d tokens", jobs[0].tokens);
    LK_TRY(lk_table_create("Throughputs", columns, LK_COUNT(columns), &table));
    LK_TRY(fill(jobs, n, table));
    LK_TRY(lk_table_note(table,
                         "a unit is a %s%s; the median of each log's lines but for the first "
                         "quarter, which are of warming up",
                         jobs[0].unit, tokens));
    for (int i = 0; i < n; i++)
        if (jobs[i].assumed)
            LK_TRY(lk_page_note(
                page, "%s does not say how many micro-batches a step has: one is taken", files[i]));
    LK_TRY(write_csv(o, jobs, n));
    LK_TRY(say(jobs, n, page));
    LK_TRY(score(jobs, n, o->out, page));
    LK_TRY(lk_page_table(page, "throughputs", LK_PAGE_MAIN, view, LK_COUNT(view), &table));
    LK_TRY(lk_page_next(page, "table: %s", o->out));
    LK_TRY(lk_page_next(page, "next: lockstep predict --throughput %s --gpus ...", o->out));
out:
    lk_table_destroy(table);
    free(jobs);
    return st;
}
