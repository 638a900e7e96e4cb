/* Doubts of a job's own numbers; see the header. */
#include "sim/forecast/job_doubts.h"

#include "base/stats.h"
#include "base/units.h"
#include "sim/step/measured_runs.h"

#include <math.h>
#include <stdbool.h>

/* A run of one GPU differs from its compute by its input, its optimizer and the host's gaps, which
 * are added where they are known. What differs by more is not of the same job. */
static const double STEP_ABOVE = 2, STEP_BELOW = 0.8;
/* Samples of two batches scatter by some percent. */
static const double BATCH_BELOW = 0.95;

static double micro_batch_s(const struct lk_job_compute *c)
{
    return c->forward_s.value + c->backward_s.value;
}

static double known(const struct lk_quantity *q)
{
    return lk_quantity_known(q) ? q->value : 0;
}

static const char *time_text(double s, char buf[32])
{
    return lk_units_format(LK_DIM_TIME, s, buf, 32);
}

static enum lk_status doubt_passes(const struct lk_job_compute *c, struct lk_forecast *out)
{
    char other[32];
    bool backward = !(c->backward_s.value > 0);

    if (!backward && c->forward_s.value > 0)
        return LK_OK;
    return lk_forecast_warn(out,
                            "The job's %s at local batch %d takes no time, its %s %s: is one of "
                            "them missing, or the sum of both in the other?",
                            backward ? "backward" : "forward", c->local_batch,
                            backward ? "forward" : "backward", time_text(micro_batch_s(c), other));
}

static enum lk_status doubt_batches(const struct lk_job_compute *a, const struct lk_job_compute *b,
                                    struct lk_forecast *out)
{
    char larger[32], smaller[32];

    if (micro_batch_s(b) >= BATCH_BELOW * micro_batch_s(a))
        return LK_OK;
    return lk_forecast_warn(
        out,
        "The job's compute contradicts itself: a micro-batch of %d takes %s, one of %d only %s: is "
        "one of them wrong, or measured elsewhere?",
        a->local_batch, time_text(micro_batch_s(a), smaller), b->local_batch,
        time_text(micro_batch_s(b), larger));
}

static enum lk_status doubt_run(const struct lk_job *job, const struct lk_job_run *r,
                                struct lk_forecast *out)
{
    for (size_t i = 0; i < job->n_compute; i++) {
        const struct lk_job_compute *c = &job->compute[i];
        double measured_s, least_s, rest_s;
        char step[32], sum[32];

        if (c->local_batch != r->config.local_batch)
            continue;
        measured_s = lk_stats_mean(r->step_s, r->n_steps);
        least_s = r->config.accumulation * micro_batch_s(c);
        rest_s = known(&c->input_s) + known(&c->optimizer_s) + known(&c->gap_s);
        if (measured_s >= STEP_BELOW * least_s && measured_s <= STEP_ABOVE * (least_s + rest_s))
            return LK_OK;
        return lk_forecast_warn(
            out,
            "The job's run of 1 GPU (%s) contradicts its compute: its step is %s, and forward, "
            "backward and what else the job says take %s: is it another job's, or another "
            "machine's?",
            r->source, time_text(measured_s, step), time_text(least_s + rest_s, sum));
    }
    return LK_OK;
}

enum lk_status lk_job_doubts_add(const struct lk_job *job, const struct lk_cluster *cluster,
                                 struct lk_forecast *out)
{
    size_t before; /* repetitions of a run are told once */

    for (size_t i = 0; i < job->n_compute; i++)
        LK_PASS(doubt_passes(&job->compute[i], out));
    for (size_t i = 1; i < job->n_compute; i++)
        LK_PASS(doubt_batches(&job->compute[i - 1], &job->compute[i], out));
    before = out->n_warnings;
    for (size_t i = 0; i < job->n_runs && out->n_warnings == before; i++)
        if (lk_config_replicas(&job->runs[i].config) == 1 && job->runs[i].n_steps &&
            lk_run_counts(cluster, job, &job->runs[i]))
            LK_PASS(doubt_run(job, &job->runs[i], out));
    return LK_OK;
}
