/*
 * Questions become forecasts; see the header. Divisions: the question / its answers / a job on a
 * cluster.
 */
#include "commands/forecast_ask.h"

#include "base/array.h"
#include "commands/axis_lists.h"
#include "commands/command.h"
#include "commands/evidence_inputs.h"
#include "commands/inputs.h"
#include "commands/ledger.h"
#include "facts/compare.h"
#include "facts/place.h"
#include "sim/forecast/paired.h"
#include "sim/forecast/site.h"

#include <stdlib.h>
#include <string.h>

/* ---- The question ---- */

const char *forecast_question_job(const struct forecast_question *q)
{
    return q->table ? q->table : q->job ? q->job : q->operands[0];
}

const char *forecast_question_cluster(const struct forecast_question *q)
{
    if (q->cluster)
        return q->cluster;
    if (!q->table)
        return q->operands[1];
    return q->n_operands ? q->operands[q->n_operands - 1] : NULL;
}

/* Return true if the request changes the machine: no run of the one as it is tells of that. */
static bool is_of_other_machines(const struct lk_forecast_request *q)
{
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (q->axes[a].n && lk_axis_role((enum lk_axis)a) != LK_AXIS_SETTING)
            return true;
    return false;
}

/* Set whether a run, which names its device, can be of the question's own cluster alone. */
static enum lk_status is_told_apart(const struct forecast_question *q, const struct lk_cluster *own,
                                    bool *out)
{
    *out = true;
    for (size_t i = 0; i < q->n_clusters && *out; i++) {
        struct lk_cluster other;

        if (!strcmp(q->clusters[i], q->cluster))
            continue;
        LK_PASS(find_cluster(q->clusters[i], &other));
        *out = lk_device_same(own->gpu, other.gpu) < 0;
        lk_cluster_fini(&other);
    }
    return LK_OK;
}

/* Set why the answers are not kept; NULL: they are. */
static enum lk_status set_unwanted(const struct forecast_question *q,
                                   const struct evidence_inputs *in, const char **out)
{
    bool apart = true;

    *out = "forecasts on a machine that is altered";
    if (is_of_other_machines(&in->request.grid))
        return LK_OK;
    LK_PASS(is_told_apart(q, &in->cluster, &apart));
    *out = apart ? NULL
                 : "forecasts on machines whose GPUs do not tell runs of one from runs of another; "
                   "lockstep predict keeps those of one";
    return LK_OK;
}

/* Set the command line, with the options that are not at their defaults. */
static enum lk_status ask_again(const struct forecast_question *q, char **out)
{
    enum lk_status st = LK_OK;
    char **argv = NULL, *line = NULL;

    LK_TRY(lk_command_argv(q->command, q->options, NULL, &argv));
    LK_TRY(lk_text_add(&line, "%s %s", argv[0], argv[1]));
    for (int i = 0; i < q->n_operands; i++)
        LK_TRY(lk_text_add(&line, " %s", q->operands[i]));
    for (size_t i = 2; argv[i]; i++)
        LK_TRY(lk_text_add(&line, " %s", argv[i]));
    LK_HAND_OVER(out, line);
out:
    free(line);
    lk_argv_free(argv);
    return st;
}

/* Keep answers to the question. */
static enum lk_status keep(const struct ledger *ledger, const struct forecast_question *q,
                           const struct evidence_inputs *in, const struct ledger_answer *v,
                           size_t n, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    char *text = NULL;
    struct ledger_question kept = {.file = forecast_question_job(q),
                                   .is_table = q->table != NULL,
                                   .job = &in->job,
                                   .cluster = &in->cluster,
                                   .cluster_file = forecast_question_cluster(q),
                                   .level = in->request.grid.level};

    if (!ledger->path)
        return LK_OK;
    LK_TRY(ask_again(q, &text));
    kept.text = text;
    LK_TRY(set_unwanted(q, in, &kept.unwanted));
    LK_TRY(ledger_keep(ledger, &kept, v, n, page));
out:
    free(text);
    return st;
}

/* ---- Its answers ---- */

