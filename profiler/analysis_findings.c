/* Findings: conclusions from the analysis, in words. */
#include "profiler/analysis_impl.h"

#include "base/array.h"
#include "base/coll.h"
#include "base/stats.h"
#include "base/units.h"
#include "profiler/cupti.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Thresholds from which on a finding is reported, as shares of the step unless noted. */
static const double rest_share = 0.03;       /* DESIGN section 6 */
static const double loss_share = 0.03;       /* a row of the waterfall */
static const double exposed_share = 0.05;    /* exposed communication */
static const double poor_overlap = 0.5;      /* of pending communication is exposed */
static const double late_first_bucket = 0.5; /* of the backward */
static const double unresolved_share = 0.5;  /* of the collectives */
static const double throttled_share = 0.05;  /* of the samples of a GPU's state */
static const double idle_share = 0.1;        /* of forward and backward */
static const double recording_share = 0.01;  /* what recording may cost (docs/gpu.md) */
/* A clock this share below the others' explains a slow rank. NVIDIA's clocks move in steps of 15
 * MHz; two steps are 2 %. */
static const double slow_clock = 0.03;
/* With fewer samples a mean is meaningless. */
enum { FEW_SAMPLES = 3 };

enum lk_status lk_analysis_say_(struct lk_analysis *a, double cost_s, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    LK_PASS(
        lk_array_grow(&a->findings, &a->findings_capacity, a->n_findings + 1, sizeof *a->findings));
    a->findings[a->n_findings] = (struct lk_finding){.cost_s = cost_s};
    LK_PASS(lk_strdup(&a->findings[a->n_findings].text, text));
    a->n_findings++;
    return LK_OK;
}

struct text {
    char buf[32];
};

static struct text time_text(double s)
{
    struct text t;

    (void)lk_units_format(LK_DIM_TIME, s, t.buf, sizeof t.buf);
    return t;
}

static double percent(const struct lk_analysis *a, double s)
{
    return a->step_s > 0 ? 100 * s / a->step_s : 0;
}

static double clock_of(const struct lk_analysis *a, size_t k)
{
    const struct lk_gpu_summary *g = &a->ranks[k].gpu;

    return g->n >= FEW_SAMPLES ? g->quantity[LK_GPU_SM_CLOCK_MHZ].mean : NAN;
}

/* Return the median clock of the ranks but k; NaN when there are none, or without memory: then one
 * finding less is reported. */
static double clock_of_others(const struct lk_analysis *a, size_t k)
{
    double *clocks = NULL;
    double median = NAN;
    size_t n = 0;

    if (lk_alloc(&clocks, a->run->n, sizeof *clocks) != LK_OK)
        return NAN;
    for (size_t i = 0; i < a->run->n; i++)
        if (i != k && !isnan(clock_of(a, i)))
            clocks[n++] = clock_of(a, i);
    if (n > 0)
        median = lk_stats_median(clocks, n);
    free(clocks);
    return median;
}

/*
 * Return true if rank k's GPU is so much slower than the others' that it explains a slow rank; out
 * (LK_GPU_TEXT bytes): "its GPU runs at 1410 MHz, 20 % below the others' 1755 MHz, throttled 45 %
 * of the time (power 45 %)".
 */
static bool gpu_is_slow(const struct lk_analysis *a, size_t k, char *out)
{
    double own = clock_of(a, k), others = clock_of_others(a, k);
    char why[LK_GPU_TEXT];
    int used;

    if (isnan(own) || isnan(others) || own > (1 - slow_clock) * others)
        return false;
    used =
        snprintf(out, LK_GPU_TEXT, "its GPU runs at %.0f MHz, %.0f %% below the others' %.0f MHz",
                 own, 100 * (1 - own / others), others);
    lk_gpu_throttle_text(&a->ranks[k].gpu, why);
    if (why[0])
        (void)snprintf(out + used, (size_t)(LK_GPU_TEXT - used),
                       ", throttled %.0f %% of the time (%s)", 100 * a->ranks[k].gpu.throttled,
                       why);
    return true;
}

/* Report a rank that is last at more than its share of the resolved collectives. */
static enum lk_status late_rank(struct lk_analysis *a)
{
    double cost = a->losses_s[LK_LOSS_STRAGGLER];
    size_t resolved = 0, worst = 0;
    const struct lk_analysis_rank *r;
    const char *why = "";
    char gpu[LK_GPU_TEXT + 2] = "; ";

