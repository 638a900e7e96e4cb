/* lockstep plan: the smallest configuration for a deadline, a budget or a throughput; which run to
 * make next. */
#include "base/array.h"
#include "base/label.h"
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
#include "commands/plan_next.h"
#include "commands/plan_space.h"
#include "facts/forecast.h"
#include "facts/frontier.h"
#include "sim/forecast/contradiction.h"
#include "sim/forecast/forecast.h"
#include "sim/prior.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *axes[LK_AXIS_COUNT]; /* those that plan_space fills */
    struct lk_goal goal;
    struct plan_next_options next;
    int64_t global_batch;
    const char *cluster;
    struct throughput_options table;
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
    OPTION("deadline", goal.deadline_s, TIME, .min = 1e-3, .max = 1e12, .group = "goal",
           .help = "time in which the samples are to be trained, e.g. 24h"),
    OPTION("budget", goal.budget, REAL, .min = 1e-9, .max = 1e18,
           .help = "what that may cost, in the unit of --price"),
    OPTION("target-throughput", goal.throughput_per_s, REAL, .min = 1e-9, .max = 1e18,
           .help = "samples a second of all GPUs that are to be reached"),
    PLAN_REAL(OPTION, "samples", target_samples, .former = "target-samples",
              .help = "samples to train if the batch is small: more past the critical batch; default: the job's target_samples"),
    OPTION("probability", goal.probability, REAL, .min = 0.5, .max = 0.99, .fallback = "0.9",
           .help = "with which the goal is to be reached"),
    OPTION("narrow", next.narrow, INT, .min = 2, .max = LK_FORECAST_GPUS_MAX, .group = "which run next",
           .help = "in place of a goal: rank the measurements that would narrow the forecast on so many GPUs"),
    OPTION("available", next.available, INT, .min = 1, .max = LK_FORECAST_GPUS_MAX,
           .help = "most GPUs that a measurement may take; default: half of --narrow's"),
    OPTION("run-time", next.run_s, TIME, .min = 1, .max = 1e7, .fallback = "5min",
           .help = "how long a measurement takes"),
    LK_AXIS_RUN_LIST(AXIS_ROW)
    LK_AXIS_SHARDING_LIST(AXIS_ROW)
    LK_AXIS_GPU_LIST(AXIS_ROW)
    OPTION(GLOBAL_BATCH_OPTION),
    OPTION(CLUSTER_OPTION),
    DRAW_ROWS(OPTION),
    OPTION(ANYWAY_OPTION),
    OPTION(MEASURED_ON_OPTION),
    THROUGHPUT_ROWS(OPTION),
    OPTION(GPUS_PER_NODE_OPTION),
    PLAN_INPUT_ROWS(OPTION),
    FORECAST_ROWS(OPTION),
    OPTION(LEDGER_OPTION),
    PAGE_ROWS(OPTION),
    GATE_ROWS(OPTION, "probability"),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

static enum lk_status check(const struct options *o, const char **operands, int n)
{
    const struct lk_goal *g = &o->goal;

    bool has_goal = g->deadline_s > 0 || g->budget > 0 || g->throughput_per_s > 0;

    if (has_goal == (o->next.narrow > 0))
        return lk_fail(LK_EUSAGE, has_goal ? "--narrow asks which run to make next, and takes no "
                                             "goal"
                                           : "the goal is missing: --deadline, --budget or "
                                             "--target-throughput, or several of them; or "
                                             "--narrow");
    if (!o->table.file) {
        LK_PASS(check_no_table(&o->table));
        return job_and_cluster("plan", operands, n, o->cluster);
    }
    if (has_goal && !n && !o->table.parameters && !o->table.gradients)
        return lk_fail(LK_EUSAGE, "memory and cost take what the job and the cluster are: with "
                                  "--throughput, JOB, --parameters or --gradients, and CLUSTER or "
                                  "--cluster");
    return LK_OK;
}

/* Set what the goal is held to where neither options nor files say it: without a price costs are
 * hours of GPUs; without samples times are of a million; without a noise scale a sample teaches as
 * much in any batch. */
