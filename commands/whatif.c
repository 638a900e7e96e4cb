/* lockstep whatif: a grid over buckets, batches, networks, shardings, ...; names the best. */
#include "base/array.h"
#include "base/option.h"
#include "base/progress.h"
#include "commands/axis_lists.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/evidence_inputs.h"
#include "commands/forecast_ask.h"
#include "commands/forecast_page.h"
#include "commands/inputs.h"
#include "commands/ledger.h"
#include "commands/output.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "sim/forecast/forecast.h"
#include "sim/planning/memory.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEST_MAX = 10 }; /* configurations shown at each count of GPUs, and the current one */

struct options {
    const char *axes[LK_AXIS_COUNT];
    int64_t global_batch;
    const char *cluster;
    struct throughput_options table; /* its GPUs of a node are an axis, not an option */
    double level;
    int64_t draws, seed;
    bool anyway;
    const char *out, *csv, *ledger;
    struct lk_page_options page;
    struct lk_gate_options gate;
    const char *log;
    struct plan_options plan;
};

#define OPTION(...) ROW(struct options, __VA_ARGS__)

/* clang-format off */
static const struct lk_option rows[] = {
    LK_AXIS_LIST(AXIS_ROW)
    OPTION(GLOBAL_BATCH_OPTION),
    OPTION(CLUSTER_OPTION),
    DRAW_ROWS(OPTION),
    OPTION(ANYWAY_OPTION),
    OPTION(MEASURED_ON_OPTION),
    THROUGHPUT_ROWS(OPTION),
    PLAN_ROWS(OPTION),
    FORECAST_ROWS(OPTION),
    OPTION(LEDGER_OPTION),
    PAGE_ROWS(OPTION),
    GATE_ROWS(OPTION, "efficiency"),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

static void show_progress(void *user, size_t done, size_t total)
{
    (void)user;
    lk_progress("configuration", (double)done, (double)total);
}

/* Make the request; `job`: a job is given, beside a table of throughputs or alone. */
static void make_request(const struct options *o, const struct axis_lists *l, bool job,
                         struct lk_forecast_request *q)
{
    *q = (struct lk_forecast_request){.global_batch = o->global_batch,
                                      .level = o->level,
                                      .draws = (int)o->draws,
                                      .seed = (uint64_t)o->seed,
                                      .anyway = o->anyway,
                                      .compare = true,
                                      .plan = job || plan_asked(&o->plan) ? &o->plan.request : NULL,
                                      .progress = show_progress};
    axis_lists_ask(l, q);
}

static enum lk_status print(const struct options *o, const struct lk_evidence_source *source,
                            const struct lk_gains *c, const struct lk_forecast *f,
                            struct lk_page *page)
{
    enum {
        POINTS,
        BEST,
        MACHINES,
        EFFECTS,
        PLANS,
        MEMORY = PLANS + LK_PLAN_TABLES,
        CONTRADICTIONS,
        COUNT
    };
    enum lk_status st = LK_OK;
    struct lk_table *tables[COUNT] = {NULL};
    const enum lk_page_place plan = forecast_has_target(f) ? LK_PAGE_MAIN : LK_PAGE_DETAIL;
    const struct {
        const char *name;
        enum lk_page_place place;
        enum forecast_view view;
    } shown[COUNT] = {{"points", LK_PAGE_DETAIL, FORECAST_DETAIL},
                      {"best", LK_PAGE_MAIN, FORECAST_BEST},
                      {"machines", LK_PAGE_MAIN, FORECAST_WHOLE},
                      {"effects", LK_PAGE_DETAIL, FORECAST_DETAIL},
                      {"plan", LK_PAGE_DETAIL, FORECAST_PLAN},
                      {"target", plan, FORECAST_PLAN},
                      {"memory", LK_PAGE_MAIN, FORECAST_WHOLE},
                      {"contradictions", LK_PAGE_DETAIL, FORECAST_DETAIL}};

    LK_TRY(lk_forecast_table(f, &tables[POINTS]));
    LK_TRY(lk_forecast_best_table(f, BEST_MAX, &tables[BEST]));
    LK_TRY(lk_machines_table(c, &tables[MACHINES]));
    LK_TRY(lk_forecast_contradiction_table(f, &tables[CONTRADICTIONS]));
    if (c->n_effects)
        LK_TRY(lk_gains_table(c, &tables[EFFECTS]));
    LK_TRY(lk_forecast_plan_tables(f, o->page.format != LK_FORMAT_TEXT, &tables[PLANS]));
    if (o->plan.memory && !o->table.file)
        LK_TRY(lk_memory_table(source->job, lk_plan_device_bytes(source->cluster, &o->plan.request),
                               f, &tables[MEMORY]));
    LK_TRY(forecast_page_answer(f, true, page));
    for (int i = 0; i < COUNT; i++)
        LK_TRY(
            forecast_page_table(f, shown[i].name, shown[i].place, shown[i].view, &tables[i], page));
    LK_TRY(forecast_page_files(o->out, o->csv, page));
out:
    for (int i = 0; i < COUNT; i++)
        lk_table_destroy(tables[i]);
    return st;
}

extern const struct lk_command lk_command_whatif;

static enum lk_status run(void *options, const char **operands, int n, struct lk_page *page)
{
    const struct options *o = options;
    enum lk_status st = LK_OK;
    struct axis_lists lists = {0};
    struct evidence_inputs in = {0};
    struct lk_forecast f = {0};
    struct lk_gains c = {0};
    const struct forecast_question question = FORECAST_QUESTION(lk_command_whatif, o, operands, n);

    if (!o->table.file) {
        LK_TRY(check_no_table(&o->table));
        LK_TRY(job_and_cluster("whatif", operands, n, o->cluster));
    }
    if (!o->axes[LK_AXIS_GPUS])
        return lk_fail(LK_EUSAGE, "--gpus is missing: the counts to forecast, e.g. --gpus=8,64");
    LK_TRY(axis_lists_read(o->axes, &lists));
    make_request(o, &lists, !o->table.file || n > 0, &in.request.grid);
    LK_TRY(o->table.file ? evidence_open_table(&o->table, o->cluster, operands, n, &in)
                         : evidence_open_job(
                               operands, 1, operands[1],
                               &(struct machine_facts){.measured_on = o->table.measured_on}, &in));
    lk_progress_begin(0, 1, "forecasting the grid");
    LK_TRY(forecast_ask(&question, &in, &f, &c, page));
    LK_TRY(forecast_write(&f, o->out, o->csv));
    LK_TRY(print(o, &in.source, &c, &f, page));
    st = forecast_verdict(&f);
out:
    lk_gains_fini(&c);
    lk_forecast_fini(&f);
    evidence_fini(&in);
    axis_lists_fini(&lists);
    return st;
}

const struct lk_command lk_command_whatif = {
    .name = "whatif",
    .usage = "JOB CLUSTER",
    .help = "forecast a grid of buckets, batches, networks and shardings; name the best",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = 2,
    .operand = LK_OPERAND_CLUSTER,
    .main_value = "efficiency",
    .tables = TABLES("points", "best", "machines", "effects", "plan", "target", "memory",
                     "contradictions"),
    .run = run,
};