    for (size_t k = 0; k < a->run->n; k++) {
        resolved += a->ranks[k].n_late;
        if (a->ranks[k].n_late > a->ranks[worst].n_late)
            worst = k;
    }
    if (!resolved || cost < loss_share * a->step_s)
        return LK_OK;
    r = &a->ranks[worst];
    /* Twice its share, or with two ranks three quarters. */
    if ((double)r->n_late < fmin(2.0 / (double)a->run->n, 0.75) * (double)resolved)
        return lk_analysis_say_(
            a, cost,
            "stragglers: ranks wait %s a step for the last to arrive, and it is not always "
            "the same rank",
            time_text(cost).buf);
    if (gpu_is_slow(a, worst, gpu + 2))
        why = gpu;
    else if (r->launch.n && r->launch.delay_s / (double)r->launch.n > r->late_by_s / 2)
        why = "; its NCCL kernels start late";
    else if (r->losses_s[LK_LOSS_SLOW_RANK] > cost / 2)
        why = "; its own compute is slower than the others'";
    else if (r->split.s[LK_PART_INPUT] > a->step_s * loss_share)
        why = "; it waits for its input";
    return lk_analysis_say_(
        a, cost, "late rank: rank %d is the last at %.0f %% of the collectives, by %s on average%s",
        lk_run_rank(a->run, worst), 100 * (double)r->n_late / (double)resolved,
        time_text(r->late_by_s).buf, why);
}

static enum lk_status slow_ranks(struct lk_analysis *a)
{
    for (size_t k = 0; k < a->run->n; k++) {
        double cost = a->ranks[k].losses_s[LK_LOSS_SLOW_RANK];
        char gpu[LK_GPU_TEXT + 2] = "; ";

        if (cost >= loss_share * a->step_s)
            LK_PASS(lk_analysis_say_(
                a, cost, "slow rank: rank %d computes %s a step longer than the common pace%s",
                lk_run_rank(a->run, k), time_text(cost).buf,
                gpu_is_slow(a, k, gpu + 2) ? gpu : ""));
    }
    return LK_OK;
}

static enum lk_status slow_gpus(struct lk_analysis *a)
{
    char gpu[LK_GPU_TEXT];

    for (size_t k = 0; k < a->run->n; k++)
        if (gpu_is_slow(a, k, gpu))
            LK_PASS(
                lk_analysis_say_(a, NAN, "GPU clock: rank %d: %s", lk_run_rank(a->run, k), gpu));
    return LK_OK;
}

/* Report GPUs that are throttled, with the most throttled one as an example. */
static enum lk_status throttled_gpus(struct lk_analysis *a)
{
    size_t n = 0, sampled = 0, worst = 0;
    char text[LK_GPU_TEXT];

    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_gpu_summary *g = &a->ranks[k].gpu;

        sampled += g->n > 0;
        n += g->n > 0 && g->throttled >= throttled_share;
        if (g->n > 0 && g->throttled > 0 &&
            !(a->ranks[worst].gpu.throttled >= g->throttled && a->ranks[worst].gpu.n > 0))
            worst = k;
    }
    if (!n)
        return LK_OK;
    lk_gpu_summary_text(&a->ranks[worst].gpu, text);
    return lk_analysis_say_(
        a, NAN, "throttled: %zu of %zu GPUs do not hold their clock; most that of rank %d: %s", n,
        sampled, lk_run_rank(a->run, worst), text);
}

/* Report the bus bandwidth of the largest bucket, if its wire time is known. */
static enum lk_status wire(struct lk_analysis *a)
{
    const struct lk_analysis_bucket *big = NULL;
    double cost = a->losses_s[LK_LOSS_WIRE];
    char rate[32];

    for (size_t i = 0; i < a->n_buckets; i++)
        if (a->buckets[i].bucket >= 0 && a->buckets[i].wire_s > 0 && a->buckets[i].bytes &&
            (!big || a->buckets[i].bytes > big->bytes))
            big = &a->buckets[i];
    if (!big || lk_run_world_size(a->run) < 2 || cost < exposed_share * a->step_s)
        return LK_OK;
    (void)lk_units_format(LK_DIM_RATE,
                          (double)big->bytes / big->wire_s *
                              lk_coll_busbw_factor(LK_ALL_REDUCE, lk_run_world_size(a->run)),
                          rate, sizeof rate);
    return lk_analysis_say_(
        a, cost,
        "wire bound: collectives are exposed %s a step; bucket %d moves at %s bus bandwidth",
        time_text(cost).buf, big->bucket, rate);
}

