/* Make the answer of `lockstep analyze`. Divisions: words, sentences, values, configurations. */
#include "commands/analyze_impl.h"

#include "base/array.h"
#include "base/units.h"
#include "facts/coll.h"
#include "profiler/analysis/job_stats.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A loss below this share of a step is not worth a sentence. */
static const double least_share = 0.005;

/* ---- Words ---- */

static const struct lk_run_info *about(const struct lk_pool *p)
{
    return lk_run_about(p->runs[0].run);
}

/* Return what the ranks of a run are called. */
static const char *ranks_of(const struct lk_run_info *info)
{
    return strcmp(info->device, "cpu") != 0 && strcmp(info->device, "timed") != 0 ? "GPU" : "rank";
}

struct text {
    char buf[48];
};

static struct text time_text(double s)
{
    struct text t;

    (void)lk_units_format(LK_DIM_TIME, s, t.buf, sizeof t.buf);
    return t;
}

struct runs_text {
    char buf[128];
};

/* Write how many runs an efficiency is the mean of, and their spread: "mean of 3 runs, 90 to 92",
 * "one run". */
static struct runs_text efficiencies_text(const struct lk_pool *p)
{
    struct runs_text t;

    if (p->n == 1)
        snprintf(t.buf, sizeof t.buf, "one run");
    else
        snprintf(t.buf, sizeof t.buf, "mean of %zu runs, %.0f to %.0f", p->n,
                 100 * p->efficiency.lo, 100 * p->efficiency.hi);
    return t;
}

/* Write the same of steps. */
static struct runs_text steps_text(const struct lk_pool *p)
{
    struct runs_text t;
    char range[64];

    if (p->n == 1)
        snprintf(t.buf, sizeof t.buf, "one run");
    else
        snprintf(t.buf, sizeof t.buf, "mean of %zu runs, %s", p->n,
                 lk_units_interval(LK_DIM_TIME, p->step_s.mean, p->step_s.lo, p->step_s.hi, range,
                                   sizeof range));
    return t;
}

/* Write how sure a finding is: repetitions that agree are evidence. */
static struct text sure_text(const struct lk_pool *p, const struct lk_pooled_finding *f)
{
    struct text t;

    if (p->n == 1)
        snprintf(t.buf, sizeof t.buf, "from one run");
    else if (f->n_runs == p->n)
        snprintf(t.buf, sizeof t.buf, "sure: in all %zu runs", p->n);
    else
        snprintf(t.buf, sizeof t.buf, "unsure: in %zu of %zu runs", f->n_runs, p->n);
    return t;
}

/* ---- Sentences ---- */

static enum lk_status say_step(const struct lk_pool *p, struct lk_page *page)
{
    const struct lk_analysis *a = &p->runs[0];
    const struct lk_run_info *info = about(p);
    const struct text step = time_text(p->step_s.mean);
    const struct runs_text runs = efficiencies_text(p), steps = steps_text(p);
    const char *what = ranks_of(info), *of = info->simulated ? "simulated " : "";
    const char *s = info->world_size == 1 ? "" : "s";
    double percent = 100 * p->efficiency.mean;

    if (!a->exposure_known || info->world_size == 1 || a->reference_ranks == info->world_size)
        return lk_page_say(page, "%d %s%s%s: %s a step (%s).", info->world_size, of, what, s,
                           step.buf, steps.buf);
    if (a->modelled)
        return lk_page_say(page,
                           "%d %s%s%s: %s a step (%s); %.0f %% of it is the ideal, which is "
                           "modelled from this run for want of one on fewer %ss.",
                           info->world_size, of, what, s, step.buf, steps.buf, percent, what);
    return lk_page_say(
        page, "%d %s%s%s reach %.0f %% of linear scaling against %d (%s): %s a step.",
        info->world_size, of, what, s, percent, a->reference_ranks, runs.buf, step.buf);
}

/* Return whether the first finding is worth a sentence. */
static bool costs_time(const struct lk_pool *p)
{
    return p->n_findings > 0 && p->findings[0].cost_s > least_share * p->step_s.mean;
}

/* Say what takes the most time beside the ideal, or why that is not known. */
static enum lk_status say_loss(const struct lk_pool *p, struct lk_page *page)
{
    enum lk_loss worst = lk_pool_worst(p);
    double s = p->losses_s[worst].mean, share = s / p->step_s.mean;

