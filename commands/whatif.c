/* lockstep whatif: a grid over buckets, batches, networks, shardings, ...; names the best. */
#include "sim/whatif/whatif.h"
#include "base/array.h"
#include "base/forecast.h"
#include "base/job.h"
#include "base/option.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/evidence_inputs.h"
#include "commands/inputs.h"
#include "commands/plan_options.h"
#include "reports/print.h"
#include "sim/planning/memory.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VALUES_MAX = 256 }; /* most values of one axis */

struct options {
    const char *axes[LK_AXIS_COUNT];
    int64_t global_batch;
    const char *cluster;
    struct throughput_options table;
    double level;
    int64_t draws, seed;
    const char *out, *csv;
    int format;
    const char *log;
    struct plan_options plan;
};

#define AXIS_OFFSET_(axis) (offsetof(struct options, axes) + (axis) * sizeof(const char *))
#define AXIS_ROW_(axis, option, column, text)                                                      \
    {.name = (option), .type = LK_OPT_TEXT, .offset = AXIS_OFFSET_(axis), .help = (text)},

/* clang-format off */
static const struct lk_option rows[] = {
    LK_AXIS_LIST(AXIS_ROW_)
    {ROW_GLOBAL_BATCH(struct options)},
    {ROW_CLUSTER(struct options), .group = "model"},
    {ROW_LEVEL(struct options)},
    {ROW_DRAWS(struct options)},
    {ROW_SEED(struct options)},
    THROUGHPUT_ROWS(struct options),
    PLAN_OPTIONS(struct options),
    {ROW_FORECAST_OUT(struct options), .group = "output"},
    {ROW_FORECAST_CSV(struct options)},
    {ROW_FORMAT(struct options)},
    {ROW_LOG(struct options)},
    {0}
};
/* clang-format on */

/* Values of the axes, and the clusters whose GPUs they name. */
struct lists {
    struct lk_axis_value *values[LK_AXIS_COUNT];
    struct lk_cluster *gpus;
    size_t n_gpus;
    int64_t local_batch; /* the first */
};

static void lists_fini(struct lists *l)
{
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        free(l->values[a]);
    for (size_t i = 0; i < l->n_gpus; i++)
        lk_cluster_fini(&l->gpus[i]);
    free(l->gpus);
}

/* Find the cluster whose GPU a value of --gpu names; "own" is the forecast's own cluster. */
static enum lk_status find_gpu(struct lists *l, const char *name, struct lk_axis_value *v)
{
    enum lk_status st = LK_OK;

    if (!strcmp(name, "own"))
        return LK_OK;
    LK_TRY(lk_fail_context(find_cluster(name, &l->gpus[l->n_gpus]), "--gpu"));
    v->gpu = &l->gpus[l->n_gpus++];
out:
    return st;
}

static enum lk_status read_axis(struct lists *l, enum lk_axis a, const char *text,
                                struct lk_whatif_request *q)
{
    enum lk_status st = LK_OK;
    char *copy = NULL, *rest, *word;
    size_t n = 0;

    LK_TRY(lk_strdup(&copy, text));
    LK_TRY(lk_alloc(&l->values[a], VALUES_MAX, sizeof *l->values[a]));
    for (rest = copy; (word = strsep(&rest, ",")); n++) {
        if (n == VALUES_MAX) {
            st = lk_fail(LK_EUSAGE, "--%s has more than %d values", lk_axis_option(a), VALUES_MAX);
            goto out;
        }
        LK_TRY(lk_axis_parse(a, word, &l->values[a][n]));
        if (a == LK_AXIS_GPU)
            LK_TRY(find_gpu(l, word, &l->values[a][n]));
        for (size_t i = 0; i < n; i++)
            if (!strcmp(l->values[a][i].text, l->values[a][n].text)) {
                st = lk_fail(LK_EUSAGE, "--%s: '%s' is there twice", lk_axis_option(a), word);
                goto out;
            }
    }
    q->axes[a].v = l->values[a];
    q->axes[a].n = n;
out:
    free(copy);
    return st;
}

static enum lk_status make_request(const struct options *o, struct lists *l,
                                   struct lk_whatif_request *q)
{
    enum lk_status st = LK_OK;

    *q = (struct lk_whatif_request){.global_batch = o->global_batch,
                                    .level = o->level,
                                    .draws = (int)o->draws,
                                    .seed = (uint64_t)o->seed};
    LK_TRY(lk_alloc(&l->gpus, VALUES_MAX, sizeof *l->gpus));
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (o->axes[a])
            LK_TRY(read_axis(l, (enum lk_axis)a, o->axes[a], q));
out:
    return st;
}

static void show_progress(void *user, size_t done, size_t total)
{
    (void)user;
    fprintf(stderr, "\r%zu of %zu configurations%s", done, total, done < total ? "" : "\n");
}

