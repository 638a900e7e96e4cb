/* lockstep predict: step time and efficiency at more GPUs and other batches, with interval. */
#include "base/array.h"
#include "base/file.h"
#include "commands/axis_lists.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/evidence_inputs.h"
#include "commands/forecast_ask.h"
#include "commands/forecast_page.h"
#include "commands/inputs.h"
#include "commands/ledger.h"
#include "commands/output.h"
#include "facts/bounds.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "facts/preset.h"
#include "sim/planning/memory.h"
#include "sim/step/simulate.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *axes[LK_AXIS_COUNT]; /* those of LK_AXIS_RUN_LIST */
    int64_t global_batch;
    const char *cluster, *slow_rank, *slow_link;
    double overlap_slowdown; /* 0: the cluster's */
    struct throughput_options table;
    double level;
    int64_t draws, seed;
    bool anyway;
    const char *out, *csv, *ledger, *trace;
    int64_t trace_steps;
    struct lk_page_options page;
    struct lk_gate_options gate;
    const char *log;
    struct plan_options plan;
};

#define OPTION(...) ROW(struct options, __VA_ARGS__)

/* clang-format off */
static const struct lk_option rows[] = {
    LK_AXIS_RUN_LIST(AXIS_ROW)
    LK_AXIS_GPU_LIST(AXIS_ROW)
    OPTION(GLOBAL_BATCH_OPTION),
    OPTION(CLUSTER_OPTION),
    OPTION(MEASURED_ON_OPTION),
    OPTION("slow-rank", slow_rank, TEXT, .word = LK_AXIS_WORD_PLACE,
           .help = "3:1.25,...: rank 3 computes 1.25 times as long as the others, as it did in the measured runs"),
    OPTION("slow-link", slow_link, TEXT, .word = LK_AXIS_WORD_PLACE,
           .help = "1:2,...: node 1's link has half the rate of the others, as it had during the calibration"),
    OPTION("overlap-slowdown", overlap_slowdown, REAL, .min = 1, .max = 100,
           .help = "times as long that compute takes while collectives run, e.g. 1.2; default: the cluster's"),
    DRAW_ROWS(OPTION),
    OPTION(ANYWAY_OPTION),
    THROUGHPUT_ROWS(OPTION),
    OPTION(GPUS_PER_NODE_OPTION),
    PLAN_ROWS(OPTION),
    FORECAST_ROWS(OPTION),
    OPTION(LEDGER_OPTION),
    OPTION("trace", trace, FILE, .role = LK_ROLE_FOLDER,
           .help = "simulate the first configuration and write its traces to this folder"),
    OPTION("trace-steps", trace_steps, INT, .min = 1, .max = 100000, .fallback = "20",
           .help = "steady-state steps in these traces"),
    PAGE_ROWS(OPTION),
    GATE_ROWS(OPTION, "efficiency"),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

/* Tabulate what fits on the GPUs of all presets; NULL where none says its memory. */
static enum lk_status device_table(const struct lk_job *job, const struct lk_forecast *f,
                                   struct lk_table **out)
{
    enum lk_status st = LK_OK;
    char **names = NULL;
    struct lk_cluster *presets = NULL;
    size_t n = 0;

    LK_TRY(lk_preset_names(&names, &n));
    LK_TRY(lk_alloc(&presets, n, sizeof *presets));
    for (size_t i = 0; i < n; i++)
        LK_TRY(find_cluster(names[i], &presets[i]));
    LK_TRY(lk_memory_device_table(job, presets, n, f, out));
out:
    for (size_t i = 0; presets && i < n; i++)
        lk_cluster_fini(&presets[i]);
    free(presets);
    lk_names_free(names, n);
    return st;
}

/* Make the request; `job`: a job is given, beside a table of throughputs or alone. */
static void make_request(const struct options *o, const struct axis_lists *l, bool job,
                         struct lk_forecast_request *q)
{
    *q =
        (struct lk_forecast_request){.global_batch = o->global_batch,
                                     .level = o->level,
                                     .draws = (int)o->draws,
                                     .seed = (uint64_t)o->seed,
                                     .anyway = o->anyway,
                                     .plan = job || plan_asked(&o->plan) ? &o->plan.request : NULL};
    axis_lists_ask(l, q);
}

/* Fill the page. job is NULL for a forecast from throughputs alone, which has no losses. */
static enum lk_status print(const struct options *o, const struct lk_job *job,
                            const struct lk_cluster *cluster, const struct lk_forecast *f,
                            struct lk_page *page)
{
    enum {
        POINTS,
        PLANS,
        MEMORY = PLANS + LK_PLAN_TABLES,
        DEVICES,
        BACKTESTS,
        LOSSES,
        CONTRADICTIONS,
        COUNT
    };
    enum lk_status st = LK_OK;
    struct lk_table *tables[COUNT] = {NULL};
    const enum lk_page_place plan =
        plan_asked(&o->plan) || forecast_has_target(f) ? LK_PAGE_MAIN : LK_PAGE_DETAIL;
    const struct {
        const char *name;
        enum lk_page_place place;
        enum forecast_view view;
    } shown[COUNT] = {{"points", LK_PAGE_MAIN, FORECAST_POINTS},
                      {"plan", plan, FORECAST_PLAN},
                      {"target", plan, FORECAST_PLAN},
                      {"memory", LK_PAGE_MAIN, FORECAST_WHOLE},
                      {"devices", LK_PAGE_MAIN, FORECAST_WHOLE},
                      {"backtest", LK_PAGE_DETAIL, FORECAST_DETAIL},
                      {"losses", LK_PAGE_DETAIL, FORECAST_DETAIL},
                      {"contradictions", LK_PAGE_DETAIL, FORECAST_DETAIL}};

    LK_TRY(lk_forecast_table(f, &tables[POINTS]));
    LK_TRY(lk_forecast_plan_tables(f, true, &tables[PLANS]));
    if (o->plan.memory) {
        LK_TRY(lk_memory_table(job, lk_plan_device_bytes(cluster, &o->plan.request), f,
                               &tables[MEMORY]));
        LK_TRY(device_table(job, f, &tables[DEVICES]));
    }
    if (f->n_backtests)
        LK_TRY(lk_forecast_backtest_table(f, &tables[BACKTESTS]));
    if (job)
        LK_TRY(lk_forecast_loss_table(f, &tables[LOSSES]));
    LK_TRY(lk_forecast_contradiction_table(f, &tables[CONTRADICTIONS]));
    LK_TRY(forecast_page_answer(f, false, page));
    for (int i = 0; i < COUNT; i++)
        LK_TRY(
            forecast_page_table(f, shown[i].name, shown[i].place, shown[i].view, &tables[i], page));
    LK_TRY(forecast_page_files(o->out, o->csv, page));
out:
    for (int i = 0; i < COUNT; i++)
        lk_table_destroy(tables[i]);
    return st;
}

/* Refuse options that conflict with the source of evidence, or are missing. */
static enum lk_status check(const struct options *o, const char **operands, int n)
{
    if (o->table.file && (o->trace || o->slow_rank || o->slow_link || o->overlap_slowdown > 0))
        return lk_fail(LK_EUSAGE, "--trace, --slow-rank, --slow-link and --overlap-slowdown need "
                                  "a JOB and CLUSTER without --throughput");
    if (o->table.file && n == 0 && !o->table.parameters && !o->table.gradients &&
        plan_asked(&o->plan))
        return lk_fail(LK_EUSAGE, "memory, cost and time to a target take what the job and the "
                                  "cluster are: with --throughput, JOB, --parameters or "
                                  "--gradients, and CLUSTER or --cluster");
    if (!o->table.file) {
        LK_PASS(check_no_table(&o->table));
        LK_PASS(job_and_cluster("predict", operands, n, o->cluster));
    }
    if (!o->axes[LK_AXIS_GPUS])
        return lk_fail(LK_EUSAGE, "--gpus is missing: the counts to predict, e.g. --gpus=%s",
                       o->table.file ? "8,16,32" : "1,2,4");
    return LK_OK;
}

extern const struct lk_command lk_command_predict;

static enum lk_status run(void *options, const char **operands, int n, struct lk_page *page)
{
    const struct options *o = options;
    const struct lk_sim_request sim = {.steps = (int)o->trace_steps, .seed = (uint64_t)o->seed};
    enum lk_status st = LK_OK;
    struct axis_lists lists = {0};
    struct evidence_inputs in = {0};
    const struct machine_facts facts = {.gpus_per_node = o->table.gpus_per_node,
                                        .measured_on = o->table.measured_on,
                                        .overlap_slowdown = o->overlap_slowdown,
                                        .slow_ranks = o->slow_rank,
                                        .slow_links = o->slow_link};
    const struct forecast_question question = FORECAST_QUESTION(lk_command_predict, o, operands, n);
    struct lk_forecast f = {0};

    LK_TRY(check(o, operands, n));
    LK_TRY(axis_lists_read(o->axes, &lists));
    make_request(o, &lists, !o->table.file || n > 0, &in.request.grid);
    LK_TRY(o->table.file ? evidence_open_table(&o->table, o->cluster, operands, n, &in)
                         : evidence_open_job(operands, 1, operands[1], &facts, &in));
    LK_TRY(forecast_ask(&question, &in, &f, NULL, page));
    LK_TRY(forecast_write(&f, o->out, o->csv));
    if (o->trace)
        LK_TRY(lk_simulate_trace(&in.job, &in.cluster, &f.points[0].config, &sim, o->trace, NULL));
    LK_TRY(print(o, in.source.job, &in.cluster, &f, page));
    st = forecast_verdict(&f);
out:
    lk_forecast_fini(&f);
    evidence_fini(&in);
    axis_lists_fini(&lists);
    return st;
}

const struct lk_command lk_command_predict = {
    .name = "predict",
    .usage = "JOB CLUSTER",
    .help = "forecast efficiency on more GPUs and with other batches, with an interval",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = 2,
    .operand = LK_OPERAND_CLUSTER,
    .main_value = "efficiency",
    .tables = TABLES("points", "plan", "target", "memory", "devices", "backtest", "losses",
                     "contradictions"),
    .run = run,
};
