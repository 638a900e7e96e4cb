/* Try what findings advise, each action as a what-if of the analysed job on the cluster of
 * --cluster: what gains nothing there is no advice. Divisions: actions, trials, their table. */
#include "base/array.h"
#include "commands/analyze_impl.h"
#include "profiler/analysis/job_build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Actions ---- */

#define OF(finding) (UINT64_C(1) << LK_FINDING_##finding)

/* An action changes an axis to a word or, without one, to a number of times what the run has. */
static const struct action_row {
    uint64_t of; /* findings that it mends; a bit a finding */
    enum lk_axis axis;
    const char *word;
    double times;
    const char *text; /* what to do */
} rows[ANALYZE_TRIALS] = {
    {OF(WIRE) | OF(POOR_OVERLAP), LK_AXIS_GRAD_DTYPE, "bfloat16", 0,
     "reduce gradients in bfloat16"},
    {OF(WIRE) | OF(POOR_OVERLAP), LK_AXIS_ACCUMULATION, NULL, 2,
     "accumulate twice as many micro-batches a step"},
    {OF(ACCUMULATION), LK_AXIS_REDUCE, "last", 0, "reduce in the last micro-batch alone"},
    {OF(FIRST_BUCKET) | OF(POOR_OVERLAP) | OF(WIRE), LK_AXIS_BUCKET_CAP, NULL, 0.25,
     "make buckets a quarter as large"},
    {OF(SMALL_BUCKETS) | OF(POOR_OVERLAP) | OF(WIRE), LK_AXIS_BUCKET_CAP, NULL, 4,
     "make buckets four times as large"},
    {OF(WIRE), LK_AXIS_NIC_BANDWIDTH, "x2", 0, "use network cards of twice the bandwidth"},
    {OF(SLOW_RANK), LK_AXIS_RANK_BATCHES, LK_AXIS_BALANCED, 0,
     "give each rank samples as it computes them"},
};

static double gradient_bytes(const struct lk_job *j)
{
    double bytes = 0;

    for (size_t i = 0; i < j->n_tensors; i++)
        bytes += (double)j->tensors[i].elems * (double)lk_dtype_bytes(j->tensors[i].dtype);
    return bytes;
}

/* Write the word of an action for a configuration; return false where that does not say what it
 * has now. No bucket is larger than all gradients, whatever the cap is. */
static bool write_word(const struct action_row *r, const struct lk_job *j,
                       const struct lk_config *now, char *out, size_t size)
{
    double has = r->axis == LK_AXIS_BUCKET_CAP ? fmin((double)now->cap_bytes, gradient_bytes(j))
                                               : now->accumulation;

    if (r->word)
        return snprintf(out, size, "%s", r->word) > 0;
    snprintf(out, size, "%.0f", ceil(has * r->times));
    return has > 0;
}

/* ---- Trials ---- */

/* Return the findings of a pool, a bit each. */
static uint64_t found_in(const struct lk_pool *p)
{
    uint64_t found = 0;

    for (size_t i = 0; i < p->n_findings; i++)
        found |= UINT64_C(1) << p->findings[i].is->id;
    return found;
}

/* Say which batches an action came to. */
static void say_batches(struct trial *t)
{
    char list[LK_RANK_BATCHES_TEXT];
    size_t used = strlen(t->text);

    lk_rank_batches_list(t->gain.batches, list, sizeof list);
    if (*list)
        snprintf(t->text + used, sizeof t->text - used, ", --local-batch=%s", list);
}

static enum lk_status try_action(const struct lk_job *job, const struct lk_cluster *cluster,
                                 const struct lk_config *now, const struct action_row *r,
                                 struct trials *out)
{
    struct trial t = {
        .of = r->of, .beside = r->axis == LK_AXIS_RANK_BATCHES, .option = lk_axis_option(r->axis)};
    const struct action_change change = {r->axis, t.word};
    const struct action action = {&change, 1};
    enum lk_status st;

