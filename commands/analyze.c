/* lockstep analyze: prints where the time of measured runs went. Divisions: reading,
 * configurations, tables, traces of other programs. */
#include "base/array.h"
#include "base/file.h"
#include "base/lines.h"
#include "base/log.h"
#include "commands/analyze_impl.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/ledger_score.h"
#include "commands/step_times_page.h"
#include "commands/watch.h"
#include "facts/run_facts.h"
#include "profiler/analysis/analysis.h"
#include "profiler/import/import.h"
#include "profiler/import/import_files.h"
#include "profiler/import/step_times.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *reference, *cluster;
    int64_t step;
    bool follow;
    double interval_s, deadline_s;
    struct lk_page_options page;
    struct lk_gate_options gate;
    const char *log;
};

#define OPTION(...) ROW(struct options, __VA_ARGS__)

/* clang-format off */
static const struct lk_option rows[] = {
    OPTION("reference", reference, FILE, .role = LK_ROLE_INPUT,
           .help = "run that gives the ideal step (default: the one with fewest ranks)"),
    OPTION("cluster", cluster, FILE, .role = LK_ROLE_INPUT,
           .help = "file or preset: how much longer collectives take in the job than alone on it"),
    OPTION("step", step, INT, .min = -1, .max = UINT32_MAX, .fallback = "-1",
           .help = "show every collective of this optimizer step instead; -1: off"),
    OPTION("follow", follow, FLAG, .group = "while it runs",
           .help = "say on standard error how the run of this folder does until it ends, and then analyze it"),
    OPTION("interval", interval_s, TIME, .min = 0.1, .max = 86400, .fallback = "2s",
           .help = "between two lines of --follow; more if a look takes long"),
    OPTION("deadline", deadline_s, TIME, .min = 0.1, .max = 1e7,
           .help = "end --follow then, whether the run has ended or not"),
    PAGE_ROWS(OPTION),
    GATE_ROWS(OPTION, "efficiency"),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

/* ---- Reading ---- */

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

static enum lk_status analyze_run(const struct lk_run *run, const struct lk_run_set *references,
                                  const char *reference, const struct alone *alone,
                                  struct lk_analysis *out)
{
    const struct lk_run **refs = NULL;
    enum lk_status st = LK_OK;
    size_t n;

    LK_TRY(lk_alloc(&refs, references->n, sizeof(struct lk_run *)));
    n = lk_analysis_reference(references, run, refs);
    if (!n && reference)
        LK_TRY(lk_fail(LK_EUSAGE, "%s: it has no run that can be the reference of %s", reference,
                       run->dir));
    LK_TRY(lk_analyze(run, refs, n, out));
    LK_TRY(analyze_alone_compare(alone, out));
out:
    free(refs);
    return st;
}

/* ---- Configurations ---- */

void analyzed_fini(struct analyzed *a)
{
    for (size_t i = 0; i < a->n_pools; i++)
        lk_pool_fini(&a->pools[i]);
    for (size_t i = 0; i < a->n; i++)
        lk_analysis_fini(&a->runs[i]);
    analyze_alone_fini(&a->alone);
    free(a->pools);
    free(a->runs);
}

/* List the runs of a set so that repetitions are neighbours; configurations keep their order. */
static enum lk_status order_runs(const struct lk_run_set *set, const struct lk_run ***out)
{
    const struct lk_run **list = NULL;
    enum lk_status st = LK_OK;
    bool *taken = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&list, set->n, sizeof(struct lk_run *)));
    LK_TRY(lk_alloc(&taken, set->n, sizeof *taken));
    for (size_t i = 0; i < set->n; i++)
        for (size_t k = i; !taken[i] && k < set->n; k++)
            if (k > i && !taken[k] && lk_pool_agree(&set->runs[i], &set->runs[k])) {
                taken[k] = true;
                list[n++] = &set->runs[k];
            } else if (k == i) {
                list[n++] = &set->runs[i];
            }
    *out = list;
    list = NULL;
out:
    free(taken);
    free(list);
    return st;
}

