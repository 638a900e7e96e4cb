/* This file relates compute time to the local batch. */
#include "sim/step/batch_curve.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/prior.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

static const double Z90 = 1.6448536269514722;

/* Return a column of job.json's compute table, by the offset of its quantity in a row. */
static const struct lk_quantity *cell(const struct lk_job *j, size_t row, size_t column)
{
    return (const struct lk_quantity *)((const char *)&j->compute[row] + column);
}

/* Return a time, or 0 if a job written by hand does not give it. */
static double value_of(const struct lk_quantity *q)
{
    return lk_quantity_known(q) ? q->value : 0;
}

struct curve {
    const struct lk_job *job;
    double *y;       /* one entry a batch; owns the others */
    double *one, *a; /* work space: one entry a batch; two */
};

static double relative_sd(const struct lk_quantity *q)
{
    return lk_quantity_known(q) && q->value > 0 && q->hi >= q->lo
               ? (q->hi - q->lo) / (2 * Z90 * q->value)
               : 0;
}

/* Fit y = floor + rate b through all batches, on relative errors. */
static enum lk_status fit_rate(struct curve *c, double *out_rate)
{
    const struct lk_job *j = c->job;
    double k[2] = {0}, scale = j->compute[j->n_compute - 1].local_batch;
    size_t n = 0;

    for (size_t i = 0; i < j->n_compute; i++) {
        if (c->y[i] <= 0)
            continue;
        c->a[2 * n] = 1 / c->y[i];
        c->a[2 * n + 1] = j->compute[i].local_batch / scale / c->y[i];
        c->one[n++] = 1;
    }
    if (n)
        LK_PASS(lk_stats_nnls(c->a, c->one, n, 2, k));
    *out_rate = k[1] / scale;
    return LK_OK;
}

/*
 * Return the slope outside the measured batches: that of the segment at the edge where the curve
 * bends, that of the line through all points where the two differ by no more than noise. A segment
 * that does not rise is ignored. *out_sd is the slope's, from the sd of the rows.
 */
static enum lk_status edge_slope(struct curve *c, size_t column, size_t edge, double *out_slope,
                                 double *out_sd)
{
    const struct lk_job *j = c->job;
    size_t lo = edge ? edge - 1 : 0, hi = lo + 1;
    double run_sd = lk_prior_value(LK_PRIOR_RUN_SD), fit, slope, sd, bend;
    double width = j->compute[hi].local_batch - j->compute[lo].local_batch;

    LK_PASS(fit_rate(c, &fit));
    slope = (c->y[hi] - c->y[lo]) / width;
    sd = hypot(c->y[hi] * hypot(run_sd, relative_sd(cell(j, hi, column))),
               c->y[lo] * hypot(run_sd, relative_sd(cell(j, lo, column)))) /
         width;
    bend = slope > 0 ? slope - fit : 0;
    *out_slope = fit + bend * bend * bend / (bend * bend + sd * sd);
    *out_sd = sd;
    return LK_OK;
}

/* Scale one measured time: a share of it is fixed, the rest grows with the batch. */
static double from_one(double y, double ratio)
{
    double floor_share = lk_prior_value(LK_PRIOR_FLOOR_SHARE);

    return y * (floor_share + (1 - floor_share) * ratio);
}

/*
 * Extrapolate outside the measured batches; *variance_io grows by the slope's variance. Compute
 * does not shrink as the batch grows and, below the measured batches, does not grow faster than
 * it.
 */
static enum lk_status beyond(struct curve *c, size_t column, size_t edge, int b, double *out,
                             double *variance_io)
{
    const struct lk_job *j = c->job;
    double at = j->compute[edge].local_batch, y = c->y[edge], slope, sd;

    if (j->n_compute == 1) {
        *out = from_one(y, b / at);
        return LK_OK;
    }
    LK_PASS(edge_slope(c, column, edge, &slope, &sd));
    *variance_io += sd * sd * (b - at) * (b - at);
    y += slope * (b - at);
    *out = b > at ? fmax(y, c->y[edge]) : fmin(fmax(y, c->y[edge] * b / at), c->y[edge]);
    return LK_OK;
}

/*
 * Return a column at a batch. Outside the measured batches it follows the batch if `grows`, else
 * it is constant.
 */
static enum lk_status column_at(struct curve *c, size_t column, int b, bool grows, double *out,
                                double *variance_io)
{
    const struct lk_job *j = c->job;
    size_t n = j->n_compute, edge;

    for (size_t i = 0; i < n; i++)
        c->y[i] = value_of(cell(j, i, column));
    if (grows)
        LK_PASS(lk_stats_isotonic(c->y, NULL, n));
    for (size_t i = 0; i < n; i++) {
        int left = j->compute[i].local_batch;

        if (left == b) {
            *out = value_of(cell(j, i, column));
            return LK_OK;
        }
        if (i + 1 < n && left < b && b < j->compute[i + 1].local_batch) {
            double t = (double)(b - left) / (j->compute[i + 1].local_batch - left);

            *out = c->y[i] + t * (c->y[i + 1] - c->y[i]);
            return LK_OK;
        }
    }
    edge = b < j->compute[0].local_batch ? 0 : n - 1;
    *out = c->y[edge];
    if (grows && c->y[edge] > 0)
        LK_PASS(beyond(c, column, edge, b, out, variance_io));
    return LK_OK;
}