/* Report poor overlap, relative to the time in which bytes moved: waiting for a late rank is not a
 * matter of overlap. */
static enum lk_status overlap(struct lk_analysis *a)
{
    double moving = 0, exposed = a->losses_s[LK_LOSS_WIRE];

    for (size_t k = 0; k < a->run->n; k++)
        moving += a->ranks[k].moving_s / (double)a->run->n;
    if (lk_run_world_size(a->run) < 2 || exposed < exposed_share * a->step_s ||
        exposed < poor_overlap * moving)
        return LK_OK;
    return lk_analysis_say_(a, exposed,
                            "poor overlap: compute covers only %.0f %% of the collectives",
                            100 * (1 - exposed / moving));
}

/* Report buckets that are too large: they start too late, and the last one is always exposed. */
static enum lk_status first_bucket(struct lk_analysis *a)
{
    double exposed = a->losses_s[LK_LOSS_WIRE];

    if (isnan(a->first_ready) || lk_run_world_size(a->run) < 2 ||
        a->first_ready < late_first_bucket || exposed < exposed_share * a->step_s)
        return LK_OK;
    return lk_analysis_say_(
        a, exposed,
        "first bucket: it is ready only after %.0f %% of the backward; smaller buckets let "
        "collectives start earlier",
        100 * a->first_ready);
}

/* Report collectives whose NCCL kernels start late, and who is late: the host or the GPU. */
static enum lk_status launches(struct lk_analysis *a)
{
    double cost = a->losses_s[LK_LOSS_LAUNCH];
    struct lk_analysis_launch sum = {0};
    double called;

    for (size_t k = 0; k < a->run->n; k++) {
        sum.n += a->ranks[k].launch.n;
        sum.delay_s += a->ranks[k].launch.delay_s;
        sum.called_s += a->ranks[k].launch.called_s;
    }
    if (cost < loss_share * a->step_s || !sum.n)
        return LK_OK;
    called = sum.called_s / sum.delay_s;
    return lk_analysis_say_(
        a, cost,
        "late launches: NCCL's kernels start %s after they could on average, %s a step "
        "exposed; %.0f %% of it passes until the host calls NCCL%s",
        time_text(sum.delay_s / (double)sum.n).buf, time_text(cost).buf, 100 * called,
        called > 0.5 ? " (it is behind: fewer or larger buckets, a CUDA graph)"
                     : ", the rest until the GPU has room for the kernel");
}

struct idle {
    uint64_t idle_ns, length_ns;
};

/* Sum idle time and length of forward and backward of the run's steps on one rank. */
static struct idle sum_idle(const struct lk_run *run, const struct lk_rank_steps *r)
{
    struct idle sum = {0};

    for (size_t i = 0; i < run->n_steps; i++) {
        const struct lk_step *p = lk_rank_step(r, run->steps[i]);

        for (size_t k = p->first_range; k < p->first_range + p->n_ranges; k++)
            if (r->ranges[k].kind == LK_SPAN_FORWARD || r->ranges[k].kind == LK_SPAN_BACKWARD) {
                sum.idle_ns += r->ranges[k].idle_ns;
                sum.length_ns += r->ranges[k].end_ns - r->ranges[k].start_ns;
            }
    }
    return sum;
}

/* Return the median step over ranks and the timed steps that have records, or have none; NaN: too
 * few. Without memory NaN, too: one remark less. */
static double median_step(const struct lk_run *run, bool recorded)
{
    size_t n = recorded ? run->n_steps : run->n_timed - run->n_steps, used = 0;
    double *s = NULL, median = NAN;

    if (n < FEW_SAMPLES || lk_alloc(&s, n * run->n, sizeof *s) != LK_OK)
        return NAN;
    for (size_t i = 0, next = 0; i < run->n_timed; i++) {
        bool split = next < run->n_steps && run->steps[next] == run->timed[i];

        next += split;
        for (size_t k = 0; split == recorded && k < run->n; k++)
            s[used++] = lk_step_window_s(lk_rank_step(&run->ranks[k], run->timed[i]));
    }
    median = lk_stats_median(s, used);
    free(s);
    return median;
}