    if (!p->runs[0].exposure_known)
        return lk_page_say(page, "Compute is not known: nothing in these traces recorded it, so "
                                 "neither is how much of the communication it covers.");
    if ((worst == LK_LOSS_IDEAL || share < least_share) &&
        costs_time(p)) /* scaling loses nothing, and the step does */
        return lk_page_say(page, "%c%s.", toupper((unsigned char)p->findings[0].is->text[0]),
                           p->findings[0].is->text + 1);
    if (worst == LK_LOSS_IDEAL)
        return LK_OK;
    if (share < least_share)
        return lk_page_say(page, "Nothing of note is lost: the largest loss is %s, %s (%.1f %%).",
                           lk_loss_name(worst), time_text(s).buf, 100 * share);
    return lk_page_say(page, "Most is lost to %s: %s (%.1f %%).", lk_loss_name(worst),
                       time_text(s).buf, 100 * share);
}

/* Return the first finding that says what to do and what that brings, or that the run is worthless;
 * NULL: none. One whose actions were tried and gain nothing has no advice. *out: the action that
 * gains most for it; NULL: none was tried. */
static const struct lk_pooled_finding *first_to_do(const struct lk_pool *p, const struct trials *t,
                                                   const struct trial **out)
{
    for (const struct lk_pooled_finding *f = p->findings; f < p->findings + p->n_findings; f++) {
        bool tried;

        *out = analyze_best_trial(t, f->is->id, &tried);
        if (f->depth == 0 && f->is->next && (f->cost_s > 0 || lk_pool_is_grave(f)) &&
            (*out || !tried))
            return f;
    }
    return NULL;
}

/* Say an action that was tried, and what it gains. */
static enum lk_status say_trial(const struct trial *t, const char *cluster, struct lk_page *page)
{
    return lk_page_say(page,
                       "Do: %s: %.2f times the throughput (%.2f to %.2f), steps of %s, by lockstep "
                       "whatif --%s %s on %s.",
                       t->text, t->gain.gain.ratio, t->gain.gain.lo, t->gain.gain.hi,
                       time_text(t->gain.step_s).buf, t->option, t->word, cluster);
}

static enum lk_status say_what_to_do(const struct analyzed *a, const struct lk_pool *p,
                                     struct lk_page *page)
{
    const struct trial *trial;
    const struct lk_pooled_finding *f = first_to_do(p, &a->trials, &trial);
    char who[32] = "", points[48] = "";

    if (!f)
        return LK_OK;
    if (lk_pool_is_grave(f))
        return lk_page_say(page, "These times are of little use: %s. Do: %s.", f->is->text,
                           f->is->next);
    if (trial)
        return say_trial(trial, a->alone.cluster.name, page);
    if (f->is->rank >= 0)
        snprintf(who, sizeof who, "rank %d: ", lk_run_rank(f->of->run, (size_t)f->is->rank));
    if (!isnan(f->points))
        snprintf(points, sizeof points, ", %.1f points of efficiency", f->points);
    return lk_page_say(page, "Do: %s%s (worth up to %s a step%s; %s).", who, f->is->next,
                       time_text(f->cost_s).buf, points, sure_text(p, f).buf);
}

/* ---- Values ---- */

/* Return true if another configuration has the same GPUs and batches. */
static bool is_ambiguous(const struct analyzed *a, const struct lk_pool *p)
{
    const struct lk_run_info *x = about(p);

    for (const struct lk_pool *q = a->pools; q < a->pools + a->n_pools; q++)
        if (q != p && about(q)->world_size == x->world_size &&
            about(q)->local_batch == x->local_batch && about(q)->accumulation == x->accumulation)
            return true;
    return false;
}

/* Write the labels of a configuration: gpus="2",local_batch="4". */
static enum lk_status labels_of(const struct analyzed *a, const struct lk_pool *p, char **out)
{
    const struct lk_run_info *info = about(p);
    char accumulation[40] = "", number[40] = "";