static enum lk_status complete(const struct options *o, const struct evidence_inputs *in,
                               struct lk_goal *goal, struct lk_plan_request *plan)
{
    *goal = o->goal;
    *plan = o->plan.request;
    goal->has_samples = plan->target_samples > 0 || lk_quantity_known(&in->job.target_samples);
    goal->has_price = plan->price_per_hour > 0 || lk_quantity_known(&in->cluster.price_per_hour);
    if (!goal->has_samples && (goal->deadline_s > 0 || goal->budget > 0))
        return lk_fail(LK_EUSAGE, "--deadline and --budget are of a number of samples: --samples, "
                                  "or \"target_samples\" in the job file");
    if (!goal->has_price && goal->budget > 0)
        return lk_fail(LK_EUSAGE, "--budget takes the price of a GPU an hour: --price, or "
                                  "\"price_per_hour\" in the cluster file; --price 1 counts hours "
                                  "of GPUs");
    if (!goal->has_samples)
        plan->target_samples = 1e6;
    if (!goal->has_price)
        plan->price_per_hour = 1;
    if (isnan(lk_plan_noise_scale(&in->job, plan)))
        plan->noise_scale = INFINITY;
    return LK_OK;
}

static enum lk_status note_goal(const struct lk_goal *goal, const struct lk_plan_request *plan,
                                const struct lk_gains *c, struct lk_forecast *f)
{
    if (isinf(plan->noise_scale))
        LK_PASS(lk_forecast_assume(f, "that a sample teaches as much in any batch",
                                   "--noise-scale, or \"noise_scale\" in the job file, would tell "
                                   "where larger batches need more samples"));
    if (!goal->has_price)
        LK_PASS(lk_forecast_note(f, "costs are hours of GPUs: no price is known (--price)"));
    if (!goal->has_samples)
        LK_PASS(lk_forecast_note(f, "times and costs are of 1,000,000 samples: --samples says "
                                    "how many there are"));
    if (c->n_refused)
        LK_PASS(lk_forecast_note(f, "%zu configurations asked for are left out: nothing tells them",
                                 c->n_refused));
    return LK_OK;
}

/* ---- The page ---- */

static const struct lk_view_column view[] = {
    LK_VIEW("what"),
    LK_VIEW("gpus"),
    {.name = "local_batch", .setting = true},
    {.name = "accumulation", .setting = true},
    {.name = "bucket_cap_bytes", .setting = true},
    {.name = "sharding", .setting = true},
    LK_VIEW("time_to_target_h"),
    LK_VIEW("cost_to_target"),
    LK_VIEW("probability"),
    {.name = "throughput_per_s", .optional = true},
};

/* Append a table with those columns of the view that it has. */
static enum lk_status add_table(const char *name, struct lk_table **t, struct lk_page *page)
{
    struct lk_view_column shown[LK_COUNT(view)];
    size_t n = 0;

    for (size_t i = 0; i < LK_COUNT(view); i++)
        for (size_t c = 0; c < (*t)->n_columns; c++)
            if (!strcmp((*t)->columns[c].name, view[i].name))
                shown[n++] = view[i];
    return lk_page_table(page, name, LK_PAGE_MAIN, shown, n, t);
}

/* The points that the answer names, each once. */
struct named {
    const char *what[4];
    size_t at[4], n;
};

static void name(struct named *v, const char *what, size_t point)
{
    if (point == SIZE_MAX)
        return;
    v->what[v->n] = what;
    v->at[v->n++] = point;
}

static enum lk_status add_values(const struct lk_forecast *f, const struct named *v,
                                 struct lk_page *page)
{
    enum lk_status st = LK_OK;
    char *labels = NULL;

    for (size_t i = 0; i < v->n; i++) {
        const struct lk_forecast_point *p = &f->points[v->at[i]];

        free(labels);
        labels = NULL;
        LK_TRY(lk_label_add(&labels, "which", "%s", v->what[i]));
        LK_TRY(lk_page_value(page, "probability", labels, LK_DIM_NONE, p->plan.probability));
        LK_TRY(lk_page_value(page, "gpus", labels, LK_DIM_NONE, p->config.world_size));
        LK_TRY(
            lk_page_value(page, "time_to_target_h", labels, LK_DIM_NONE, p->plan.time_to_target_h));
        LK_TRY(lk_page_value(page, "cost_to_target", labels, LK_DIM_NONE, p->plan.cost_to_target));
    }
out:
    free(labels);
    return st;
}

