/* Findings about communication: wire, overlap, launches, training against alone. */
#include "base/array.h"
#include "base/stats.h"
#include "facts/coll.h"
#include "profiler/analysis/analysis_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double poor_overlap = 0.5; /* of pending communication is exposed */

/* ---- Wire and overlap ---- */

/* Return the index of the rank that all others wait for, as far as findings say; -1: none. */
static int late_rank(const struct lk_analysis *a)
{
    for (size_t i = 0; i < a->n_findings; i++)
        switch (a->findings[i].id) {
        case LK_FINDING_SLOW_RANK:
        case LK_FINDING_RANK_INPUT:
        case LK_FINDING_LATE_RANK:
            return lk_knows_waits_(a) ? a->findings[i].rank : -1;
        default:
            break;
        }
    return -1;
}

double lk_exposed_wire_(const struct lk_analysis *a)
{
    int late = late_rank(a);

    return late < 0 ? a->losses_s[LK_LOSS_WIRE]
                    : fmin(a->ranks[late].losses_s[LK_LOSS_WIRE], a->losses_s[LK_LOSS_WIRE]);
}

double lk_moving_(const struct lk_analysis *a)
{
    int late = late_rank(a);
    double moving = 0;

    if (late >= 0)
        return a->ranks[late].split.moving_s;
    for (size_t k = 0; k < a->run->n; k++)
        moving += a->ranks[k].split.moving_s / (double)a->run->n;
    return moving;
}

/* Return true if all gradients are of two bytes or fewer already. */
static bool is_compact(const struct lk_run_info *info)
{
    for (size_t i = 0; i < info->n_tensors; i++)
        if (lk_dtype_bytes(info->tensors[i].dtype) > 2)
            return false;
    return info->n_tensors > 0;
}

/* Report the bus bandwidth of the largest bucket, if its wire time is known. Waits that are not
 * known are in it. */
enum lk_status lk_find_wire_(struct lk_analysis *a)
{
    const struct lk_analysis_bucket *big = NULL;
    bool waits = !lk_knows_waits_(a) || (int)a->run->n < lk_run_world_size(a->run);
    double cost = lk_exposed_wire_(a);
    char rate[32];

    for (size_t i = 0; i < a->n_buckets; i++)
        if (a->buckets[i].bucket >= 0 && a->buckets[i].wire_s > 0 && a->buckets[i].bytes &&
            (!big || a->buckets[i].bytes > big->bytes))
            big = &a->buckets[i];
    if (!big || lk_run_world_size(a->run) < 2 || cost < LK_FINDING_EXPOSED_SHARE * a->step_s)
        return LK_OK;
    (void)lk_units_format(
        LK_DIM_RATE, (double)big->bytes / big->wire_s * lk_coll_busbw_factor(big->coll, big->ranks),
        rate, sizeof rate);
    LK_PASS(lk_finding_add_(
        a, LK_FINDING_WIRE, -1, cost,
        "wire bound%s: collectives block compute %s a step; bucket %d moves at %s bus bandwidth%s",
        waits ? ", or waiting for other ranks" : "", lk_time_text_(cost).buf, big->bucket, rate,
        waits ? ", waits included" : ""));
    if (is_compact(lk_run_about(a->run)))
        lk_finding_next_(a, "reduce less often (accumulation) or use faster links; compare the "
                            "bandwidth with that of lockstep calibrate");
    return LK_OK;
}

/* Return the covered share of the collectives, as the table of the overlap has it: of the late
 * rank, if there is one, which waits for nobody, else of all. */
static double covered(const struct lk_analysis *a)
{
    int late = late_rank(a);
    double comm = 0, exposed = 0;

    for (size_t k = 0; k < a->run->n; k++)
        if (late < 0 || (int)k == late) {
            comm += a->ranks[k].split.comm_s;
            exposed += a->ranks[k].split.exposed_s;
        }
    return comm > 0 ? 1 - exposed / comm : 0;
}

/* Report poor overlap, relative to the time in which bytes moved: waiting for a late rank is not a
 * matter of overlap. */
enum lk_status lk_find_poor_overlap_(struct lk_analysis *a)
{
    double moving = lk_moving_(a), exposed = lk_exposed_wire_(a);

    if (lk_run_world_size(a->run) < 2 || exposed < LK_FINDING_EXPOSED_SHARE * a->step_s ||
        exposed < poor_overlap * moving)
        return LK_OK;
    return lk_finding_add_(a, LK_FINDING_POOR_OVERLAP, -1, exposed,
                           "poor overlap: compute covers only %.0f %% of the collectives",
                           100 * covered(a));
}

/* ---- Launches ---- */

/* Report collectives whose NCCL kernels start late, and who is late: the host or the GPU. */
enum lk_status lk_find_late_launches_(struct lk_analysis *a)
{
    double cost = a->losses_s[LK_LOSS_LAUNCH];
    struct lk_analysis_launch sum = {0};
    double called;

