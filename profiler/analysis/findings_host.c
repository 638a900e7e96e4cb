/* Findings about what the job and its host do. Divisions: other work, hidden synchronisation,
 * launches. */
#include "profiler/analysis/analysis_impl.h"
#include "profiler/analysis/host_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double idle_share = 0.1; /* of forward and backward */

/* ---- Other work ---- */

/* Return the most that a step can lose: what all its ranks' threads waited in it for processors,
 * and what other guests took of them. */
static double most_s(const struct lk_host_use *u, double step_s)
{
    return step_s * ((isnan(u->waited_s) ? 0 : u->waited_s / u->window_s) + u->stolen);
}

/* Return true if all hosts are one machine's containers. */
static bool are_one(const struct lk_run_host *hosts, size_t n)
{
    for (size_t h = 1; h < n; h++)
        if (strcmp(hosts[h].machine, hosts[0].machine) != 0)
            return false;
    return true;
}

/* Report hosts whose processors others took while the ranks wanted them; those of one machine once.
 * What that costs a step is not known: it is in what the ranks then do late, and longer delays have
 * another cause. */
enum lk_status lk_find_host_busy_(struct lk_analysis *a)
{
    struct lk_run_host *hosts = NULL;
    enum lk_status st = LK_OK;
    size_t n = 0;
    bool one;

    LK_TRY(lk_run_hosts(a->run, &hosts, &n));
    one = are_one(hosts, n);
    for (size_t h = 0; h < (one ? 1 : n); h++) {
        char text[256];

        if (!hosts[h].use.n_ranks || !lk_host_is_busy(&hosts[h].use))
            continue;
        lk_host_use_text(&hosts[h].use, text, sizeof text);
        LK_TRY(lk_finding_add_(a, LK_FINDING_HOST_BUSY, -1, NAN, "host busy: %s%s%s",
                               one ? "" : hosts[h].name,
                               !one    ? ": "
                               : n > 1 ? "all hosts are one machine: "
                                       : "",
                               text));
        a->findings[a->n_findings - 1].host = one ? NULL : hosts[h].name;
        a->findings[a->n_findings - 1].most_s = most_s(&hosts[h].use, a->step_s);
    }
out:
    free(hosts);
    return st;
}

/* ---- Hidden synchronisation ---- */

static bool is_kernel(const struct lk_trace *t, const struct lk_trace_span *s)
{
    return s->span.kind == LK_SPAN_KERNEL && t->tracks[s->track].kind == LK_TRACK_COMPUTE;
}

bool lk_next_wait_(const struct lk_run *run, const struct lk_trace *t, struct lk_wait_walk *w,
                   struct lk_wait *out)
{
    /* Spans are by start; so the next kernel of a wait is never before that of the one before. */
    for (; w->span < t->n_spans; w->span++) {
        const struct lk_span *s = &t->spans[w->span].span, *k;

        if (s->kind != LK_SPAN_SYNC || lk_step_index_(run, s->step) == run->n_steps)
            continue;
        while (w->kernel < t->n_spans && !(is_kernel(t, &t->spans[w->kernel]) &&
                                           t->spans[w->kernel].span.start_ns >= s->end_ns))
            w->kernel++;
        if (w->kernel == t->n_spans)
            break;
        k = &t->spans[w->kernel].span;
        if (k->step != s->step || k->ready_ns < s->end_ns)
            continue; /* nothing of this step had to wait for the host */
        *out = (struct lk_wait){.sync = s, .idle_ns = k->start_ns - s->end_ns};
        w->span++;
        return true;
    }
    return false;
}

enum lk_status lk_find_synchronisation_(struct lk_analysis *a)
{
    double steps = (double)(a->run->n_steps * a->run->n), cost;
    const char *name = NULL; /* of the last one */
    uint64_t idle_ns = 0;
    struct lk_wait wait;
    size_t n = 0;

    for (size_t k = 0; k < a->run->n; k++)
        for (struct lk_wait_walk w = {0}; lk_next_wait_(a->run, &a->run->traces[k], &w, &wait);
             n++) {
            idle_ns += wait.idle_ns;
            name = lk_trace_span_name(&a->run->traces[k], wait.sync);
        }
    cost = lk_ns_to_s_(idle_ns) / steps;
    if (!n || cost < LK_FINDING_HOST_SHARE * a->step_s)
        return LK_OK;
    return lk_finding_add_(
        a, LK_FINDING_SYNCHRONISATION, -1, cost,
        "hidden synchronisation: %.1f times a step the host waits for the GPU in mid-step (%s), "
        "and the GPU then for the host, %s a step",
        (double)n / steps, name, lk_time_text_(cost).buf);
}

/* ---- Launches ---- */

/*
 * Report kernels so small that they end before the host has launched the next. Some of the gaps are
 * the recorder's: what it adds to a step is taken off, where the run has steps without it.
 */
enum lk_status lk_find_launch_bound_(struct lk_analysis *a)
{
    double recording = fmax(0, lk_recording_cost_s_(a->run)); /* fmax drops a NaN */
    double cost = -recording, length = -recording, share;
    char own[64] = "";

    for (size_t k = 0; k < a->run->n; k++) {
        const double *gap = a->ranks[k].split.gap_s;
        double idle = gap[LK_PART_FORWARD] + gap[LK_PART_BACKWARD];

        cost += idle / (double)a->run->n;
        length += (lk_compute_s_(a, k) + idle) / (double)a->run->n;
    }
    share = cost / length;
    if (cost < LK_FINDING_LOSS_SHARE * a->step_s || share < idle_share)
        return LK_OK;
    if (recording > 0)
        snprintf(own, sizeof own, " (%s more while recorded)", lk_time_text_(recording).buf);
    return lk_finding_add_(
        a, LK_FINDING_LAUNCH_BOUND, -1, cost,
        "launch bound: no kernel runs in %.0f %% of %s, %s a step%s; kernels end before the host "
        "has launched the next",
        100 * share,
        lk_run_periods(a->run) ? "the time from a step's first kernel to its last"
                               : "forward and backward",
        lk_time_text_(cost).buf, own);
}