static enum lk_status print(const struct options *o, const struct lk_gains *c,
                            const struct lk_forecast *f, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct lk_table *choices = NULL, *frontier = NULL, *contradictions = NULL;
    struct named v = {.n = 0};
    size_t *at = NULL, n = 0;

    LK_TRY(forecast_page_answer(f, true, page));
    LK_TRY(lk_forecast_contradiction_table(f, &contradictions));
    LK_TRY(forecast_page_table(f, "contradictions", LK_PAGE_DETAIL, FORECAST_DETAIL,
                               &contradictions, page));
    if (!lk_contradictions_refute(f) || o->anyway) {
        name(&v, "smallest", c->goal.smallest);
        name(&v, "cheapest", c->goal.cheapest);
        name(&v, "fastest", c->goal.fastest);
        name(&v, "nearest miss", c->goal.nearest);
        LK_TRY(add_values(f, &v, page));
        LK_TRY(lk_frontier_table(f, "Configurations that the answer names", v.at, v.what, v.n,
                                 &choices));
        LK_TRY(add_table("choices", &choices, page));
        LK_TRY(lk_frontier_list(f, lk_prior_value(LK_PRIOR_RESOLUTION), &at, &n));
        LK_TRY(lk_frontier_table(f,
                                 "The frontier of time and cost: no configuration asked for "
                                 "beats these in both",
                                 at, NULL, n, &frontier));
        LK_TRY(add_table("frontier", &frontier, page));
    }
    LK_TRY(forecast_page_files(o->out, o->csv, page));
out:
    free(at);
    lk_table_destroy(choices);
    lk_table_destroy(frontier);
    lk_table_destroy(contradictions);
    return st;
}

static void show_progress(void *user, size_t done, size_t total)
{
    (void)user;
    lk_progress("configuration", (double)done, (double)total);
}

extern const struct lk_command lk_command_plan;

static enum lk_status run(void *options, const char **operands, int n, struct lk_page *page)
{
    const struct options *o = options;
    enum lk_status st = LK_OK;
    struct axis_lists lists = {0};
    struct evidence_inputs in = {.request.grid = {.global_batch = o->global_batch,
                                                  .level = o->level,
                                                  .draws = (int)o->draws,
                                                  .seed = (uint64_t)o->seed,
                                                  .anyway = o->anyway,
                                                  .progress = show_progress}};
    const struct forecast_question question = FORECAST_QUESTION(lk_command_plan, o, operands, n);
    struct lk_goal goal;
    struct lk_plan_request plan;
    struct lk_forecast f = {0};
    struct lk_gains c = {0};

    LK_TRY(check(o, operands, n));
    LK_TRY(o->table.file
               ? evidence_open_table(&o->table, o->cluster, operands, n, &in)
               : evidence_open_job(operands, 1, operands[1],
                                   &(struct machine_facts){.gpus_per_node = o->table.gpus_per_node,
                                                           .measured_on = o->table.measured_on},
                                   &in));
    if (o->next.narrow) {
        st = plan_next(&o->next, &question, &in, page);
        goto out;
    }
    LK_TRY(complete(o, &in, &goal, &plan));
    in.request.grid.goal = &goal;
    in.request.grid.plan = &plan;
    LK_TRY(plan_space_read(&in.source, o->global_batch > 0, o->axes, &lists));
    axis_lists_ask(&lists, &in.request.grid);
    lk_progress_begin(0, 1, "forecasting the configurations");
    LK_TRY(forecast_ask(&question, &in, &f, &c, page));
    LK_TRY(note_goal(&goal, &plan, &c, &f));
    LK_TRY(forecast_write(&f, o->out, o->csv));
    LK_TRY(print(o, &c, &f, page));
    st = forecast_verdict(&f);
out:
    lk_gains_fini(&c);
    lk_forecast_fini(&f);
    evidence_fini(&in);
    axis_lists_fini(&lists);
    return st;
}

const struct lk_command lk_command_plan = {
    .name = "plan",
    .usage = "JOB CLUSTER",
    .help = "find the configuration that reaches a goal, or the run to make next",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = 2,
    .operand = LK_OPERAND_CLUSTER,
    .main_value = "probability",
    .tables = TABLES("choices", "frontier", "measurements", "contradictions"),
    .run = run,
};
