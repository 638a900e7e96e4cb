/* lockstep predict: step time and efficiency at more GPUs and other batches, with interval. */
#include "base/array.h"
#include "base/bounds.h"
#include "base/file.h"
#include "base/forecast.h"
#include "base/job.h"
#include "base/preset.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/evidence_inputs.h"
#include "commands/inputs.h"
#include "commands/plan_options.h"
#include "reports/print.h"
#include "sim/forecast/forecast.h"
#include "sim/planning/memory.h"
#include "sim/step/simulate.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct lk_ints gpus, local_batches, accumulations;
    struct lk_sizes caps;
    int64_t global_batch;
    const char *cluster, *slow_rank, *slow_link;
    struct throughput_options table;
    double level;
    int64_t draws, seed;
    const char *out, *csv, *trace;
    int64_t trace_steps;
    int format;
    const char *log;
    struct plan_options plan;
};

/* clang-format off */
static const struct lk_option rows[] = {
    {.name = "gpus",
     .type = LK_OPT_INTS,
     .offset = offsetof(struct options, gpus),
     .min = 1,
     .max = LK_FORECAST_GPUS_MAX,
     .group = "configurations",
     .help = "counts of GPUs (ranks) to predict; required"},
    {.name = "local-batch",
     .type = LK_OPT_INTS,
     .offset = offsetof(struct options, local_batches),
     .min = 1,
     .max = LK_BATCH_MAX,
     .help = "local batches, samples; default: the job's"},
    {.name = "accumulation",
     .type = LK_OPT_INTS,
     .offset = offsetof(struct options, accumulations),
     .min = 1,
     .max = LK_ACCUMULATION_MAX,
     .help = "micro-batches a step; default: the job's"},
    {.name = "bucket-cap",
     .type = LK_OPT_SIZES,
     .offset = offsetof(struct options, caps),
     .min = 1,
     .max = 1e12,
     .help = "bucket caps, bytes; default: the job's"},
    {ROW_GLOBAL_BATCH(struct options)},
    {ROW_CLUSTER(struct options), .group = "model"},
    {.name = "slow-rank",
     .type = LK_OPT_TEXT,
     .offset = offsetof(struct options, slow_rank),
     .help = "3:1.25,... rank 3 is known to compute 1.25 times as long as the others, in the runs too"},
    {.name = "slow-link",
     .type = LK_OPT_TEXT,
     .offset = offsetof(struct options, slow_link),
     .help = "1:2,... node 1's link is known to have half the others' rate, in the calibration too"},
    {ROW_LEVEL(struct options)},
    {ROW_DRAWS(struct options)},
    {ROW_SEED(struct options)},
    THROUGHPUT_ROWS(struct options),
    THROUGHPUT_NODE_ROW(struct options),
    PLAN_OPTIONS(struct options),
    {ROW_FORECAST_OUT(struct options), .group = "output"},
    {ROW_FORECAST_CSV(struct options)},
    {.name = "trace",
     .type = LK_OPT_FILE,
     .offset = offsetof(struct options, trace),
     .help = "simulate the first configuration and write its traces to this folder"},
    {.name = "trace-steps",
     .type = LK_OPT_INT,
     .offset = offsetof(struct options, trace_steps),
     .min = 1,
     .max = 100000,
     .fallback = "20",
     .help = "steady-state steps in these traces"},
    {ROW_FORMAT(struct options)},
    {ROW_LOG(struct options)},
    {0}
};
/* clang-format on */

static struct lk_predict_request make_request(const struct options *o)
{
    return (struct lk_predict_request){.gpus = o->gpus.v,
                                       .n_gpus = (size_t)o->gpus.n,
                                       .local_batches = o->local_batches.v,
                                       .n_local_batches = (size_t)o->local_batches.n,
                                       .accumulations = o->accumulations.v,
                                       .n_accumulations = (size_t)o->accumulations.n,
                                       .caps = o->caps.v,
                                       .n_caps = (size_t)o->caps.n,
                                       .global_batch = o->global_batch,
                                       .level = o->level,
                                       .draws = (int)o->draws,
                                       .seed = (uint64_t)o->seed};
}

/* Tabulates what fits on the GPUs of all presets; NULL where none says its memory. */
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

/* Make the *n tables of a forecast in the order of printing; the caller destroys them. job is NULL
 * for a forecast from throughputs alone, which knows no losses. */