    if (info->accumulation != 1)
        snprintf(accumulation, sizeof accumulation, ",accumulation=\"%d\"", info->accumulation);
    if (is_ambiguous(a, p))
        snprintf(number, sizeof number, ",configuration=\"%zu\"", (size_t)(p - a->pools) + 1);
    return lk_asprintf(out, "gpus=\"%d\",local_batch=\"%d\"%s%s", info->world_size,
                       info->local_batch, accumulation, number);
}

/* Return true if a configuration is what the others are compared with. */
static bool is_reference(const struct lk_pool *p)
{
    return p->runs[0].reference_ranks == about(p)->world_size;
}

static enum lk_status add_values(const struct analyzed *a, const struct lk_pool *p,
                                 struct lk_page *page)
{
    enum lk_status st = LK_OK;
    char *labels = NULL;

    LK_TRY(labels_of(a, p, &labels));
    if (!is_reference(p)) {
        LK_TRY(lk_page_value(page, "efficiency", labels, LK_DIM_NONE, p->efficiency.mean));
        LK_TRY(lk_page_value(page, "efficiency_lo", labels, LK_DIM_NONE, p->efficiency.lo));
        LK_TRY(lk_page_value(page, "efficiency_hi", labels, LK_DIM_NONE, p->efficiency.hi));
    }
    LK_TRY(lk_page_value(page, "step_s", labels, LK_DIM_TIME, p->step_s.mean));
out:
    free(labels);
    return st;
}

/* Add what the answer's configuration loses. */
static enum lk_status add_losses(const struct analyzed *a, const struct lk_pool *p,
                                 struct lk_page *page)
{
    double waits_s =
        lk_pool_knows(p, LK_LOSS_STRAGGLER) ? p->losses_s[LK_LOSS_STRAGGLER].mean : NAN;
    double exposed_s = 0; /* mean over runs and ranks */
    enum lk_status st = LK_OK;
    char *labels = NULL, *of = NULL;

    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->runs[i].run->n; k++)
            exposed_s += p->runs[i].ranks[k].split.exposed_s / (double)(p->n * p->runs[i].run->n);

    LK_TRY(labels_of(a, p, &labels));
    for (int loss = LK_LOSS_IDEAL + 1; loss < LK_LOSS_COUNT; loss++) {
        if (!lk_pool_knows(p, (enum lk_loss)loss))
            continue;
        free(of);
        of = NULL;
        LK_TRY(lk_asprintf(&of, "loss=\"%s\",%s", lk_loss_key((enum lk_loss)loss), labels));
        LK_TRY(lk_page_value(page, "loss_share", of, LK_DIM_NONE,
                             p->losses_s[loss].mean / p->step_s.mean));
    }
    LK_TRY(lk_page_value(page, "straggler_wait_s", labels, LK_DIM_TIME, waits_s));
    LK_TRY(lk_page_value(page, "exposed_comm_s", labels, LK_DIM_TIME, exposed_s));
out:
    free(of);
    free(labels);
    return st;
}

/* Say what the gradient noise scale, about the critical batch, says of a step's samples; nothing
 * where no run measured it (run --noise-every). */
static enum lk_status say_noise(const struct lk_pool *p, struct lk_page *page)
{
    const struct lk_run_info *info = about(p);
    double batch = lk_run_info_samples(info);
    struct lk_estimate e;
    size_t n = 1;

    while (n < p->n && p->runs[n].run == p->runs[0].run + n) /* one list, for the estimate */
        n++;
    LK_PASS(lk_job_noise(p->runs[0].run, n, &e));
    if (isnan(e.value))
        return LK_OK;
    LK_PASS(lk_page_value(page, "noise_scale", "", LK_DIM_NONE, e.value));
    return lk_page_say(page,
                       "Gradient noise scale, about the critical batch: %.3g samples (%.3g to "
                       "%.3g, %zu steps); a step has %.0f: %s.",
                       e.value, e.lo, e.hi, e.n, batch,
                       batch < e.lo   ? "a larger batch still pays"
                       : batch > e.hi ? "more samples a step teach less than in proportion"
                                      : "whether a larger batch pays is not known");
}

enum lk_status analyze_answer(const struct analyzed *a, struct lk_page *page)
{
    const struct lk_pool *last = &a->pools[a->n_pools - 1];

    LK_PASS(say_step(last, page));
    LK_PASS(say_loss(last, page));
    LK_PASS(say_what_to_do(a, last, page));
    LK_PASS(say_noise(last, page));
    for (const struct lk_pool *p = a->pools; p <= last; p++)
        LK_PASS(add_values(a, p, page));
    return add_losses(a, last, page);
}

