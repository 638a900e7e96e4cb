/* lockstep validate: predicts runs from the smaller of them, and prints the errors. */
#include "base/array.h"
#include "base/progress.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/evidence_inputs.h"
#include "commands/forecast_page.h"
#include "commands/ledger_score.h"
#include "commands/output.h"
#include "sim/forecast/backtest.h"
#include "sim/forecast/contradiction.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *cluster, *ledger, *out;
    struct throughput_options table;
    int64_t local_batch;
    double level;
    int64_t draws, seed;
    struct lk_page_options page;
    struct lk_gate_options gate;
    const char *log;
};

#define OPTION(...) ROW(struct options, __VA_ARGS__)

/* clang-format off */
static const struct lk_option rows[] = {
    OPTION("cluster", cluster, TEXT, .role = LK_ROLE_CLUSTER, .group = "model",
           .help = "cluster file of the machine that the runs were made on; required"),
    OPTION("ledger", ledger, FILE, .role = LK_ROLE_INPUT,
           .help = "in place of runs: score the forecasts kept in this file, or in this folder's forecasts.jsonl"),
    THROUGHPUT_ROWS(OPTION),
    OPTION(GPUS_PER_NODE_OPTION),
    OPTION("local-batch", local_batch, INT, .min = 1, .max = 1 << 30,
           .help = "local batch of a table without that column"),
    DRAW_ROWS(OPTION),
    OPTION("out", out, FILE, .role = LK_ROLE_OUTPUT, .group = "output", .help = "also write the table here (CSV)"),
    PAGE_ROWS(OPTION),
    GATE_ROWS(OPTION, "inside_share"),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

/* Refuse options and operands that are missing, or that go with a table alone. */
static enum lk_status check_runs(const struct options *o, int n)
{
    LK_PASS(check_no_table(&o->table));
    if (o->local_batch)
        return lk_fail(LK_EUSAGE, "--local-batch goes with --throughput");
    if (!n)
        return lk_fail(LK_EUSAGE,
                       "which runs? Usage: lockstep validate RUN... --cluster cluster.json");
    if (!o->cluster)
        return lk_fail(LK_EUSAGE, "--cluster is missing: a cluster file or preset of the machine "
                                  "that the runs were made on");
    return LK_OK;
}

static enum lk_status nothing_held_out(const struct options *o, const struct evidence_inputs *in,
                                       const struct lk_backtests *tests)
{
    if (o->table.file)
        return lk_fail(LK_EEVIDENCE, "%s", tests->refusal);
    return lk_fail(LK_EEVIDENCE,
                   "nothing to hold out in job %s: runs at two or more counts of GPUs on this "
                   "cluster, or compute at three or more local batches, are needed. The cheapest "
                   "run that would supply it: this job on 1 and on 2 GPUs, by lockstep run with "
                   "--scaling 1,2",
                   in->job.name);
}

/* Say first what contradicts the model whose errors are printed. */
static enum lk_status print_contradictions(const struct lk_forecast *trial, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_table *table = NULL;

    for (size_t i = 0; i < trial->n_answer; i++)
        LK_TRY(lk_page_contradict(page, trial->answer[i]));
    LK_TRY(lk_forecast_contradiction_table(trial, &table));
    if (table)
        LK_TRY(lk_page_table(page, "contradictions", LK_PAGE_DETAIL, NULL, 0, &table));
out:
    lk_table_destroy(table);
    return st;
}

/* Fill the page; the table becomes its own. */
static enum lk_status print(const struct lk_backtests *tests, struct lk_table **table,
                            struct lk_page *page)
{
    static const struct lk_view_column view[] = {LK_VIEW("held_out"), LK_VIEW("measured_s"),
                                                 LK_VIEW_RANGE("predicted_s", "lo_s", "hi_s"),
                                                 LK_VIEW("error_percent"), LK_VIEW("inside")};
    enum lk_status st = LK_OK;
    struct lk_score score;
    char *answer = NULL;

    LK_TRY(lk_backtest_score(tests, &score));
    LK_TRY(lk_backtest_answer(tests, &answer));
    LK_TRY(lk_page_say(page, "%s", answer));
    LK_TRY(lk_page_value(page, "error_mean", "", LK_DIM_NONE, score.errors.mean));
    LK_TRY(lk_page_value(page, "error_worst", "", LK_DIM_NONE, score.errors.worst));
    LK_TRY(lk_page_value(page, "inside_share", "", LK_DIM_NONE, score.share.value));
    LK_TRY(lk_page_value(page, "width_mean", "", LK_DIM_NONE, score.width));
    LK_TRY(lk_page_table(page, "backtest", LK_PAGE_MAIN, view, LK_COUNT(view), table));
out:
    free(answer);
    return st;
}

static enum lk_status run(void *options, const char **operands, int n, struct lk_page *page)
{
    const struct options *o = options;
    enum lk_status st = LK_OK;
    const struct lk_axis_value batch = {.count = o->local_batch};
    struct evidence_inputs in = {
        .request.grid = {.axes[LK_AXIS_LOCAL_BATCH] = {&batch, o->local_batch ? 1 : 0},
                         .level = o->level,
                         .draws = (int)o->draws,
                         .seed = (uint64_t)o->seed,
                         .anyway = true}}; /* the errors of what is contradicted, too */
    const struct machine_facts facts = {.gpus_per_node = o->table.gpus_per_node,
                                        .measured_on = LK_PLACE_HERE_WORD};
    struct lk_backtests tests = {0};
    struct lk_forecast trial = {.level = o->level};
    struct lk_table *table = NULL;

    if (o->ledger)
        return n || o->table.file || o->cluster || o->out
                   ? lk_fail(LK_EUSAGE, "--ledger takes the place of runs, --cluster, "
                                        "--throughput and --out")
                   : ledger_page(o->ledger, page);
    if (!o->table.file)
        LK_TRY(check_runs(o, n));
    LK_TRY(o->table.file ? evidence_open_table(&o->table, o->cluster, operands, n, &in)
                         : evidence_open_job(operands, (size_t)n, o->cluster, &facts, &in));
    lk_progress_begin(0, 1, "forecasting what was measured");
    LK_TRY(lk_backtest_run(&in.source, o->level, 0, &tests));
    if (!tests.n)
        LK_TRY(nothing_held_out(o, &in, &tests));
    LK_TRY(in.source.ops->prepare(in.source.self, &trial));
    LK_TRY(lk_contradictions_tell(&trial, true));
    LK_TRY(lk_backtest_table(&tests, &table));
    if (o->out)
        LK_TRY(lk_report_table(table, LK_FORMAT_CSV, o->out));
    LK_TRY(print_contradictions(&trial, page));
    LK_TRY(print(&tests, &table, page));
    if (o->out)
        LK_TRY(lk_page_next(page, "Written: %s.", o->out));
    st = forecast_verdict(&trial);
out:
    lk_forecast_fini(&trial);
    lk_table_destroy(table);
    lk_backtests_fini(&tests);
    evidence_fini(&in);
    return st;
}

const struct lk_command lk_command_validate = {
    .name = "validate",
    .usage = "RUN... --cluster CLUSTER",
    .help = "hold out runs, predict them from the others; print the errors",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = 256,
    .main_value = "inside_share",
    .tables = TABLES("backtest", "contradictions", "ledger"),
    .run = run,
};