    if (!write_word(r, job, now, t.word, sizeof t.word))
        return LK_OK;
    snprintf(t.text, sizeof t.text, "%s", r->text);
    st = action_gain(job, cluster, now, &action, &t.gain);
    if (st == LK_OK)
        say_batches(&t);
    if (st == LK_EUSAGE) /* no action for this job: one node has no network */
        return LK_OK;
    if (st == LK_EEVIDENCE)
        snprintf(out->why_not, sizeof out->why_not, "%s", lk_error_text());
    else if (st == LK_OK)
        out->at[out->n++] = t;
    return st == LK_EEVIDENCE ? LK_OK : st;
}

static const struct lk_config *config_of(const struct lk_job *job, const struct lk_run *run)
{
    for (size_t i = 0; i < job->n_runs; i++)
        if (!strcmp(job->runs[i].source, run->dir))
            return &job->runs[i].config;
    return NULL;
}

enum lk_status analyze_try(const struct lk_run_set *set, struct analyzed *a)
{
    const struct lk_pool *p = &a->pools[a->n_pools - 1];
    uint64_t found = found_in(p);
    const struct lk_config *now;
    enum lk_status st = LK_OK;
    struct lk_job job = {0};

    if (lk_run_world_size(p->runs[0].run) < 2)
        return LK_OK;
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        a->trials.want_cluster |= !a->alone.cost && found & rows[i].of;
    if (!a->alone.cost)
        return LK_OK;
    st = lk_job_build(set, &job);
    if (st == LK_EEVIDENCE || st == LK_EUSAGE || st == LK_EPARSE) {
        snprintf(a->trials.why_not, sizeof a->trials.why_not, "%s", lk_error_text());
        return LK_OK;
    }
    if (st != LK_OK)
        return st;
    now = config_of(&job, p->runs[0].run);
    for (size_t i = 0; now && i < LK_COUNT(rows); i++)
        if (found & rows[i].of)
            LK_TRY(try_action(&job, &a->alone.cluster, now, &rows[i], &a->trials));
out:
    lk_job_fini(&job);
    return st;
}

const struct trial *analyze_best_trial(const struct trials *t, enum lk_finding_id id, bool *tried)
{
    const struct trial *best = NULL;

    *tried = false;
    for (size_t i = 0; i < t->n; i++) {
        if (!(t->at[i].of >> id & 1))
            continue;
        *tried |= !t->at[i].beside;
        if (action_gains(&t->at[i].gain) &&
            (!best || t->at[i].gain.gain.ratio > best->gain.gain.ratio))
            best = &t->at[i];
    }
    return best;
}

/* ---- Their table ---- */

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define TRIALS(X)                                                                                  \
    X("option",    "option of whatif", LK_DIM_NONE, -1, (const char *)option)                      \
    X("step_s",    "step",             LK_DIM_TIME, 0,  x->gain.step_s)                            \
    X("gain",      "throughput x",     LK_DIM_NONE, 2,  x->gain.gain.ratio)                        \
    X("gain_lo",   "from",             LK_DIM_NONE, 2,  x->gain.gain.lo)                           \
    X("gain_hi",   "to",               LK_DIM_NONE, 2,  x->gain.gain.hi)                           \
    X("action",    "action",           LK_DIM_NONE, -1, x->text)

static const struct lk_column columns[] = {TRIALS(LK_TABLE_COLUMN)};
/* clang-format on */

enum lk_status analyze_trials_table(const struct analyzed *a, struct lk_table **out)
{
    const struct trials *trials = &a->trials;
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;
    char option[80];

    LK_TRY(lk_table_create("Actions tried on this job, those that surely gain", columns,
                           LK_COUNT(columns), &t));
    for (const struct trial *x = trials->at; x < trials->at + trials->n; x++) {
        if (!action_gains(&x->gain))
            continue;
        snprintf(option, sizeof option, "--%s %s", x->option, x->word);
        LK_TRY(lk_table_row(t));
        TRIALS(LK_TABLE_CELL)
    }
    if (trials->n)
        LK_TRY(lk_table_note(t, "%zu of %zu actions gain, by lockstep whatif on %s", t->n_rows,
                             trials->n, a->alone.cluster.name));
    if (*trials->why_not)
        LK_TRY(lk_table_note(t, "not tried: %s", trials->why_not));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