/* Return true if a goal's answer names a point. */
static bool is_named(const struct lk_goal_answer *a, size_t point)
{
    return point == a->smallest || point == a->cheapest || point == a->fastest ||
           point == a->nearest;
}

/* Return true if a point is what the request's answer is about. */
static bool answers(const struct lk_forecast_request *q, const struct lk_forecast *f,
                    const struct lk_gains *gains, size_t point)
{
    if (q->goal)
        return is_named(&gains->goal, point);
    return !q->compare || f->points[point].gain.verdict == LK_VERDICT_BEST;
}

static enum lk_status keep_points(const struct ledger *ledger, const struct forecast_question *q,
                                  const struct evidence_inputs *in, const struct lk_forecast *f,
                                  const struct lk_gains *gains, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct ledger_answer *v = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&v, f->n_points, sizeof *v));
    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_forecast_point *p = &f->points[i];

        if (answers(&in->request.grid, f, gains, i))
            v[n++] = (struct ledger_answer){.config = &p->config,
                                            .step_s = p->step_s,
                                            .lo_s = p->step_lo_s,
                                            .hi_s = p->step_hi_s,
                                            .measured_s = p->measured_step_s,
                                            .evidence = p->evidence};
    }
    LK_TRY(keep(ledger, q, in, v, n, page));
out:
    free(v);
    return st;
}

enum lk_status forecast_ask(const struct forecast_question *q, struct evidence_inputs *in,
                            struct lk_forecast *out, struct lk_gains *gains, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct ledger ledger = {0};
    struct lk_gains own = {0}, *to = gains ? gains : in->request.grid.goal ? &own : NULL;

    LK_TRY(ledger_open(q->ledger, forecast_question_job(q), &ledger));
    in->request.grid.site_factor = ledger.factor;
    LK_TRY(lk_forecast_run(&in->source, &in->request.grid, out, to));
    LK_TRY(keep_points(&ledger, q, in, out, to, page));
out:
    lk_gains_fini(&own);
    ledger_close(&ledger);
    return st;
}

enum lk_status forecast_ask_predicted(const struct forecast_question *q,
                                      const struct evidence_inputs *in, struct lk_prediction *p,
                                      double *out_factor, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    struct ledger ledger = {0};
    struct ledger_answer a;

    LK_TRY(ledger_open(q->ledger, forecast_question_job(q), &ledger));
    lk_prediction_spread(p, ledger.factor);
    a = (struct ledger_answer){.config = &p->config,
                               .step_s = p->step_s,
                               .lo_s = p->lo_s,
                               .hi_s = p->hi_s,
                               .measured_s = p->measured_s,
                               .evidence = p->evidence};
    LK_TRY(keep(&ledger, q, in, &a, 1, page));
    *out_factor = ledger.factor;
out:
    ledger_close(&ledger);
    return st;
}

/* ---- A job on a cluster ---- */

enum lk_status forecast_job(const struct forecast_question *q,
                            const char *const axes[LK_AXIS_COUNT], bool whatif,
                            struct lk_forecast *out, struct lk_gains *drawn, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    static const struct machine_facts no_facts = {0};
    static const struct lk_plan_request plan = {.cost_factor = 1.5}; /* as PLAN_ROWS has it */
    const char *job = forecast_question_job(q);
    struct axis_lists lists = {0};
    struct evidence_inputs in = {0};
    struct lk_cluster read = {0};

    LK_TRY(axis_lists_read(axes, &lists));
    LK_TRY(find_cluster(q->cluster, &read));
    in.request.grid = (struct lk_forecast_request){
        .level = LK_COMPARE_LEVEL,
        .draws = FORECAST_JOB_DRAWS,
        .seed = FORECAST_JOB_SEED,
        .network_seed = drawn ? lk_network_seed(FORECAST_JOB_SEED, &read) : 0, /* the seed */
        .compare = whatif,
        .plan = &plan};
    axis_lists_ask(&lists, &in.request.grid);
    LK_TRY(evidence_open_job(&job, 1, q->cluster, &no_facts, &in));
    LK_TRY(forecast_ask(q, &in, out, drawn, page));
out:
    evidence_fini(&in);
    lk_cluster_fini(&read);
    axis_lists_fini(&lists);
    return st;
}