enum lk_status analyze_pools(const struct lk_run_set *set, const struct lk_run_set *references,
                             const char *reference, struct analyzed *a)
{
    const struct lk_run **list = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(order_runs(set, &list));
    LK_TRY(lk_alloc(&a->runs, set->n, sizeof *a->runs));
    LK_TRY(lk_alloc(&a->pools, set->n, sizeof *a->pools));
    for (; a->n < set->n;) {
        struct lk_analysis *next = &a->runs[a->n];

        a->n++;
        LK_TRY(analyze_run(list[a->n - 1], references, reference, &a->alone, next));
    }
    for (size_t i = 0, n; i < a->n; i += n) {
        for (n = 1; i + n < a->n && lk_pool_agree(list[i], list[i + n]);)
            n++;
        LK_TRY(lk_pool(&a->runs[i], n, &a->pools[a->n_pools]));
        a->n_pools++;
    }
out:
    free(list);
    return st;
}

static enum lk_status analyze_all(const struct lk_run_set *set, const struct lk_run_set *references,
                                  const struct options *opt, struct analyzed *a)
{
    LK_PASS(analyze_alone_init(&a->alone, opt->cluster));
    LK_PASS(analyze_pools(set, references, opt->reference, a));
    return analyze_try(set, a);
}

/* Return the index of the first run whose details are shown. Those of the fewest ranks are the
 * reference of the others, and are shown when there are no others, or another run is the reference.
 */
static size_t first_shown(const struct analyzed *a, const struct options *opt)
{
    int least = lk_run_about(a->runs[0].run)->world_size;
    size_t i = 0;

    if (opt->reference || lk_run_about(a->runs[a->n - 1].run)->world_size == least)
        return 0;
    while (lk_run_about(a->runs[i].run)->world_size == least)
        i++;
    return i;
}

/* ---- Tables ---- */

typedef enum lk_status (*table_fn)(const struct lk_analysis *a, int which, struct lk_table **out);

static enum lk_status table_of(const struct lk_analysis *a, int kind, struct lk_table **out)
{
    return lk_analysis_table(a, (enum lk_analysis_kind)kind, out);
}

static enum lk_status step_of(const struct lk_analysis *a, int step, struct lk_table **out)
{
    return lk_analysis_step_table(a, (uint32_t)step, out);
}

/* Make a table of all runs that are shown; of several, with the run of each row. */
static enum lk_status make_table(const struct lk_analysis *runs, size_t n, table_fn make, int which,
                                 struct lk_table **out)
{
    static const struct lk_column of_run = {"run", "run", LK_DIM_NONE, -1};
    enum lk_status st = LK_OK;
    struct lk_table **parts = NULL;
    const char **names = NULL;

    if (n == 1)
        return make(runs, which, out);
    LK_TRY(lk_alloc(&parts, n, sizeof(struct lk_table *)));
    LK_TRY(lk_alloc(&names, n, sizeof(char *)));
    for (size_t i = 0; i < n; i++) {
        names[i] = runs[i].run->dir;
        LK_TRY(make(&runs[i], which, &parts[i]));
    }
    LK_TRY(lk_table_join(&of_run, names, parts, n, out));
out:
    for (size_t i = 0; parts && i < n; i++)
        lk_table_destroy(parts[i]);
    free(parts);
    free(names);
    return st;
}

static enum lk_status add_table(const struct analyzed *a, const struct options *opt, int kind,
                                const char *name, struct lk_page *page)
{
    size_t first = first_shown(a, opt);
    struct lk_table *t = NULL;
    enum lk_status st;

    LK_PASS(make_table(a->runs + first, a->n - first, table_of, kind, &t));
    st = lk_page_table(page, name, LK_PAGE_DETAIL, NULL, 0, &t);
    lk_table_destroy(t);
    return st;
}

/* Add the tables of the configuration that the answer is about. */
static enum lk_status add_pool(const struct lk_pool *p, struct lk_page *page)
{
    static const struct lk_view_column losses[] = {
        LK_VIEW("name"), LK_VIEW_RANGE("mean_s", "lo_s", "hi_s"), LK_VIEW("share")};
    static const struct lk_view_column findings[] = {LK_VIEW("cost_s"), LK_VIEW("points"),
                                                     LK_VIEW("runs"), LK_VIEW("finding")};
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_pool_table(p, LK_ANALYSIS_WATERFALL, &t));
    LK_TRY(lk_page_table(page, "waterfall", t->n_rows > 1 ? LK_PAGE_MAIN : LK_PAGE_DETAIL, losses,
                         LK_COUNT(losses), &t));
    LK_TRY(lk_pool_table(p, LK_ANALYSIS_FINDINGS, &t));
    LK_TRY(lk_page_table(page, "findings", t->n_rows ? LK_PAGE_MAIN : LK_PAGE_DETAIL, findings,
                         LK_COUNT(findings), &t));
out:
    lk_table_destroy(t);
    return st;
}

