/*
 * The sides of lockstep compare. Divisions: files, a job on clusters, both.
 */
#include "commands/compare_impl.h"

#include "base/file.h"
#include "commands/forecast_ask.h"
#include "commands/inputs.h"

#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {COMPARE_KIND_LIST(LK_WORD_NAME)};
static const char *const schemas[] = {COMPARE_KIND_LIST(LK_WORD_THIRD)};

/* ---- Files ---- */

static enum lk_status kind_of(const char *name, enum kind *out)
{
    static const enum kind kinds[] = {[OPERAND_FOLDER] = KIND_RUN, [OPERAND_PRESET] = KIND_CLUSTER};
    enum operand operand = operand_of(name);
    size_t k = 0;

    if (operand == OPERAND_FILE)
        LK_PASS(find_schema(name, schemas, KIND_COUNT,
                            "only runs, clusters, forecasts and jobs can be compared", &k));
    *out = operand == OPERAND_FILE ? (enum kind)k : kinds[operand];
    return LK_OK;
}

static enum lk_status read_side(struct side *s)
{
    enum lk_status st = LK_OK;

    switch (s->kind) {
    case KIND_RUN:
        st = lk_run_set_read(&s->name, 1, &s->of.runs);
        break;
    case KIND_CLUSTER:
        st = find_cluster(s->name, &s->of.cluster);
        break;
    case KIND_FORECAST:
        st = lk_forecast_read(s->name, &s->of.forecast);
        break;
    case KIND_JOB:
        st = lk_job_read(s->name, &s->of.job);
        break;
    case KIND_COUNT:
        break;
    }
    s->read = st == LK_OK;
    return st;
}

void compare_sides_fini(struct sides *s)
{
    for (int i = 0; i < s->n; i++) {
        struct side *side = &s->v[i];

        lk_gains_fini(&side->drawn);
        if (!side->read)
            continue;
        if (side->kind == KIND_RUN)
            lk_run_set_fini(&side->of.runs);
        else if (side->kind == KIND_CLUSTER)
            lk_cluster_fini(&side->of.cluster);
        else if (side->kind == KIND_FORECAST)
            lk_forecast_fini(&side->of.forecast);
        else
            lk_job_fini(&side->of.job);
    }
}

/* Read sides of one kind. */
static enum lk_status read_sides(const char *const *names, int n, struct sides *out)
{
    for (int i = 0; i < n; i++) {
        out->v[i].name = names[i];
        LK_PASS(kind_of(names[i], &out->v[i].kind));
        if (out->v[i].kind != out->v[0].kind)
            return lk_fail(LK_EUSAGE,
                           "%s is a %s, %s is a %s: only inputs of one kind can be "
                           "compared",
                           names[0], kind_names[out->v[0].kind], names[i],
                           kind_names[out->v[i].kind]);
    }
    for (out->n = 0; out->n < n; out->n++)
        LK_PASS(read_side(&out->v[out->n]));
    return LK_OK;
}

/* ---- A job on clusters ---- */

/* Make the forecasts of the first operand, a job, on the clusters behind it. */
static enum lk_status forecast_sides(const struct forecast_question *q,
                                     const char *const axes[LK_AXIS_COUNT], struct sides *out,
                                     struct lk_page *page)
{
    struct forecast_question of = *q;
    const char *const *names = q->operands;
    int n = q->n_operands;

    if (n < 3)
        return lk_fail(LK_EUSAGE, "on which other cluster? Usage: lockstep compare JOB CLUSTER "
                                  "CLUSTER... --gpus=8,64");
    if (!axes[LK_AXIS_GPUS])
        return lk_fail(LK_EUSAGE, "--gpus is missing: the counts to forecast, e.g. --gpus=8,64");
    out->job = names[0];
    of.clusters = names + 1;
    of.n_clusters = (size_t)n - 1;
    for (int i = 1; i < n; i++) {
        struct side *s = &out->v[out->n];

        *s = (struct side){.name = names[i], .kind = KIND_FORECAST};
        of.cluster = names[i];
        LK_PASS(forecast_job(&of, axes, false, &s->of.forecast, &s->drawn, page));
        s->read = true;
        out->n++;
    }
    return LK_OK;
}

/* ---- Both ---- */

enum lk_status compare_sides_open(const struct forecast_question *q,
                                  const char *const axes[LK_AXIS_COUNT], struct sides *out,
                                  struct lk_page *page)
{
    const char *const *names = q->operands;
    int n = q->n_operands;
    enum kind first, second;

    if (n < 2)
        return lk_fail(LK_EUSAGE, "with what? Usage: lockstep compare A B [C...]");
    LK_PASS(kind_of(names[0], &first));
    LK_PASS(kind_of(names[1], &second));
    if ((first == KIND_JOB || first == KIND_RUN) && second == KIND_CLUSTER)
        return forecast_sides(q, axes, out, page);
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (axes[a])
            return lk_fail(LK_EUSAGE,
                           "--%s goes with a job on two clusters: lockstep compare JOB "
                           "CLUSTER CLUSTER",
                           lk_axis_option((enum lk_axis)a));
    return read_sides(names, n, out);
}