/* Return what recording adds to a step: steps with records against those of the same run without;
 * NaN: not known. */
static double recording_cost(const struct lk_run *run)
{
    return run->n_steps < run->n_timed ? median_step(run, true) - median_step(run, false) : NAN;
}

/*
 * Report kernels so small that they end before the host has launched the next. Some of the gaps are
 * the recorder's: what it adds to a step is taken off, where the run has steps without it.
 */
static enum lk_status idle_stream(struct lk_analysis *a)
{
    double recording = fmax(0, recording_cost(a->run)), cost, share; /* fmax drops a NaN */
    struct idle all = {0};
    char own[64] = "";

    for (size_t k = 0; k < a->run->n; k++) {
        struct idle x = sum_idle(a->run, &a->run->ranks[k]);

        all.idle_ns += x.idle_ns;
        all.length_ns += x.length_ns;
    }
    cost = lk_ns_to_s_(all.idle_ns) / (double)(a->run->n * a->run->n_steps) - recording;
    share = cost / (lk_ns_to_s_(all.length_ns) / (double)(a->run->n * a->run->n_steps) - recording);
    if (cost < loss_share * a->step_s || share < idle_share)
        return LK_OK;
    if (recording > 0)
        snprintf(own, sizeof own, " (%s more while recorded)", time_text(recording).buf);
    return lk_analysis_say_(
        a, cost,
        "launch bound: no kernel runs in %.0f %% of forward and backward, %s a step%s; kernels "
        "end before the host has launched the next (larger batches have larger kernels)",
        100 * share, time_text(cost).buf, own);
}

/* Rows of the waterfall that are reported as they are. */
static const struct {
    enum lk_loss row;
    const char *text;
} loss_texts[] = {
    {LK_LOSS_INPUT, "input bound: ranks wait for their batch"},
    {LK_LOSS_COLOCATION, "co-location: compute is slower with several ranks on the node"},
    {LK_LOSS_OVERLAP, "overlap slowdown: backward is slower while a collective is in flight"},
    {LK_LOSS_OPTIMIZER, "optimizer: it takes longer than in the reference"},
};

static enum lk_status losses(struct lk_analysis *a)
{
    for (size_t i = 0; i < LK_COUNT(loss_texts); i++) {
        double cost = a->losses_s[loss_texts[i].row];

        if (cost >= loss_share * a->step_s)
            LK_PASS(lk_analysis_say_(a, cost, "%s, %s a step (%.1f %%)", loss_texts[i].text,
                                     time_text(cost).buf, percent(a, cost)));
    }
    return LK_OK;
}

static enum lk_status rest(struct lk_analysis *a)
{
    double cost = a->losses_s[LK_LOSS_REST];

    if (fabs(cost) <= rest_share * a->step_s)
        return LK_OK;
    return lk_analysis_say_(
        a, cost, "unexplained: the rest is %.1f %% of the step (host gaps that the %s",
        percent(a, cost), a->modelled ? "modelled ideal has not)" : "reference has not)");
}

static enum lk_status clocks(struct lk_analysis *a)
{
    size_t n = 0;
    uint64_t worst = 0;

    if (a->run->n < 2 || !a->n_collectives)
        return LK_OK;
    if (!a->aligned)
        return lk_analysis_say_(
            a, NAN,
            "clocks: some rank's clock was never compared, so wait and wire come from "
            "durations alone");
    for (size_t i = 0; i < a->n_collectives; i++)
        n += !a->collectives[i].resolved;
    for (size_t k = 0; k < a->run->n; k++)
        if (a->run->ranks[k].uncertainty_ns > worst)
            worst = a->run->ranks[k].uncertainty_ns;
    if (!worst || (double)n < unresolved_share * (double)a->n_collectives)
        return LK_OK;
    return lk_analysis_say_(
        a, NAN,
        "clocks: at %.0f %% of the collectives the last to arrive is unresolved (clocks "
        "agree within %s)",
        100 * (double)n / (double)a->n_collectives, time_text(lk_ns_to_s_(worst)).buf);
}