static enum lk_status add_configurations(const struct analyzed *a, struct lk_page *page)
{
    static const struct lk_view_column view[] = {
        LK_VIEW("gpus"),         LK_VIEW("local_batch"),
        LK_VIEW("accumulation"), LK_VIEW("runs"),
        LK_VIEW("step_s"),       LK_VIEW_RANGE("efficiency", "efficiency_lo", "efficiency_hi"),
        LK_VIEW("loss_name")};
    struct lk_table *t = NULL;
    enum lk_status st;

    if (a->n_pools < 2)
        return LK_OK;
    LK_PASS(analyze_configurations(a, &t));
    st = lk_page_table(page, "configurations", LK_PAGE_MAIN, view, LK_COUNT(view), &t);
    lk_table_destroy(t);
    return st;
}

/* Add the actions that were tried. */
static enum lk_status add_trials(const struct analyzed *a, struct lk_page *page)
{
    static const struct lk_view_column view[] = {LK_VIEW("gain"),    LK_VIEW("gain_lo"),
                                                 LK_VIEW("gain_hi"), LK_VIEW("step_s"),
                                                 LK_VIEW("action"),  LK_VIEW("option")};
    struct lk_table *t = NULL;
    enum lk_status st;

    if (a->trials.want_cluster)
        return lk_page_next(page, "next: --cluster=FILE|PRESET tries what other buckets, bfloat16 "
                                  "gradients, accumulation or faster cards gain on this job");
    if (!a->trials.n && !*a->trials.why_not)
        return LK_OK;
    LK_PASS(analyze_trials_table(a, &t));
    st = lk_page_table(page, "actions", t->n_rows ? LK_PAGE_MAIN : LK_PAGE_DETAIL, view,
                       LK_COUNT(view), &t);
    lk_table_destroy(t);
    return st;
}

/* Add the last run's collectives beside those of the cluster. */
static enum lk_status add_alone(const struct analyzed *a, struct lk_page *page)
{
    static const struct lk_view_column view[] = {
        {.name = "collective", .setting = true},
        LK_VIEW("bytes"),
        {.name = "wait_s", .optional = true},
        LK_VIEW("wire_s"),
        LK_VIEW_RANGE("alone_s", "alone_lo_s", "alone_hi_s"),
        {.name = "behind_s", .optional = true},
        LK_VIEW("times_alone"),
        {.name = "evidence", .setting = true, .optional = true}};
    struct lk_table *t = NULL;
    enum lk_status st;

    LK_PASS(analyze_alone_table(&a->alone, &a->runs[a->n - 1], &t));
    st = lk_page_table(page, "collectives", LK_PAGE_MAIN, view, LK_COUNT(view), &t);
    lk_table_destroy(t);
    return st;
}

/* Add every collective of a step, by rank. */
static enum lk_status add_step(const struct analyzed *a, const struct options *opt,
                               struct lk_page *page)
{
    static const struct lk_view_column view[] = {
        LK_VIEW("run"),    LK_VIEW("seq"),       LK_VIEW("bucket"),
        LK_VIEW("rank"),   LK_VIEW("arrival_s"), LK_VIEW("end_s"),
        LK_VIEW("wait_s"), LK_VIEW("wire_s"),    LK_VIEW("late")};
    size_t first = first_shown(a, opt), skip = a->n - first == 1;
    struct lk_table *t = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(make_table(a->runs + first, a->n - first, step_of, (int)opt->step, &t));
    LK_TRY(lk_page_say(page, "Step %lld of %s: its collectives, rank by rank.",
                       (long long)opt->step, a->runs[a->n - 1].run->dir));
    LK_TRY(lk_page_table(page, "step", LK_PAGE_MAIN, view + skip, LK_COUNT(view) - skip, &t));
out:
    lk_table_destroy(t);
    return st;
}

/* Add all about the runs. */
static enum lk_status add_runs(const struct analyzed *a, const struct options *opt,
                               struct lk_page *page)
{
    static const char *const names[LK_ANALYSIS_TABLES] = {[LK_ANALYSIS_WATERFALL] =
                                                              "run-waterfalls",
                                                          [LK_ANALYSIS_FINDINGS] = "run-findings",
                                                          [LK_ANALYSIS_RANKS] = "ranks",
                                                          [LK_ANALYSIS_OVERLAP] = "overlap",
                                                          [LK_ANALYSIS_BUCKETS] = "buckets",
                                                          [LK_ANALYSIS_STRAGGLERS] = "stragglers",
                                                          [LK_ANALYSIS_GPUS] = "gpus",
                                                          [LK_ANALYSIS_KERNELS] = "kernels",
                                                          [LK_ANALYSIS_HOSTS] = "hosts",
                                                          [LK_ANALYSIS_HOPS] = "hops"};
    bool several = a->n - first_shown(a, opt) > 1;