/* Add memory, cost and time to the target to every point, for the GPU of its scenario; a table of
 * throughputs does not tell them. */
static enum lk_status plan(const struct options *o, const struct lk_evidence_source *source,
                           struct lk_whatif *w)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster **devices = NULL;

    if (o->table.file)
        return LK_OK;
    LK_TRY(lk_alloc(&devices, w->forecast.n_points, sizeof *devices));
    for (size_t i = 0; i < w->n_points; i++)
        devices[i] = w->scenarios[i].change.gpu;
    LK_TRY(lk_plan_forecast(source->job, source->cluster, &o->plan.request, devices, &w->forecast));
out:
    free(devices);
    return st;
}

static enum lk_status print(const struct options *o, const struct lk_evidence_source *source,
                            struct lk_whatif *w)
{
    enum lk_status st = LK_OK;
    struct lk_table *tables[3 + LK_PLAN_TABLES] = {NULL}, *plans[LK_PLAN_TABLES] = {NULL};
    size_t n = 0;

    LK_TRY(lk_forecast_table(&w->forecast, &tables[n++]));
    if (w->n_effects)
        LK_TRY(lk_whatif_effect_table(w, &tables[n++]));
    LK_TRY(lk_forecast_plan_tables(&w->forecast, o->format != LK_FORMAT_TEXT, plans));
    for (int i = 0; i < LK_PLAN_TABLES; i++)
        if (plans[i])
            tables[n++] = plans[i];
    if (o->plan.memory && !o->table.file)
        LK_TRY(lk_memory_table(source->job, lk_plan_device_bytes(source->cluster, &o->plan.request),
                               &w->forecast, &tables[n++]));
    LK_TRY(lk_report_tables((const struct lk_table *const *)tables, n, (enum lk_format)o->format,
                            "-"));
out:
    for (size_t i = 0; i < LK_COUNT(tables); i++)
        lk_table_destroy(tables[i]);
    return st;
}

static enum lk_status parse(int argc, char **argv, struct options *o, const char **operands, int *n)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_option_parse(rows, o, argc, argv, operands, 2, n));
    LK_TRY(lk_log_configure(o->log));
    if (!o->table.file)
        LK_TRY(check_no_table(&o->table));
    if (!o->table.file)
        LK_TRY(job_and_cluster("whatif", operands, *n, o->cluster));
    if (!o->axes[LK_AXIS_GPUS])
        return lk_fail(LK_EUSAGE, "--gpus is missing: the counts to forecast, e.g. --gpus=8,64");
out:
    return st;
}

/* Opens the source; the first local batch asked for is that of a table without that column. */
static enum lk_status open_source(const struct options *o, struct lists *l,
                                  const struct lk_whatif_request *q, const char *const *operands,
                                  int n, struct evidence_inputs *in)
{
    bool batch = q->axes[LK_AXIS_LOCAL_BATCH].n > 0;

    l->local_batch = batch ? (int64_t)q->axes[LK_AXIS_LOCAL_BATCH].v[0].number.value : 0;
    in->request.grid = (struct lk_predict_request){.local_batches = &l->local_batch,
                                                   .n_local_batches = batch,
                                                   .global_batch = q->global_batch,
                                                   .level = q->level,
                                                   .draws = q->draws,
                                                   .seed = q->seed,
                                                   .whatif = true};
    return o->table.file ? evidence_open_table(&o->table, o->cluster, operands, n, in)
                         : evidence_open_job(operands, 1, operands[1], NULL, NULL, in);
}

static enum lk_status run(int argc, char **argv)
{
    enum lk_status st = LK_OK;
    struct options o = {0}; /* no option sets the table's GPUs of a node: they are an axis */
    struct lists lists = {0};
    const char *operands[2] = {NULL};
    struct evidence_inputs in = {0};
    struct lk_whatif_request request;
    struct lk_whatif w = {0};
    int n = 0;

    LK_TRY(parse(argc, argv, &o, operands, &n));
    LK_TRY(make_request(&o, &lists, &request));
    request.plan = &o.plan.request;
    if (isatty(STDERR_FILENO))
        request.progress = show_progress;
    LK_TRY(open_source(&o, &lists, &request, operands, n, &in));
    LK_TRY(lk_whatif_run(&in.source, &request, &w));
    LK_TRY(plan(&o, &in.source, &w));
    LK_TRY(forecast_write(&w.forecast, o.out, o.csv));
    LK_TRY(print(&o, &in.source, &w));
out:
    lk_whatif_fini(&w);
    evidence_fini(&in);
    lists_fini(&lists);
    return st;
}

const struct lk_command lk_command_whatif = {
    .name = "whatif",
    .usage = "JOB CLUSTER",
    .help = "a grid over buckets, batches, networks, shardings; names the best",
    .options = rows,
    .run = run,
};