/* ---- Configurations ---- */

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define CONFIGURATIONS(X)                                                                          \
    X("gpus",          "GPUs",         LK_DIM_NONE, -1, (double)info->world_size)                  \
    X("nodes",         "nodes",        LK_DIM_NONE, -1, (double)info->nodes)                       \
    X("local_batch",   "local batch",  LK_DIM_NONE, -1, (double)info->local_batch)                 \
    X("accumulation",  "accumulation", LK_DIM_NONE, -1, (double)info->accumulation)                \
    X("global_batch",  "global batch", LK_DIM_NONE, -1, global_batch)                              \
    X("buckets",       "buckets",      LK_DIM_NONE, -1, t_of.buckets)                              \
    X("sent_bytes",    "sent a step",  LK_DIM_BYTES, 0, t_of.sent_bytes)                           \
    X("runs",          "runs",         LK_DIM_NONE, -1, (double)p->n)                              \
    X("step_s",        "step",         LK_DIM_TIME, 0,  step.mean)                                 \
    X("step_lo_s",     "least run",    LK_DIM_TIME, 0,  step.lo)                                   \
    X("step_hi_s",     "most",         LK_DIM_TIME, 0,  step.hi)                                   \
    X("efficiency",    "efficiency",   LK_DIM_NONE, LK_TABLE_PERCENT, e.mean)                      \
    X("efficiency_lo", "least run",    LK_DIM_NONE, LK_TABLE_PERCENT, e.lo)                        \
    X("efficiency_hi", "most",         LK_DIM_NONE, LK_TABLE_PERCENT, e.hi)                        \
    X("loss",          "loss",         LK_DIM_NONE, LK_TABLE_DATA, loss ? lk_loss_key(worst) : NULL) \
    X("loss_name",     "largest loss", LK_DIM_NONE, -1, loss ? lk_loss_name(worst) : NULL)         \
    X("loss_s",        "takes",        LK_DIM_TIME, 0,  loss ? p->losses_s[worst].mean : NAN)      \
    X("run",           "first run",    LK_DIM_NONE, -1, (const char *)p->runs[0].run->dir)

static const struct lk_column columns[] = {CONFIGURATIONS(LK_TABLE_COLUMN)};
/* clang-format on */

/* Return a number of a configuration; one run has no spread. */
static struct lk_spread of_runs(const struct lk_pool *p, struct lk_spread s)
{
    return p->n > 1 ? s : (struct lk_spread){s.mean, NAN, NAN};
}

/* Count what a rank exchanges in a step. */
struct traffic {
    double buckets, sent_bytes; /* gradients' buckets; bytes that a rank of a ring sends, in all */
};

static struct traffic traffic_of(const struct lk_analysis *a)
{
    struct traffic t = {0, 0};

    for (const struct lk_analysis_bucket *b = a->buckets; b < a->buckets + a->n_buckets; b++) {
        t.buckets += b->bucket >= 0;
        if (b->coll < LK_COLL_COUNT)
            t.sent_bytes += lk_coll_wire_bytes(b->coll, (double)b->bytes, b->ranks) * (double)b->n /
                            (double)a->run->n_steps;
    }
    return t;
}

enum lk_status analyze_configurations(const struct analyzed *a, struct lk_table **out)
{
    static const struct lk_spread unknown = {NAN, NAN, NAN};
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(
        lk_table_create("Configurations: means over their runs", columns, LK_COUNT(columns), &t));
    for (const struct lk_pool *p = a->pools; p < a->pools + a->n_pools; p++) {
        const struct lk_run_info *info = about(p);
        const struct lk_spread step = of_runs(p, p->step_s);
        const struct lk_spread e = is_reference(p) ? unknown : of_runs(p, p->efficiency);
        const struct traffic t_of = traffic_of(&p->runs[0]);
        const double global_batch = lk_run_info_samples(info);
        enum lk_loss worst = lk_pool_worst(p);
        bool loss = worst != LK_LOSS_IDEAL && !is_reference(p);

        LK_TRY(lk_table_row(t));
        CONFIGURATIONS(LK_TABLE_CELL)
    }
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