    for (size_t k = 0; k < a->run->n; k++) {
        sum.n += a->ranks[k].launch.n;
        sum.delay_s += a->ranks[k].launch.delay_s;
        sum.called_s += a->ranks[k].launch.called_s;
    }
    if (cost < LK_FINDING_LOSS_SHARE * a->step_s || !sum.n)
        return LK_OK;
    called = sum.called_s / sum.delay_s;
    LK_PASS(lk_finding_add_(
        a, LK_FINDING_LATE_LAUNCHES, -1, cost,
        "late launches: NCCL's kernels start %s after they could on average, %s a step exposed; "
        "%.0f %% of it passes until the host calls NCCL, the rest until the GPU has room for the "
        "kernel",
        lk_time_text_(sum.delay_s / (double)sum.n).buf, lk_time_text_(cost).buf, 100 * called));
    lk_finding_next_(a, called > 0.5 ? "the host is behind: fewer or larger buckets, a CUDA graph"
                                     : "leave NCCL room: give its stream a higher priority "
                                       "(is_high_priority_stream), or collectives fewer SMs "
                                       "(NCCL_MAX_CTAS)");
    return LK_OK;
}

/* ---- Training against alone ---- */

/* The buckets' times in training and alone. */
struct training {
    const struct lk_analysis_bucket *small, *large; /* of known times; NULL: none */
    size_t n;
    double sum_s, alone_s;
};

/* Return a bucket's time in training, from when it was due: launch and wire. */
static double in_training(const struct lk_analysis_bucket *b)
{
    return b->wire_s + (isnan(b->launch_s) ? 0 : b->launch_s);
}

static double times_alone(const struct lk_analysis_bucket *b)
{
    return in_training(b) / b->alone_s;
}

static bool is_known(const struct lk_analysis_bucket *b)
{
    return b->bucket >= 0 && b->bytes && b->wire_s > 0 && b->alone_s > 0;
}

static struct training training_of(const struct lk_analysis *a)
{
    struct training t = {0};

    for (size_t i = 0; i < a->n_buckets; i++) {
        const struct lk_analysis_bucket *b = &a->buckets[i];

        if (!is_known(b))
            continue;
        t.n++;
        t.sum_s += in_training(b);
        t.alone_s += b->alone_s;
        t.small = !t.small || b->bytes < t.small->bytes ? b : t.small;
        t.large = !t.large || b->bytes > t.large->bytes ? b : t.large;
    }
    return t;
}

/* Fit what a bucket takes in training: fit[0], whatever its size, and fit[1] times what it takes
 * alone. The errors are relative. */
static enum lk_status fit_training(const struct lk_analysis *a, double fit[2])
{
    double *rows = NULL, *ones = NULL;
    enum lk_status st = LK_OK;
    size_t n = 0;

    LK_TRY(lk_alloc(&rows, 2 * a->n_buckets, sizeof *rows));
    LK_TRY(lk_alloc(&ones, a->n_buckets, sizeof *ones));
    for (size_t i = 0; i < a->n_buckets; i++) {
        const struct lk_analysis_bucket *b = &a->buckets[i];

        if (!is_known(b))
            continue;
        rows[2 * n] = 1 / in_training(b);
        rows[2 * n + 1] = b->alone_s / in_training(b);
        ones[n++] = 1;
    }
    LK_TRY(lk_stats_nnls(rows, ones, n, 2, fit));
out:
    free(rows);
    free(ones);
    return st;
}

/* Report how many times as long collectives take in training as alone, the small ones and the large
 * ones, and the numbers of the cluster file that say so. It is a measurement: what mending brings
 * is not known. */
enum lk_status lk_find_training_(struct lk_analysis *a)
{
    bool waits = !lk_knows_waits_(a) || (int)a->run->n < lk_run_world_size(a->run);
    struct training t = training_of(a);
    char small[32], large[32], each[96] = "", fitted[96] = "";
    double fit[2];

    if (!a->alone_on || !t.n)
        return LK_OK;
    (void)lk_units_format(LK_DIM_BYTES, (double)t.small->bytes, small, sizeof small);
    (void)lk_units_format(LK_DIM_BYTES, (double)t.large->bytes, large, sizeof large);
    if (t.large->bytes > t.small->bytes)
        (void)snprintf(each, sizeof each, ": %.1f times at %s, %.1f times at %s",
                       times_alone(t.small), small, times_alone(t.large), large);
    else
        (void)snprintf(each, sizeof each, ", at %s", small);
    if (t.large->bytes >= 2 * t.small->bytes) {
        LK_PASS(fit_training(a, fit));
        (void)snprintf(fitted, sizeof fitted, "; each starts %s late, and takes %+.0f %% beside",
                       lk_time_text_(fit[0]).buf, 100 * (fit[1] - 1));
    }
    LK_PASS(lk_finding_add_(
        a, LK_FINDING_TRAINING, -1, NAN,
        "collectives in this job take %.1f times as long as outside of training on %s%s%s%s",
        t.sum_s / t.alone_s, a->alone_on, waits ? ", waits for other ranks included" : "", each,
        fitted));
    lk_finding_next_(a, waits ? "give all ranks' traces: then the waits are apart"
                              : "forecasts take it from \"start\" and \"delta\" of \"overlap\" in "
                                "the cluster file");
    return LK_OK;
}

enum lk_status lk_analysis_set_alone(struct lk_analysis *a, const char *cluster,
                                     const double *alone_s)
{
    a->alone_on = cluster;
    for (size_t i = 0; i < a->n_buckets; i++)
        a->buckets[i].alone_s = alone_s[i];
    return lk_find_training_(a);
}