    if (opt->step >= 0)
        return add_step(a, opt, page);
    LK_PASS(analyze_answer(a, page));
    LK_PASS(add_configurations(a, page));
    LK_PASS(add_pool(&a->pools[a->n_pools - 1], page));
    LK_PASS(add_trials(a, page));
    LK_PASS(add_alone(a, page));
    for (int kind = several ? 0 : LK_ANALYSIS_RANKS; kind < LK_ANALYSIS_TABLES; kind++)
        LK_PASS(add_table(a, opt, kind, names[kind], page));
    return LK_OK;
}

enum lk_status analyze_page(const struct analyzed *a, struct lk_page *page)
{
    return add_runs(a, &(struct options){.step = -1}, page);
}

/* ---- Traces of other programs ---- */

/* Put a text on the page as a sentence: with a capital letter and a full stop. */
static enum lk_status say_note(const char *note, struct lk_page *page)
{
    enum lk_status st;
    char *text = NULL;

    LK_PASS(lk_asprintf(&text, "%s.", note));
    st = lk_page_say(page, "%s", lk_lines_capital(text));
    free(text);
    return st;
}

/* Add which collectives wait or differ: of a hang that is the answer. */
static enum lk_status add_sequences(struct lk_import *i, struct lk_page *page)
{
    static const struct lk_view_column view[] = {LK_VIEW("group"),  LK_VIEW("number"),
                                                 LK_VIEW("found"),  LK_VIEW("ranks"),
                                                 LK_VIEW("others"), LK_VIEW("collective")};
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_sequences_table(&i->sequences, &t));
    if (!t)
        return LK_OK;
    for (size_t k = 0; k + 1 < t->n_notes || (!k && t->n_notes);
         k++) /* the last: what was compared */
        LK_TRY(say_note(t->notes[k], page));
    LK_TRY(lk_page_table(page, "sequences", t->n_rows ? LK_PAGE_MAIN : LK_PAGE_DETAIL, view,
                         LK_COUNT(view), &t));
out:
    lk_table_destroy(t);
    return st;
}

/* Add the kernels of all events of the import's GPUs, whatever the steps are. */
static enum lk_status add_kernels(struct lk_import *i, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    if (!i->kernels.n)
        return LK_OK;
    LK_TRY(lk_table_create("Imported: the GPUs' kernels by name", lk_kernel_columns,
                           lk_n_kernel_columns, &t));
    LK_TRY(lk_kernel_sums_fill(&i->kernels, NAN, t));
    LK_TRY(lk_table_note(t, "of all events of the GPUs; each kernel counts in full, also where two "
                            "run at the same time"));
    LK_TRY(lk_page_table(page, "kernels", LK_PAGE_DETAIL, NULL, 0, &t));
out:
    lk_table_destroy(t);
    return st;
}

/* Add what the import's GPUs did of the time and, if there is no run that tells it, their kernels.
 */
static enum lk_status add_import(struct lk_import *i, bool has_run, struct lk_page *page)
{
    static const struct lk_view_column view[] = {
        LK_VIEW("rank"),      LK_VIEW("events"), LK_VIEW("span_s"),   LK_VIEW("idle_s"),
        LK_VIEW("compute_s"), LK_VIEW("comm_s"), LK_VIEW("exposed_s")};
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_import_table(i, &t));
    LK_TRY(lk_page_table(page, "traces", has_run || !t->n_rows ? LK_PAGE_DETAIL : LK_PAGE_MAIN,
                         view, LK_COUNT(view), &t));
    if (!has_run)
        LK_TRY(add_kernels(i, page));
out:
    lk_table_destroy(t);
    return st;
}

/* Take the traces as one run; set->n 0: it has no complete step, and i->no_steps says why. */
static enum lk_status take_run(const char *name, struct lk_import *i, struct lk_run_set *set)
{
    enum lk_status st;

    LK_PASS(lk_alloc(&set->runs, 1, sizeof *set->runs));
    st = lk_import_take(i, name, &set->runs[0]);
    set->n = st == LK_OK;
    return st == LK_EEVIDENCE ? LK_OK : st;
}

