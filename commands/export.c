/* lockstep export: writes a step of a run, measured or simulated, for another program. */
#include "base/array.h"
#include "base/file.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/output.h"
#include "commands/paths.h"
#include "facts/chakra.h"
#include "profiler/analysis/run_set.h"
#include "profiler/analysis/step_graph.h"
#include "reports/chakra.h"

#include <stdlib.h>
#include <string.h>

struct options {
    const char *out;
    bool force;
    const char *prefix;
    int64_t step;
    struct lk_page_options page;
    const char *log;
};

#define OPTION(...) ROW(struct options, __VA_ARGS__)

/* clang-format off */
static const struct lk_option rows[] = {
    OPTION("out", out, FILE, .role = LK_ROLE_FOLDER, .fallback = "chakra",
           .help = "folder of the files, new or empty: PREFIX.RANK.et, one a rank"),
    OPTION("prefix", prefix, TEXT, .fallback = "step", .help = "what the files' names begin with"),
    OPTION("step", step, INT, .min = -1, .max = UINT32_MAX, .fallback = "-1",
           .help = "optimizer step to write; -1: the one of median length after the warm-up"),
    OPTION(FORCE_OPTION),
    PAGE_ROWS(OPTION),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

/* ---- The step ---- */

struct length {
    double s;
    uint32_t step;
};

static int by_length(const void *a, const void *b)
{
    const struct length *x = a, *y = b;

    if (x->s < y->s || x->s > y->s)
        return x->s < y->s ? -1 : 1;
    return LK_ORDER(x->step, y->step);
}

/* Find the step of median length on the first rank. */
static enum lk_status median_step(const struct lk_run *run, uint32_t *out)
{
    struct length *v = NULL;

    if (!run->n_steps)
        return lk_fail(LK_EEVIDENCE, "%s: no step after the warm-up is complete on all ranks",
                       run->dir);
    LK_PASS(lk_alloc(&v, run->n_steps, sizeof *v));
    for (size_t i = 0; i < run->n_steps; i++)
        v[i] = (struct length){lk_step_window_s(lk_rank_step(&run->ranks[0], run->steps[i])),
                               run->steps[i]};
    qsort(v, run->n_steps, sizeof *v, by_length);
    *out = v[run->n_steps / 2].step;
    free(v);
    return LK_OK;
}

/* Check that all ranks have the step, with collectives, of which a trace for a simulator of
 * networks is. */
static enum lk_status check_step(const struct lk_run *run, uint32_t step)
{
    const struct lk_step *zero = lk_rank_step(&run->ranks[0], step);

    if (lk_run_is_grouped(run))
        return lk_fail(
            LK_EEVIDENCE,
            "%s: some collectives are of groups smaller than the job; which ranks are in "
            "one is not known",
            run->dir);
    for (int k = 0; k < lk_run_world_size(run); k++)
        if ((size_t)k >= run->n || lk_run_rank(run, (size_t)k) != k)
            return lk_fail(LK_EEVIDENCE,
                           "%s: rank %d of %d is not in the run; a simulator needs the trace of "
                           "each rank",
                           run->dir, k, lk_run_world_size(run));
    for (size_t k = 0; k < run->n; k++) {
        const struct lk_step *p = lk_rank_step(&run->ranks[k], step);

        if (!p)
            return lk_fail(LK_EEVIDENCE, "%s: step %u is not complete on rank %zu", run->dir, step,
                           k);
        if (p->n_collectives != zero->n_collectives)
            return lk_fail(LK_EEVIDENCE,
                           "%s: step %u has %zu collectives on rank 0, %zu on rank %zu", run->dir,
                           step, zero->n_collectives, p->n_collectives, k);
    }
    if (!zero->n_collectives)
        return lk_fail(LK_EEVIDENCE, "%s: step %u has no collectives%s", run->dir, step,
                       run->n == 1 ? ": the run has one rank" : "");
    return LK_OK;
}

/* ---- The files ---- */

/* A row of the table: a rank's file. */
struct summary {
    const char *file;
    size_t n_collectives;
    uint64_t bytes, work_us, step_us;
};

/* clang-format off */
#define COLUMNS(X)                                                                                 \
    X("rank",        "rank",        LK_DIM_NONE,  -1, (double)rank)                                \
    X("file",        "file",        LK_DIM_NONE,  -1, s.file)                                      \
    X("nodes",       "nodes",       LK_DIM_NONE,  -1, (double)g->n)                                \
    X("collectives", "collectives", LK_DIM_NONE,  -1, (double)s.n_collectives)                     \
    X("bytes",       "bytes",       LK_DIM_BYTES, -1, (double)s.bytes)                             \
    X("compute_s",   "compute",     LK_DIM_TIME,  -1, 1e-6 * (double)s.work_us)                    \
    X("step_s",      "step",        LK_DIM_TIME,  -1, 1e-6 * (double)s.step_us)

static const struct lk_column columns[] = {COLUMNS(LK_TABLE_COLUMN)};
/* clang-format on */

static enum lk_status add_row(struct lk_table *t, int rank, const char *file,
                              const struct lk_chakra_graph *g)
{
    enum lk_status st = LK_OK;
    struct summary s = {.file = file};

    for (size_t i = 0; i < g->n; i++) {
        const struct lk_chakra_node *node = &g->nodes[i];
        bool works = node->phase >= LK_CHAKRA_FORWARD && node->phase <= LK_CHAKRA_OPTIMIZER;

        s.n_collectives += node->type == LK_CHAKRA_COMM_COLL;
        s.bytes += node->bytes;
        s.work_us += works ? node->end_us - node->start_us : 0;
        s.step_us = node->end_us > s.step_us ? node->end_us : s.step_us;
    }
    LK_TRY(lk_table_row(t));
    COLUMNS(LK_TABLE_CELL)
out:
    return st;
}

static enum lk_status write_rank(const struct lk_run *run, size_t k, uint32_t step,
                                 const struct options *o, struct lk_table *t)
{
    const struct lk_run_info *info = &run->traces[k].info;
    const struct lk_chakra_about about = {.writer = "lockstep " LK_VERSION,
                                          .model = info->model,
                                          .rank = info->rank,
                                          .world_size = info->world_size,
                                          .step = step};
    enum lk_status st = LK_OK;
    struct lk_chakra_graph g = {0};
    char *path = NULL;

    LK_TRY(lk_step_graph(&run->traces[k], &run->ranks[k], lk_rank_step(&run->ranks[k], step), &g));
    LK_TRY(lk_asprintf(&path, "%s/%s.%d.et", o->out, o->prefix, info->rank));
    LK_TRY(lk_chakra_write(path, &about, &g));
    st = add_row(t, info->rank, path, &g);
out:
    free(path);
    lk_chakra_graph_fini(&g);
    return st;
}

static enum lk_status write_step(const struct lk_run *run, uint32_t step, const struct options *o,
                                 struct lk_table **out)
{
    char title[128];

    snprintf(title, sizeof title, "Exported: step %u as Chakra execution traces", step);
    LK_PASS(lk_table_create(title, columns, LK_COUNT(columns), out));
    LK_PASS(lk_mkdirs(o->out));
    for (size_t k = 0; k < run->n; k++)
        LK_PASS(write_rank(run, k, step, o, *out));
    return lk_table_note(*out, "a collective's duration has waiting for other ranks in it; a "
                               "simulator of networks computes it anew");
}

static enum lk_status run(void *options, const char **dirs, int n, struct lk_page *page)
{
    const struct options *o = options;
    static const struct lk_view_column view[] = {LK_VIEW("rank"),        LK_VIEW("nodes"),
                                                 LK_VIEW("collectives"), LK_VIEW("bytes"),
                                                 LK_VIEW("compute_s"),   LK_VIEW("step_s")};
    enum lk_status st = LK_OK;
    struct lk_run_set set = {0};
    struct lk_table *table = NULL;
    uint32_t step = (uint32_t)o->step;

    if (strchr(o->prefix, '/'))
        return lk_fail(LK_EUSAGE, "--prefix=%s: is no beginning of a file's name", o->prefix);
    LK_TRY(claim_folder(o->out, o->force));
    LK_TRY(lk_run_set_read(dirs, (size_t)n, &set));
    if (set.n != 1)
        LK_TRY(lk_fail(LK_EUSAGE, "%s: has %zu runs; name one, e.g. %s", dirs[0], set.n,
                       set.runs[0].dir));
    if (o->step < 0)
        LK_TRY(median_step(&set.runs[0], &step));
    LK_TRY(check_step(&set.runs[0], step));
    LK_TRY(write_step(&set.runs[0], step, o, &table));
    LK_TRY(lk_page_say(page, "Step %u of %s is written for %zu rank%s: %s/%s.RANK.et.", step,
                       set.runs[0].dir, set.runs[0].n, set.runs[0].n == 1 ? "" : "s", o->out,
                       o->prefix));
    if (set.runs[0].n == 1)
        LK_TRY(lk_page_note(page, "the run has one rank: its collectives moved nothing"));
    LK_TRY(lk_page_table(page, "files", LK_PAGE_MAIN, view, LK_COUNT(view), &table));
    st = lk_page_next(page, "ASTRA-sim: --workload-configuration=%s/%s, with roofline-enabled 0",
                      o->out, o->prefix);
out:
    lk_table_destroy(table);
    lk_run_set_fini(&set);
    return st;
}

const struct lk_command lk_command_export = {
    .name = "export",
    .usage = "RUN",
    .help = "write a step of a run as Chakra execution traces, for ASTRA-sim and others",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = 1,
    .no_operand = "which run? e.g. lockstep export run/ --out chakra",
    .tables = TABLES("files"),
    .run = run,
};