/* Take transient and uncertainty from the nearest measured batch, since they change slowly. */
static void from_nearest(const struct lk_job *j, int b, struct lk_batch_point *out)
{
    size_t near = 0;
    double sum;

    for (size_t i = 1; i < j->n_compute; i++)
        if (fabs(log((double)j->compute[i].local_batch / b)) <
            fabs(log((double)j->compute[near].local_batch / b)))
            near = i;
    out->transient = j->compute[near].transient.value;
    sum = value_of(&j->compute[near].forward_s) + value_of(&j->compute[near].backward_s);
    if (sum > 0)
        out->sd =
            (relative_sd(&j->compute[near].forward_s) * value_of(&j->compute[near].forward_s) +
             relative_sd(&j->compute[near].backward_s) * value_of(&j->compute[near].backward_s)) /
            sum;
}

static void set_evidence(const struct lk_job *j, int b, struct lk_batch_point *out)
{
    int first = j->compute[0].local_batch, last = j->compute[j->n_compute - 1].local_batch;

    out->evidence = LK_EVIDENCE_INTERPOLATED;
    out->extrapolation = 1;
    for (size_t i = 0; i < j->n_compute; i++)
        if (j->compute[i].local_batch == b)
            out->evidence = LK_EVIDENCE_MEASURED;
    if (b < first || b > last) {
        out->evidence = LK_EVIDENCE_EXTRAPOLATED;
        out->extrapolation = b < first ? (double)first / b : (double)b / last;
    }
}

/* Set the extrapolation error: the slope's, and the shape's for every doubling. */
static void set_extrapolation_sd(const struct lk_job *j, double variance,
                                 struct lk_batch_point *out)
{
    double shape =
        lk_prior_value(j->n_compute == 1 ? LK_PRIOR_ONE_BATCH_ERROR : LK_PRIOR_BATCH_ERROR) *
        log2(out->extrapolation);
    double compute_s = out->forward_s + out->backward_s;

    out->extrapolation_sd = compute_s > 0 ? hypot(shape, sqrt(variance) / compute_s) : shape;
}

enum lk_status lk_batch_curve_at(const struct lk_job *j, int local_batch,
                                 struct lk_batch_point *out)
{
    enum lk_status st = LK_OK;
    struct curve c = {.job = j};
    struct lk_batch_point p = {0};
    double variance = 0, unused = 0;
#define COLUMN_(field) offsetof(struct lk_job_compute, field), &p.field
    const struct {
        size_t of;
        double *to;
        bool grows;
        double *variance;
    } columns[] = {
        {COLUMN_(forward_s), true, &variance}, {COLUMN_(backward_s), true, &variance},
        {COLUMN_(input_s), true, &unused},     {COLUMN_(optimizer_s), false, &unused},
        {COLUMN_(gap_s), false, &unused},
    };
#undef COLUMN_

    if (!j->n_compute)
        return lk_fail(
            LK_EEVIDENCE,
            "job %s: no compute time. The cheapest run that would supply it: this job on "
            "1 GPU at local batch %d",
            j->name, local_batch);
    set_evidence(j, local_batch, &p);
    LK_TRY(lk_alloc(&c.y, 4 * j->n_compute, sizeof *c.y));
    c.one = c.y + j->n_compute;
    c.a = c.one + j->n_compute;
    for (size_t i = 0; i < LK_COUNT(columns); i++)
        LK_TRY(column_at(&c, columns[i].of, local_batch, columns[i].grows, columns[i].to,
                         columns[i].variance));
    from_nearest(j, local_batch, &p);
    set_extrapolation_sd(j, variance, &p);
    *out = p;
out:
    free(c.y);
    return st;
}

enum lk_status lk_batch_compute(const struct lk_job *j, int b, double *out)
{
    struct lk_batch_point p;

    LK_PASS(lk_batch_curve_at(j, b, &p));
    *out = p.forward_s + p.backward_s;
    return LK_OK;
}

enum lk_status lk_batch_work(const struct lk_job *j, const struct lk_config *c, double *work)
{
    struct lk_rank_batches b;
    double whole, own;
    int rank = 0;

    for (int r = 0; r < c->world_size; r++)
        work[r] = 1;
    if (!*c->batches)
        return LK_OK;
    LK_PASS(lk_rank_batches_parse(c->batches, &b));
    if (b.ranks != c->world_size)
        return lk_fail(LK_EUSAGE, "local batches %s are of %d GPUs, not of %d", c->batches, b.ranks,
                       c->world_size);
    LK_PASS(lk_batch_compute(j, c->local_batch, &whole));
    for (int i = 0; i < b.n; i++) {
        LK_PASS(lk_batch_compute(j, b.of[i].batch, &own));
        for (int k = 0; k < b.of[i].ranks; k++)
            work[rank++] = whole > 0 ? own / whole : 1;
    }
    return LK_OK;
}
