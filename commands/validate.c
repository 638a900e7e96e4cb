/* lockstep validate: predicts runs from the smaller of them, and prints the errors. */
#include "base/array.h"
#include "base/job.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/inputs.h"
#include "commands/output.h"
#include "sim/forecast/backtest.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

struct options {
    const char *cluster, *out;
    struct throughput_options table;
    int64_t local_batch;
    double level;
    int64_t draws, seed;
    int format;
    const char *log;
};

#define OPTION(...) ROW(struct options, __VA_ARGS__)

/* clang-format off */
static const struct lk_option rows[] = {
    OPTION("cluster", cluster, TEXT, .group = "model",
           .help = "cluster file of the machine that the runs were made on; required"),
    THROUGHPUT_ROWS(OPTION),
    OPTION("local-batch", local_batch, INT, .min = 1, .max = 1 << 30,
           .help = "local batch of a table without that column"),
    DRAW_ROWS(OPTION),
    OPTION("out", out, FILE, .group = "output", .help = "also write the table here (CSV)"),
    OPTION(FORMAT_OPTION),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

static enum lk_status validate_throughputs(const struct options *o, const char *const *operands,
                                           int n, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct throughput_inputs in = {.request.grid = {.local_batches = &o->local_batch,
                                                    .n_local_batches = o->local_batch ? 1 : 0,
                                                    .level = o->level,
                                                    .draws = (int)o->draws,
                                                    .seed = (uint64_t)o->seed}};

    LK_TRY(throughput_inputs_read(&o->table, o->cluster, operands, n, &in));
    LK_TRY(lk_throughput_validate(&in.table, &in.request, out));
out:
    throughput_inputs_fini(&in);
    return st;
}

static enum lk_status validate_runs(const struct options *o, const char *const *operands, int n,
                                    struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_job job = {0};
    struct lk_cluster cluster = {0};
    struct lk_backtests tests = {0};

    if (o->table.parameters || o->table.gradients || o->table.gpus_per_node || o->local_batch)
        return lk_fail(LK_EUSAGE, "--parameters, --gradients, --gpus-per-node and --local-batch go "
                                  "with --throughput");
    if (!n)
        return lk_fail(LK_EUSAGE,
                       "which runs? Usage: lockstep validate RUN... --cluster cluster.json");
    if (!o->cluster)
        return lk_fail(LK_EUSAGE, "--cluster is missing: the file that `lockstep calibrate` wrote");
    LK_TRY(find_job_of_runs(operands, (size_t)n, &job));
    LK_TRY(find_cluster(o->cluster, &cluster));
    LK_TRY(lk_backtest_all(&job, &cluster,
                           &(struct lk_predictor_options){.level = o->level,
                                                          .draws = (int)o->draws,
                                                          .seed = (uint64_t)o->seed,
                                                          .scale_error = NAN},
                           &tests));
    if (!tests.n) {
        st = lk_fail(LK_EEVIDENCE,
                     "nothing to hold out in job %s: runs at two or more counts of GPUs on this "
                     "cluster, or compute at three or more local batches, are needed. The cheapest "
                     "run that would supply it: this job on 1 and on 2 GPUs, by lockstep run with "
                     "--scaling 1,2",
                     job.name);
        goto out;
    }
    LK_TRY(lk_backtest_table(&tests, out));
out:
    lk_backtests_fini(&tests);
    lk_cluster_fini(&cluster);
    lk_job_fini(&job);
    return st;
}

static enum lk_status run(void *options, const char **operands, int n)
{
    const struct options *o = options;
    enum lk_status st = LK_OK;
    struct lk_table *table = NULL;

    LK_TRY((o->table.file ? validate_throughputs : validate_runs)(o, operands, n, &table));
    if (o->out)
        LK_TRY(lk_report_table(table, LK_FORMAT_CSV, o->out));
out:
    return tables_finish(st, &table, 1, o->format);
}

const struct lk_command lk_command_validate = {
    .name = "validate",
    .usage = "RUN... --cluster CLUSTER",
    .help = "predict runs from the smaller of them; print the errors",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = 256,
    .run = run,
};