enum lk_status analyze_import_read(const char *const *paths, size_t n, struct lk_import *import,
                                   struct lk_run_set *set)
{
    enum lk_status st = LK_OK;
    char **files = NULL;
    size_t n_files = 0;

    LK_TRY(lk_import_files(paths, n, &files, &n_files));
    LK_TRY(lk_import_run(files, n_files, &(struct lk_import_options){0}, import));
    LK_TRY(take_run(paths[0], import, set));
    st = check_runs(set);
out:
    lk_names_free(files, n_files);
    return st;
}

/* Add all about an import; a NULL: it has no complete step. */
static enum lk_status add_all_of_import(struct lk_import *import, const struct analyzed *a,
                                        const struct options *opt, struct lk_page *page)
{
    LK_PASS(add_sequences(import, page));
    if (a)
        LK_PASS(add_runs(a, opt, page));
    else if (!page->n_answer)
        LK_PASS(lk_page_say(page, "%s.", import->no_steps));
    return add_import(import, a != NULL, page);
}

enum lk_status analyze_import_page(struct lk_import *import, const struct analyzed *a,
                                   struct lk_page *page)
{
    return add_all_of_import(import, a, &(struct options){.step = -1}, page);
}

static enum lk_status analyze_traces(const struct options *opt, const char **paths, size_t n,
                                     const struct lk_run_set *reference, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_run_set set = {0};
    struct lk_import run = {0};
    struct analyzed a = {0};

    LK_TRY(analyze_import_read(paths, n, &run, &set));
    if (set.n)
        LK_TRY(analyze_all(&set, opt->reference ? reference : &set, opt, &a));
    LK_TRY(add_all_of_import(&run, set.n ? &a : NULL, opt, page));
    if (set.n && opt->step < 0)
        LK_TRY(ledger_score_runs(paths[0], &set, page));
out:
    analyzed_fini(&a);
    lk_run_set_fini(&set);
    lk_import_fini(&run);
    return st;
}

static enum lk_status analyze_runs(const struct options *opt, const char **dirs, size_t n,
                                   const struct lk_run_set *reference, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_run_set set = {0};
    struct analyzed a = {0};

    LK_TRY(lk_run_set_read(dirs, n, &set));
    LK_TRY(check_runs(&set));
    LK_TRY(analyze_all(&set, opt->reference ? reference : &set, opt, &a));
    LK_TRY(add_runs(&a, opt, page));
    if (opt->step < 0)
        LK_TRY(ledger_score_runs(dirs[0], &set, page));
out:
    analyzed_fini(&a);
    lk_run_set_fini(&set);
    return st;
}

static enum lk_status run(void *options, const char **dirs, int n, struct lk_page *page)
{
    const struct options *opt = options;
    struct lk_run_set reference = {0};
    enum lk_status st;
    bool ended = true;

    if (opt->follow && (n != 1 || !lk_is_folder(dirs[0])))
        return lk_fail(LK_EUSAGE, "--follow takes one folder, that of a run");
    if (opt->follow)
        LK_PASS(watch_folder(dirs[0], opt->interval_s, opt->deadline_s, &ended, page));
    if (!ended)
        return LK_OK;
    if (lk_is_file(dirs[0]) && lk_step_times_is(dirs[0]))
        return n == 1 ? step_times_analyze(dirs[0], page)
                      : lk_fail(LK_EUSAGE, "%s is a table of times: analyze it alone", dirs[0]);
    if (opt->reference)
        LK_PASS(lk_run_set_read(&opt->reference, 1, &reference));
    st = !lk_is_folder(dirs[0]) || lk_import_is(dirs[0])
             ? analyze_traces(opt, dirs, (size_t)n, &reference, page)
             : analyze_runs(opt, dirs, (size_t)n, &reference, page);
    lk_run_set_fini(&reference);
    return st;
}

const struct lk_command lk_command_analyze = {
    .name = "analyze",
    .usage = "RUN... | TRACE... | TIMES.csv",
    .help = "show where the time of runs went: waterfall, overlap, stragglers, findings",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = 64,
    .no_operand = "which run? e.g. lockstep analyze run/",
    .main_value = "efficiency",
    .tables = TABLES("configurations", "waterfall", "findings", "actions", "run-waterfalls",
                     "run-findings", "collectives", "ranks", "overlap", "buckets", "stragglers",
                     "gpus", "kernels", "hosts", "hops", "sequences", "traces", "step", "slowest"),
    .run = run,
};
