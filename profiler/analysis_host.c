/* Findings about what the job itself does: synchronisations in a step, all-reduces that
 * accumulation does not need. */
#include "base/units.h"
#include "profiler/analysis_impl.h"

#include <string.h>

/* A row of the waterfall, or a cost, is reported from this share of the step on. */
static const double cost_share = 0.01;

/* ---- Hidden synchronisation ---- */

/* Calls that wait for the GPU while the step has more work to launch: sums over steps and ranks. */
struct syncs {
    size_t n;
    uint64_t idle_ns; /* from their ends to the next kernels, which the host launched after them */
    const char *name; /* of the last one */
};

static bool is_split(const struct lk_run *run, uint32_t step)
{
    size_t lo = 0, hi = run->n_steps;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (run->steps[mid] < step)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < run->n_steps && run->steps[lo] == step;
}

static bool is_kernel(const struct lk_trace *t, const struct lk_trace_span *s)
{
    return s->span.kind == LK_SPAN_KERNEL && t->tracks[s->track].kind == LK_TRACK_COMPUTE;
}

/* Add the synchronisations of a rank. Spans are by start; so the next kernel of one is never before
 * that of the one before. */
static void add_syncs(const struct lk_run *run, const struct lk_trace *t, struct syncs *sum)
{
    size_t next = 0;

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span, *k;

        if (s->kind != LK_SPAN_SYNC || !is_split(run, s->step))
            continue;
        while (next < t->n_spans &&
               !(is_kernel(t, &t->spans[next]) && t->spans[next].span.start_ns >= s->end_ns))
            next++;
        if (next == t->n_spans)
            break;
        k = &t->spans[next].span;
        if (k->step != s->step || k->ready_ns < s->end_ns)
            continue; /* nothing of this step had to wait for the host */
        sum->n++;
        sum->idle_ns += k->start_ns - s->end_ns;
        sum->name = lk_trace_span_name(t, s);
    }
}

static enum lk_status synchronisation(struct lk_analysis *a)
{
    double steps = (double)(a->run->n_steps * a->run->n), cost;
    struct syncs sum = {0};
    char text[32];

    for (size_t k = 0; k < a->run->n; k++)
        add_syncs(a->run, &a->run->traces[k], &sum);
    cost = lk_ns_to_s_(sum.idle_ns) / steps;
    if (!sum.n || cost < cost_share * a->step_s)
        return LK_OK;
    return lk_analysis_say_(
        a, cost,
        "hidden synchronisation: %.1f times a step the host waits for the GPU in mid-step (%s), "
        "and "
        "the GPU then for the host, %s a step; .item(), .cpu() and printed tensors do that",
        (double)sum.n / steps, sum.name, lk_units_format(LK_DIM_TIME, cost, text, sizeof text));
}

/* ---- Accumulation ---- */

/* Return true if gradients are reduced in every micro-batch: each bucket as often as there are
 * some. */
static bool reduces_every_time(const struct lk_analysis *a, int accumulation)
{
    size_t buckets = 0;

    for (size_t i = 0; i < a->n_buckets; i++) {
        if (a->buckets[i].bucket < 0)
            continue;
        buckets++;
        if (a->buckets[i].n < (size_t)accumulation * a->run->n_steps)
            return false;
    }
    return buckets > 0;
}

static enum lk_status accumulation(struct lk_analysis *a)
{
    int n = lk_run_about(a->run)->accumulation;
    double exposed = a->losses_s[LK_LOSS_WIRE] + a->losses_s[LK_LOSS_STRAGGLER];
    double cost = exposed * (n - 1) / n;
    char text[32];

    if (n < 2 || lk_run_world_size(a->run) < 2 || cost < cost_share * a->step_s ||
        !reduces_every_time(a, n))
        return LK_OK;
    return lk_analysis_say_(
        a, cost,
        "accumulation without no_sync: gradients are reduced in each of %d micro-batches; in the "
        "last alone it would be about %s a step less",
        n, lk_units_format(LK_DIM_TIME, cost, text, sizeof text));
}

enum lk_status lk_analysis_host_(struct lk_analysis *a)
{
    LK_PASS(synchronisation(a));
    return accumulation(a);
}
