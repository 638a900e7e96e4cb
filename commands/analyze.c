/* lockstep analyze: prints where the time of measured runs went. */
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/run_facts.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/output.h"
#include "profiler/analysis.h"
#include "profiler/import/import.h"
#include "profiler/pipeline/stragglers.h"

#include <stdlib.h>
#include <string.h>

struct options {
    const char *reference;
    int64_t step;
    bool brief;
    struct lk_page_options page;
    struct lk_gate_options gate;
    const char *log;
};

#define OPTION(...) ROW(struct options, __VA_ARGS__)

/* clang-format off */
static const struct lk_option rows[] = {
    OPTION("reference", reference, FILE, .role = LK_ROLE_INPUT,
           .help = "run that gives the ideal step (default: the one with fewest ranks)"),
    OPTION("step", step, INT, .min = -1, .max = UINT32_MAX, .fallback = "-1",
           .help = "show every collective of this optimizer step instead, or of a pipeline's operations the stragglers of this step; -1: off"),
    OPTION("brief", brief, FLAG,
           .help = "print the waterfall and the findings alone; of a pipeline's operations all but the steps"),
    PAGE_ROWS(OPTION),
    GATE_ROWS(OPTION, "efficiency"),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

/* --brief shows the tables up to this one. */
enum { BRIEF_TABLES = LK_ANALYSIS_FINDINGS + 1 };

/* Analyze a run and make its tables, LK_ANALYSIS_TABLES at most; NULL: it has no such table.
 * imported: it was read from another program's files. */
static enum lk_status analyze_run(const struct lk_run *run, const struct lk_run_set *references,
                                  const struct options *opt, bool imported,
                                  struct lk_table **tables)
{
    enum lk_status st = LK_OK;
    const struct lk_run **refs = NULL;
    struct lk_analysis a = {0};
    size_t n;

    LK_TRY(lk_alloc(&refs, references->n, sizeof(struct lk_run *)));
    n = lk_analysis_reference(references, run, refs);
    if (!n && opt->reference) {
        st = lk_fail(LK_EUSAGE, "%s: it has no run that can be the reference of %s", opt->reference,
                     run->dir);
        goto out;
    }
    LK_TRY(lk_analyze(run, refs, n, &a));
    if (opt->step >= 0)
        LK_TRY(lk_analysis_step_table(&a, (uint32_t)opt->step, &tables[0]));
    else
        for (int i = 0; i < (opt->brief ? BRIEF_TABLES : (int)LK_ANALYSIS_TABLES); i++)
            if (i != LK_ANALYSIS_TIME || !imported) /* the import's own table has it */
                LK_TRY(lk_analysis_table(&a, (enum lk_analysis_kind)i, &tables[i]));
out:
    lk_analysis_fini(&a);
    free(refs);
    return st;
}

/*
 * Return true if a run is shown. Runs of the smallest world size are the reference of the others:
 * they are shown when there are no others, or when another run is the reference.
 */
static bool shown(const struct lk_run_set *set, size_t i, bool own_reference)
{
    int smallest = lk_run_about(&set->runs[0])->world_size;
    int largest = lk_run_about(&set->runs[set->n - 1])->world_size;

    return own_reference || smallest == largest ||
           lk_run_about(&set->runs[i])->world_size > smallest;
}

/* Warn of runs whose times mean nothing, because their ranks shared a GPU. */
static enum lk_status check_runs(const struct lk_run_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        struct lk_run_facts facts;

        LK_PASS(lk_run_facts_read(lk_run_about(&set->runs[i]), &facts));
        if (facts.shared_gpu)
            lk_log(LK_LOG_MAIN, LK_WARN, "%s: its ranks shared a GPU, so its times mean nothing",
                   set->runs[i].dir);
    }
    return LK_OK;
}

/* An import has three tables of its own: before the run's it shows which collectives wait or
 * differ, behind them what its GPUs did, and which ranks others waited for. */
enum { IMPORT_SEQUENCES, IMPORT_GPUS, IMPORT_LATENESS, IMPORT_TABLES };

/* Read traces of another program as one run, and make the tables, some of which may be NULL. */
static enum lk_status import_run(const char **paths, size_t n, struct lk_run_set *set,
                                 struct lk_table **tables)
{
    enum lk_status st = LK_OK;
    struct lk_import run = {0};
    char **files = NULL;
    size_t n_files = 0;

    LK_TRY(lk_import_files(paths, n, &files, &n_files));
    LK_TRY(lk_import_run(files, n_files, &(struct lk_import_options){0}, &run));
    LK_TRY(lk_import_table(&run, &tables[IMPORT_GPUS]));
    LK_TRY(lk_lateness_table(&run.lateness, &tables[IMPORT_LATENESS]));
    LK_TRY(lk_sequences_table(&run.sequences, &tables[IMPORT_SEQUENCES]));
    if (run.no_steps)
        goto out;
    LK_TRY(lk_alloc(&set->runs, 1, sizeof *set->runs));
    LK_TRY(lk_run_take(paths[0], run.traces, run.n, &set->runs[0]));
    run.traces = NULL;
    if (set->runs[0].n_steps) {
        set->n = 1;
        goto out;
    }
    lk_run_fini(&set->runs[0]);
    st = lk_table_note(tables[IMPORT_GPUS],
                       "no step is complete: neither a forward and a backward of each "
                       "micro-batch, nor the same collectives on all ranks");
out:
    lk_import_fini(&run);
    lk_names_free(files, n_files);
    return st;
}