static enum lk_status make_tables(const struct options *o, const struct lk_job *job,
                                  const struct lk_cluster *cluster, const struct lk_forecast *f,
                                  struct lk_table **tables, size_t *n)
{
    enum lk_status st = LK_OK;
    struct lk_table *parts[LK_PLAN_TABLES];

    LK_TRY(lk_forecast_table(f, &tables[*n]));
    ++*n;
    LK_TRY(lk_forecast_plan_tables(f, true, parts));
    for (int i = 0; i < LK_PLAN_TABLES; i++)
        if (parts[i])
            tables[(*n)++] = parts[i];
    if (o->plan.memory && !o->table.file) {
        LK_TRY(lk_memory_table(job, lk_plan_device_bytes(cluster, &o->plan.request), f,
                               &tables[(*n)++]));
        LK_TRY(device_table(job, f, &tables[*n]));
        *n += tables[*n] != NULL;
    }
    if (f->n_backtests)
        LK_TRY(lk_forecast_backtest_table(f, &tables[(*n)++]));
    if (job)
        LK_TRY(lk_forecast_loss_table(f, &tables[(*n)++]));
out:
    return st;
}

static enum lk_status print(const struct options *o, const struct lk_job *job,
                            const struct lk_cluster *cluster, const struct lk_forecast *f)
{
    enum lk_status st = LK_OK;
    struct lk_table *tables[7] = {NULL};
    size_t n = 0;

    LK_TRY(make_tables(o, job, cluster, f, tables, &n));
    LK_TRY(lk_report_tables((const struct lk_table *const *)tables, n, (enum lk_format)o->format,
                            "-"));
out:
    for (size_t i = 0; i < LK_COUNT(tables); i++)
        lk_table_destroy(tables[i]);
    return st;
}

/* Refuses options that a table of throughputs has no use for. */
static enum lk_status check_throughput(const struct options *o)
{
    if (o->trace || o->slow_rank || o->slow_link)
        return lk_fail(LK_EUSAGE, "--trace, --slow-rank and --slow-link need a JOB and CLUSTER "
                                  "without --throughput");
    if (!o->gpus.n)
        return lk_fail(LK_EUSAGE, "--gpus is missing: the counts to predict, e.g. --gpus=8,16,32");
    return LK_OK;
}

static enum lk_status parse(int argc, char **argv, struct options *o, const char **operands,
                            int *out_operands)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_option_parse(rows, o, argc, argv, operands, 2, out_operands));
    LK_TRY(lk_log_configure(o->log));
    if (o->table.file)
        return check_throughput(o);
    LK_TRY(check_no_table(&o->table));
    LK_TRY(job_and_cluster("predict", operands, *out_operands, o->cluster));
    if (!o->gpus.n)
        return lk_fail(LK_EUSAGE, "--gpus is missing: the counts to predict, e.g. --gpus=1,2,4");
out:
    return st;
}

static enum lk_status run(int argc, char **argv)
{
    enum lk_status st = LK_OK;
    struct options o;
    const char *operands[2] = {NULL};
    int n = 0;
    struct evidence_inputs in = {0};
    struct lk_forecast f = {0};

    LK_TRY(parse(argc, argv, &o, operands, &n));
    in.request.grid = make_request(&o);
    LK_TRY(o.table.file
               ? evidence_open_table(&o.table, o.cluster, operands, n, &in)
               : evidence_open_job(operands, 1, operands[1], o.slow_rank, o.slow_link, &in));
    LK_TRY(lk_forecast_run(&in.source, &in.request.grid, &f));
    if (!o.table.file)
        LK_TRY(lk_plan_forecast(&in.job, &in.cluster, &o.plan.request, NULL, &f));
    LK_TRY(forecast_write(&f, o.out, o.csv));
    if (o.trace)
        LK_TRY(lk_simulate_trace(
            &in.job, &in.cluster, &f.points[0].config,
            &(struct lk_sim_request){.steps = (int)o.trace_steps, .seed = (uint64_t)o.seed},
            o.trace, NULL));
    LK_TRY(print(&o, in.source.job, &in.cluster, &f));
out:
    lk_forecast_fini(&f);
    evidence_fini(&in);
    return st;
}

const struct lk_command lk_command_predict = {
    .name = "predict",
    .usage = "JOB CLUSTER",
    .help = "efficiency at more GPUs and other batches, with an interval",
    .options = rows,
    .run = run,
};