/* What cannot be known without the other ranks. */
static enum lk_status missing_ranks(struct lk_analysis *a)
{
    if ((int)a->run->n == lk_run_world_size(a->run))
        return LK_OK;
    return lk_analysis_say_(a, NAN,
                            "ranks: %zu of %d are here; what the others made them wait is %s",
                            a->run->n, lk_run_world_size(a->run),
                            a->run->n == 1 ? "unknown, and in the wire" : "known of these alone");
}

static enum lk_status recording(struct lk_analysis *a)
{
    uint64_t dropped = 0;

    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_trace *t = &a->run->traces[k];

        dropped += t->dropped;
        if (t->truncated)
            LK_PASS(lk_analysis_say_(a, NAN, "truncated: rank %d did not end by itself%s%s",
                                     lk_run_rank(a->run, k), t->failure ? ": " : "",
                                     t->failure ? t->failure : ""));
    }
    if (dropped)
        LK_PASS(lk_analysis_say_(a, NAN, "recording: %" PRIu64 " spans were lost to full rings",
                                 dropped));
    return LK_OK;
}

/* Report what CUPTI's records cost, if the run's own steps show it. */
static enum lk_status cost_of_records(struct lk_analysis *a)
{
    double cost = recording_cost(a->run);

    if (!(cost >= recording_share * a->step_s))
        return LK_OK;
    return lk_analysis_say_(
        a, NAN,
        "recording: the %zu steps with records of kernels take %s (%.1f %%) longer than the "
        "%zu without",
        a->run->n_steps, time_text(cost).buf, percent(a, cost), a->run->n_timed - a->run->n_steps);
}

/* Return the last value of a counter in a trace, or 0. */
static double counter(const struct lk_trace *t, const char *name)
{
    double value = 0;

    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].span.kind == LK_SPAN_COUNTER &&
            !strcmp(lk_trace_span_name(t, &t->spans[i].span), name))
            value = t->spans[i].span.value;
    return value;
}

/* Report which GPU records are missing from the traces, and why. */
static enum lk_status gpu_records(struct lk_analysis *a)
{
    static const struct {
        const char *counter, *what;
    } rows[] = {
#define ROW(field, counter, missing, text) {counter, text},
        LK_CUPTI_COUNT_LIST(ROW)
#undef ROW
    };
    struct lk_run_facts facts;

    LK_PASS(lk_run_facts_read(lk_run_about(a->run), &facts));
    if (facts.no_gpu_records)
        LK_PASS(lk_analysis_say_(a, NAN,
                                 "GPU records: none, so kernels and copies are not shown: %s",
                                 facts.no_gpu_records));
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        double n = 0;

        for (size_t k = 0; *rows[i].what && k < a->run->n; k++)
            n += counter(&a->run->traces[k], rows[i].counter);
        if (n > 0)
            LK_PASS(lk_analysis_say_(a, NAN, "GPU records: %.0f %s", n, rows[i].what));
    }
    return LK_OK;
}

/* Order findings by cost; those without a cost last. */
static int finding_order(const void *a, const void *b)
{
    const struct lk_finding *x = a, *y = b;
    double cx = isnan(x->cost_s) ? -1 : fabs(x->cost_s);
    double cy = isnan(y->cost_s) ? -1 : fabs(y->cost_s);

    return (cx < cy) - (cx > cy);
}

enum lk_status lk_analysis_findings_(struct lk_analysis *a)
{
    LK_PASS(late_rank(a));
    LK_PASS(slow_ranks(a));
    LK_PASS(slow_gpus(a));
    LK_PASS(throttled_gpus(a));
    LK_PASS(wire(a));
    LK_PASS(overlap(a));
    LK_PASS(first_bucket(a));
    LK_PASS(launches(a));
    LK_PASS(idle_stream(a));
    LK_PASS(lk_analysis_host_(a));
    LK_PASS(losses(a));
    LK_PASS(rest(a));
    LK_PASS(clocks(a));
    LK_PASS(missing_ranks(a));
    LK_PASS(recording(a));
    LK_PASS(gpu_records(a));
    LK_PASS(cost_of_records(a));
    if (a->n_findings)
        qsort(a->findings, a->n_findings, sizeof *a->findings, finding_order);
    return LK_OK;
}