/* ---- The operations of a pipeline ---- */

static enum lk_status run_pipeline(const struct options *opt, const char **paths, int n,
                                   struct lk_page *page)
{
    enum lk_status st = LK_OK;
    static const char *const names[LK_PIPE_TABLES] = {"stragglers", "causes", "steps"};
    struct lk_table *tables[LK_PIPE_TABLES] = {0};
    struct lk_pipe_ops ops = {0};
    struct lk_replay replay = {0};
    struct lk_pipe_stragglers s = {0};
    int n_tables = opt->brief || opt->step >= 0 ? LK_PIPE_TABLE_STEPS : LK_PIPE_TABLES;

    if (n > 1 || opt->reference)
        LK_TRY(lk_fail(LK_EUSAGE,
                       "%s: the operations of a pipeline are analyzed one file at a time, without "
                       "--reference",
                       paths[0]));
    LK_TRY(lk_pipe_ops_read(paths[0], &ops));
    LK_TRY(lk_replay_build(&ops, &replay));
    LK_TRY(lk_pipe_stragglers(&replay, opt->step, &s));
    for (int i = 0; i < n_tables; i++)
        LK_TRY(lk_pipe_stragglers_table(&s, (enum lk_pipe_table)i, &tables[i]));
    for (int i = 0; i < n_tables; i++)
        LK_TRY(lk_page_table(page, names[i], LK_PAGE_MAIN, NULL, 0, &tables[i]));
out:
    for (int i = 0; i < LK_PIPE_TABLES; i++)
        lk_table_destroy(tables[i]);
    lk_pipe_stragglers_fini(&s);
    lk_replay_fini(&replay);
    lk_pipe_ops_fini(&ops);
    return st;
}

/* Return the name of table i of n. */
static const char *name_of(size_t i, size_t n)
{
    static const char *const names[LK_ANALYSIS_TABLES] = {
        "waterfall", "findings", "ranks", "overlap", "buckets", "stragglers", "gpus", "time"};

    if (i == 0)
        return "sequences";
    if (i + 2 >= n)
        return i + 2 == n ? "traces" : "lateness";
    return names[(i - 1) % LK_ANALYSIS_TABLES];
}

static enum lk_status run(void *options, const char **dirs, int n, struct lk_page *page)
{
    const struct options *opt = options;
    enum lk_status st = LK_OK;
    struct lk_run_set set = {0}, reference = {0};
    struct lk_table **tables = NULL, *imported[IMPORT_TABLES] = {NULL};
    size_t n_tables = 0;
    bool is_import;

    if (lk_is_file(dirs[0]) && lk_import_is_pipeline(dirs[0]))
        return run_pipeline(opt, dirs, n, page);
    if (!lk_is_folder(dirs[0]) || lk_import_is(dirs[0]))
        LK_TRY(import_run(dirs, (size_t)n, &set, imported));
    else
        LK_TRY(lk_run_set_read(dirs, (size_t)n, &set));
    if (opt->reference)
        LK_TRY(lk_run_set_read(&opt->reference, 1, &reference));
    LK_TRY(check_runs(&set));
    LK_TRY(
        lk_alloc(&tables, set.n * LK_ANALYSIS_TABLES + IMPORT_TABLES, sizeof(struct lk_table *)));
    n_tables = set.n * LK_ANALYSIS_TABLES + IMPORT_TABLES;
    is_import = imported[IMPORT_GPUS] != NULL;
    tables[0] = imported[IMPORT_SEQUENCES];
    tables[n_tables - 2] = imported[IMPORT_GPUS];
    tables[n_tables - 1] = imported[IMPORT_LATENESS];
    memset(imported, 0, sizeof imported);
    for (size_t i = 0; i < set.n; i++)
        if (shown(&set, i, opt->reference != NULL))
            LK_TRY(analyze_run(&set.runs[i], opt->reference ? &reference : &set, opt, is_import,
                               &tables[1 + i * LK_ANALYSIS_TABLES]));
    for (size_t i = 0; i < n_tables; i++)
        LK_TRY(lk_page_table(page, name_of(i, n_tables), LK_PAGE_MAIN, NULL, 0, &tables[i]));
out:
    for (size_t i = 0; i < n_tables; i++)
        lk_table_destroy(tables[i]);
    for (size_t i = 0; i < IMPORT_TABLES; i++)
        lk_table_destroy(imported[i]);
    free(tables);
    lk_run_set_fini(&reference);
    lk_run_set_fini(&set);
    return st;
}

const struct lk_command lk_command_analyze = {
    .name = "analyze",
    .usage = "RUN... | TRACE...",
    .help = "show where the time of runs went: waterfall, overlap, stragglers, findings",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = 64,
    .no_operand = "which run? e.g. lockstep analyze run/",
    .main_value = "efficiency",
    .run = run,
};
